"""The verdict on an environment variable."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stillruns.judge.recipe import build_time, by_release, values
from stillruns.judge.recipe.build_time import GONE
from stillruns.judge.recipe.ground import (
    FAMILY,
    Case,
    Ground,
    Option,
    cite_files,
    cite_reader,
    cite_row,
    cite_searched,
    cite_source,
    cite_string,
    cite_whole_help,
)
from stillruns.judge.recipe.made import known_env, near, same_letters, verdict
from stillruns.judge.recipe.reach import View, hits, reaches
from stillruns.model.lint import Citation, LintItem, Reading, ValueReading
from stillruns.model.option_row import OptionReader, OptionRow, Semantics, Status
from stillruns.model.recipe import Item, ItemKind, Recipe, RecipeForm, Scope

INDEXED = re.compile(r"HSA_OVERRIDE_GFX_VERSION_(\d+)\Z")
_INDEXED_ROW = "HSA_OVERRIDE_GFX_VERSION_<N>"
_ARGUMENT = "LLAMA_ARG_"
_NEGATIVE = "LLAMA_ARG_NO_"

_OLLAMA = "ollama"
_SEARCHED_FOR = ("ollama", "main", "server")
"""Programs beside llama.cpp's of which it is known what they read."""
NOT_JUDGED = frozenset(
    [
        "PATH",
        "HOME",
        "LANG",
        "LC_ALL",
        "LANGUAGE",
        "TZ",
        "TERM",
        "SHELL",
        "USER",
        "LOGNAME",
        "PWD",
        "EDITOR",
        "PAGER",
        "DISPLAY",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "PYTHONPATH",
        "VIRTUAL_ENV",
        "TMPDIR",
        "DEBIAN_FRONTEND",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "NVIDIA_VISIBLE_DEVICES",
        "NVIDIA_DRIVER_CAPABILITIES",
    ]
)
"""Variables of the shell, the loader and the container runtime: real, and none of lint's business."""
_OF_THE_LIBC = ("LD_", "GLIBC_", "MALLOC_")


def settings(recipe: Recipe) -> Iterator[Item]:
    """The variables that a recipe sets for what it starts; those of an image's build and others' business are left
    out."""
    for item in recipe.items:
        if item.kind is ItemKind.ENV and item.name not in NOT_JUDGED and item.scope is not Scope.BUILD:
            yield item


def judge(case: Case, ground: Ground, programs: tuple[str, ...]) -> LintItem | None:
    """A variable as its programs see it; None for those that are none of lint's business."""
    if case.item.name in NOT_JUDGED or case.item.name.startswith(_OF_THE_LIBC):
        return None
    view = View(case, ground, programs, tuple(ground.engines(programs)))
    row = ground.options.find("env", case.item.name)
    return (
        _indexed(view)
        or build_time.judge(view, row)
        or _argument(view)
        or _not_yet(view, row)
        or _gone(view, row)
        or _curated(view, row)
        or _computed(view)
        or _found_in_files(view)
        or _nowhere(view)
    )


def _indexed(view: View) -> LintItem | None:
    found = INDEXED.match(view.name)
    row = view.ground.options.find("env", _INDEXED_ROW)
    if not found or row is None:
        return None
    reading = Reading.WRONG_INDEX if found.group(1) == "0" else Reading.READ
    why = "the number is a KFD node, and node 0 is the CPU on most machines: the first GPU is usually 1"
    return verdict(
        view.case,
        reading,
        [cite_row(row)],
        why=why if reading is Reading.WRONG_INDEX else "the number is a KFD node, not a GPU index",
        value=(ValueReading.NO_EFFECT, "")
        if reading is Reading.WRONG_INDEX
        else values.variable(view.case.item, row, view.ground.targets),
        reader=row.reader,
        effect=row.effect,
        accepts=row.values,
        since=row.since,
        use="HSA_OVERRIDE_GFX_VERSION_1" if reading is Reading.WRONG_INDEX else "",
    )


def _argument(view: View) -> LintItem | None:
    """LLAMA_ARG_X, and LLAMA_ARG_NO_X, which llama.cpp puts together at run time."""
    if not view.name.startswith(_ARGUMENT) and not any(flag.env == view.name for flag in view.ground.options.flags):
        return None
    programs = [name for name in view.programs if view.ground.is_llama(name)]
    if not programs and (view.name.startswith(_ARGUMENT) or not view.programs):
        programs = ["llama-server"]
    for program in programs:
        option = view.ground.by_env(program, view.name)
        negative = False
        if option is None and view.name.startswith(_NEGATIVE):
            option = view.ground.by_env(program, _ARGUMENT + view.name[len(_NEGATIVE) :])
            negative = option is not None and bool(option.negatives)
            option = option if negative else None
        if option is None:
            gone = view.ground.gone(program, view.name)
            if gone is not None:
                return _stops(view, program, gone)
            continue
        engine = view.ground.installed.get(program)
        looked = view.name if not negative else _ARGUMENT + view.name[len(_NEGATIVE) :]
        found = engine.hits.get(looked, ()) if engine else ()
        evidence = [option.cited, *[cite_string(engine, hit) for hit in found[:1] if engine]]
        rule = view.ground.options.find("env", f"{_NEGATIVE}*")
        if negative and rule is not None:
            evidence.append(cite_row(rule))
        row = next((r for name in option.names if (r := view.ground.options.find("flag", name))), None)
        why = f"built at run time from {looked}: no literal of it exists" if negative else ""
        if option.deprecated:
            why = "; ".join(part for part in (why, "its flag is deprecated in this build") if part)
        value = values.argument_env(view.case.item, option, negative)
        return verdict(
            view.case,
            Reading.PRESENCE if negative else Reading.READ,
            evidence,
            why=why,
            value=value,
            program=program,
            reader=program,
            effect=f"as {option.names[-1 if negative else 0]}; the flag on the command line overrides it",
            default=option.default,
            accepts="any" if negative else values.accepts(option),
            until=row.until if row is not None and not row.until.startswith("still") else "",
            use=_load_mode(view.ground, view.name) if option.deprecated else "",
        )
    return None


def _stops(view: View, program: str, gone: Option) -> LintItem:
    """The variable of an option that is only there to stop the program: common_params_parse gives it to the handler,
    which throws (common/arg.cpp:343 at b11434)."""
    new = next((o.env for o in view.ground.options_of(program) if gone.instead in o.names and o.env), "")
    return verdict(
        view.case,
        Reading.RENAMED if new else Reading.REMOVED,
        [gone.cited],
        why=f"{program} stops at it with `the argument has been removed`",
        value=(ValueReading.NOT_ACCEPTED, ""),
        program=program,
        use=new or gone.instead,
    )


def _load_mode(ground: Ground, name: str) -> str:
    row = ground.options.find("env", name)
    return row.use if row is not None else ""


def _not_yet(view: View, row: OptionRow | None) -> LintItem | None:
    """A variable of Ollama's in a release from before it."""
    if hits(view) or (row is not None and (row.owner != _OLLAMA or row.status is Status.NEVER)):
        return None
    readers = [reader for reader in view.ground.readers(view.name, "env") if reader.owner == _OLLAMA]
    first = row.since if row is not None else readers[0].first if readers else ""
    if not by_release.not_yet(view, first):
        return None
    return verdict(
        view.case,
        Reading.NOT_FOUND,
        [cite_row(row) if row is not None else cite_reader(readers[0])],
        why=f"Ollama {by_release.release(view)} is older than the first release that reads it, {first}",
        value=(ValueReading.NO_EFFECT, ""),
        since=first,
    )


def _gone(view: View, row: OptionRow | None) -> LintItem | None:
    """Removed, renamed, never there, or read by nothing."""
    if row is None or row.status not in GONE:
        return None
    if hits(view) or (row.owner == _OLLAMA and by_release.still(view, row.since, row.until)):
        return None  # this build still has it
    readings = {Status.REMOVED: Reading.REMOVED, Status.RENAMED: Reading.RENAMED, Status.NEVER: Reading.NEVER}
    reading = readings.get(row.status, Reading.NOT_FOUND)
    if reading is Reading.REMOVED and row.use.partition("=")[0].isidentifier():
        reading = Reading.RENAMED
    evidence = [cite_row(row), *[cite_files(engine, view.name) for engine in view.engines if engine.files]]
    if row.status is Status.NEVER:
        evidence += cite_searched(view.ground.searched("env", view.name))
    why = row.notes if row.status is not Status.NO_READER else f"no reader anywhere: {row.effect or row.notes}"
    return verdict(
        view.case,
        reading,
        evidence,
        why=why,
        value=(ValueReading.NO_EFFECT, ""),
        reader=row.reader or None,
        effect="none today",
        since=row.since,
        until=row.until,
        use=row.use,
    )


def _curated(view: View, row: OptionRow | None) -> LintItem | None:
    if row is None:
        return None
    cited = [cite_row(row)]
    held = hits(view)
    reasons: list[str] = []
    for name in row.owner.split("|"):
        owner = view.ground.options.owner(name)
        assert owner is not None
        reached, places, reason = reaches(view, owner)
        cited += places
        if reached and view.engines and not held and owner.sign and any(e.files for e in view.engines):
            lacks = [cite_files(engine, view.name) for engine in view.engines if engine.files]
            return verdict(
                view.case, Reading.NOT_FOUND, [*cited, *lacks], value=(ValueReading.NO_EFFECT, ""), since=row.since,
                until=row.until, reader=row.reader,
                why=f"{owner.title} is loaded, but this build of it lacks the name: older or newer than the row",
            )  # fmt: skip
        if reached or held:
            return _curated_read(view, row, [*held, *cited])
        reasons.append(reason)
    meant = values.variable(view.case.item, row) if row.semantics is Semantics.PRESENCE else values.UNKNOWN
    if meant[0] is ValueReading.OTHER_MEANING:
        reasons.append(f"and where it is read, {meant[1]}")
    return verdict(
        view.case,
        Reading.OTHER,
        cited,
        why="; ".join(reasons),
        value=(ValueReading.NO_EFFECT, ""),
        reader=row.reader,
        effect=row.effect,
        use=row.use,
    )


def _curated_read(view: View, row: OptionRow, cited: list[Citation]) -> LintItem:
    cited += [cite_source(read) for read in view.ground.sources.get(view.name, ())[:2]]
    reading = Reading.PRESENCE if row.semantics is Semantics.PRESENCE else Reading.READ
    return verdict(
        view.case,
        reading,
        cited,
        why=row.notes,
        value=by_release.value(view) or values.variable(view.case.item, row, view.ground.targets),
        reader=row.reader or row.source,
        effect=row.effect,
        default=row.default,
        accepts=row.values.replace("|", " ") if row.semantics is Semantics.WORDS else row.values,
        since=row.since,
        until=row.until if not row.until.startswith("still") else "",
        use=values.repaired(view.case.item, row),
    )


def _computed(view: View) -> LintItem | None:
    """A row that the refresh script found in a release, with no curated one beside it."""
    readers = view.ground.readers(view.name, "env")
    reads = view.ground.sources.get(view.name, ())
    if not readers and not reads:
        return None
    held = hits(view)
    for reader in readers:
        owner = view.ground.options.owner(reader.owner)
        assert owner is not None
        reached, places, reason = reaches(view, owner)
        newest = next(
            (s.last for s in view.ground.options.searched if s.owner == reader.owner and s.kind == "env"), ""
        )
        gone = reader.owner == _OLLAMA and reader.last != newest
        if gone and not held and not by_release.still(view, reader.first, reader.last):
            return _until(view, reader)
        if reached or held:
            evidence = [*held, cite_reader(reader), *places, *[cite_source(read) for read in reads[:2]]]
            return verdict(view.case, Reading.READ, evidence, reader=reader.reader, since=_known(reader.first))
        if not reads:
            return verdict(
                view.case, Reading.OTHER, [cite_reader(reader), *places], why=reason, reader=reader.reader,
                value=(ValueReading.NO_EFFECT, ""),
            )  # fmt: skip
    return verdict(
        view.case, Reading.READ, [*held, *[cite_source(read) for read in reads[:3]]], reader=reads[0].place
    )


def _until(view: View, reader: OptionReader) -> LintItem:
    return verdict(
        view.case,
        Reading.REMOVED,
        [cite_reader(reader), *cite_searched(view.ground.searched("env", view.name))],
        why=f"the last release that reads it is {reader.last}",
        value=(ValueReading.NO_EFFECT, ""),
        reader=reader.reader,
        since=_known(reader.first),
        until=reader.last,
    )


def _known(text: str) -> str:
    return "" if text == "unknown" else text


def _found_in_files(view: View) -> LintItem | None:
    """No catalogue row, but an installed file holds the name and can read the environment."""
    held = hits(view)
    if not held:
        return None
    why = "not in the catalogue; the installed file holds the name"
    return verdict(view.case, Reading.READ, held, why=why, reader=held[0].place.partition("@")[0])


def _nowhere(view: View) -> LintItem | None:
    """A name that nothing is known to read: `never existed` or `not found` only where it was searched for."""
    if own_use(view.case.recipe, view.case.item) or _of_another_image(view):
        return None
    mentions = view.ground.readers(view.name, "mention")
    searched = view.ground.searched("env", view.name)
    if mentions:
        return _until(view, mentions[0])
    close = near(view.name, known_env(view.ground))
    history = [row for row in searched if row.releases > 1]
    command = view.case.command
    seen = view.programs or ((command.program,) if command and view.case.item.scope is Scope.BUILD else ())
    known = [name for name in seen if view.ground.program(name).startswith(FAMILY) or name in _SEARCHED_FOR]
    slip = [name for name in close if same_letters(name, view.name)]
    if not history and ((seen and not known) or not (searched or slip)):
        return None  # another program's, or of a family that nobody searched
    engines = [engine for engine in view.engines if engine.files]
    evidence = cite_searched(searched) + [cite_files(engine, view.name) for engine in engines]
    evidence += [cite_whole_help(engine, view.name) for engine in engines if engine.options]
    evidence += [cite_row(row) for name in slip[:1] if (row := view.ground.options.find("env", name))]
    evidence += [cite_reader(reader) for name in slip[:1] for reader in view.ground.readers(name, "env")[:1]]
    use = close[0] if close else ""
    if history:
        why = f"no release from {history[0].first} to {history[0].last} names it"
        reading = Reading.NEVER
    else:
        why = f"searched: {'; '.join(cited.place for cited in evidence[:4])}"
        reading = Reading.NOT_FOUND
    if close:
        why += f"; near: {', '.join(close)}"
    return verdict(view.case, reading, evidence, why=why, value=(ValueReading.NO_EFFECT, ""), use=use)


def _of_another_image(view: View) -> bool:
    """In an image that is not Ollama's by its name, `OLLAMA_BASE_URL` may be anybody's."""
    command = view.case.command
    if command is None or view.case.item.scope is not Scope.CONTAINER or view.programs:
        return False
    return "ollama" not in command.program.rpartition("/")[2] and "llama" not in command.program.rpartition("/")[2]


def own_use(recipe: Recipe, item: Item) -> bool:
    """Does a script, a unit or a Dockerfile fill the variable in, behind its setting?"""
    if recipe.form in (RecipeForm.COMPOSE, RecipeForm.CONFIG):
        return False  # what stands between braces there comes from outside
    return bool(re.compile(r"\$\{?" + re.escape(item.name) + r"\b").search(recipe.text, item.end))
