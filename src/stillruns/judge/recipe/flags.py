"""The verdict on a flag, and on the keys of a configuration file: they are the same options."""

from __future__ import annotations

from dataclasses import replace

from stillruns.judge.recipe import by_release, values
from stillruns.judge.recipe.ground import (
    Case,
    Ground,
    Option,
    cite_reader,
    cite_row,
    cite_searched,
    cite_source,
    cite_string,
    cite_whole_help,
    fold,
    takes,
)
from stillruns.judge.recipe.made import near, verdict
from stillruns.model.lint import Citation, LintItem, Reading, ValueReading
from stillruns.model.option_row import OptionRow, Semantics, Status

CONFIG_FILE = "/etc/llama.cpp/config.ini"
"""The string that a build holds when it reads configuration files by itself (common/arg.cpp:734 at b11434)."""


def judge(case: Case, ground: Ground) -> LintItem | None:
    """A flag of a command; None when nothing is known about the program's options."""
    command = case.command
    assert command is not None
    program = ground.program(command.program)
    if not ground.options_of(program):
        return None
    option = ground.option(program, case.item.name)
    item = _read(case, ground, program, option) if option is not None else _unread(case, ground, program)
    if ground.installed.get(program) is not None:
        return item
    names = (fold(case.item.name), *(option.names if option is not None else ()))
    return by_release.in_its_image(item, case, ground, _row(ground, names))


def _read(case: Case, ground: Ground, program: str, option: Option) -> LintItem:
    row = _row(ground, (fold(case.item.name), *option.names))
    option = _with_listed(option, row, program)
    value = values.flag(case, option, program, ground.is_llama(program))
    folded = fold(case.item.name) != case.item.name
    why = [f"underscores are taken as dashes: {fold(case.item.name)}"] if folded else []
    use = ""
    if option.deprecated:
        use = row.use if row and row.use else option.instead
        why.append(f"deprecated in this build: it says to use {option.instead or use}")
    evidence = [option.cited, *([cite_row(row)] if row else [])]
    evidence += [cite_source(read) for read in ground.sources.get(fold(case.item.name), ())[:2]]
    return verdict(
        case,
        Reading.READ,
        evidence,
        why="; ".join(why),
        value=value,
        program=program,
        reader=program,
        effect=(row.effect if row else "") or option.about,
        default=option.default or (row.default if row else ""),
        accepts=values.accepts(option),
        since=row.since if row else "",
        until=row.until if row and not row.until.startswith("still") else "",
        use=use,
    )


def _with_listed(option: Option, row: OptionRow | None, program: str) -> Option:
    """The values that a curated row lists, where the help and the handler list none. llama-bench has a parser of its
    own."""
    if row is None or row.semantics is not Semantics.ENUM or option.values or program == "llama-bench":
        return option
    return replace(option, values=values.listed(row))


def _row(ground: Ground, names: tuple[str, ...]) -> OptionRow | None:
    return next((row for name in names if (row := ground.options.find("flag", name))), None)


def _unread(case: Case, ground: Ground, program: str) -> LintItem:
    """Renamed, removed, another program's, never there, or not found."""
    name = fold(case.item.name)
    row = ground.options.find("flag", name)
    gone = ground.gone(program, name)
    if gone is not None:
        return _stops(case, ground, program, gone)
    evidence = _nowhere(ground, program, name)
    live = (flag for flag in ground.options.flags if takes(flag, program) and flag.repeat != "removed")
    newest = next((flag for flag in live if name in (*flag.names, *flag.negatives)), None)
    others = _others(ground, program, name) if newest is None else {}
    if row is not None:
        evidence.append(cite_row(row))
    if row is not None and row.status in (Status.REMOVED, Status.RENAMED):
        reading = Reading.RENAMED if row.status is Status.RENAMED else Reading.REMOVED
        why = f"{program} stops with `error: invalid argument: {name}`" if ground.is_llama(program) else ""
        return verdict(
            case, reading, evidence, why=why, program=program, since=row.since, until=row.until, use=row.use
        )
    if row is not None and row.status is Status.NEVER:
        why = row.notes
        return verdict(case, Reading.NEVER, evidence, why=why, program=program, effect="none", use=row.use)
    if others:
        names = ", ".join(sorted(others)[:4])
        return verdict(
            case,
            Reading.OTHER,
            [*evidence, *[option.cited for option in others.values()][:2]],
            why=f"an option of {names}, not of {program}",
            program=program,
            reader=sorted(others)[0],
            value=(ValueReading.NO_EFFECT, ""),
        )
    if newest is not None or row is not None:
        since = row.since if row else ""
        if newest is not None:
            evidence.append(Citation("catalogue", f"catalogue/{newest.place}", " ".join(newest.names), newest.reader))
        came = f" (it came in {since})" if since else ""
        why = (
            f"a newer {program} has it{came}, this build does not" if newest else "no build that is known here has it"
        )
        return verdict(case, Reading.NOT_FOUND, evidence, why=why, program=program, since=since)
    close = near(name, [known for option in ground.options_of(program) for known in option.names])
    why = f"searched: {'; '.join(cited.place for cited in evidence)}"
    if close:
        why += f"; near: {', '.join(close)}"
    return verdict(case, Reading.NOT_FOUND, evidence, why=why, program=program, use=close[0] if close else "")


def _stops(case: Case, ground: Ground, program: str, gone: Option) -> LintItem:
    """An option that the program still lists, only to stop at it."""
    row = _row(ground, gone.names)
    return verdict(
        case,
        Reading.REMOVED,
        [gone.cited, *([cite_row(row)] if row else [])],
        why=f"{program} still lists it, only to stop with `the argument has been removed`",
        value=(ValueReading.NO_EFFECT, ""),
        program=program,
        since=row.since if row else "",
        until=row.until if row else "",
        use=gone.instead,
    )


def _nowhere(ground: Ground, program: str, name: str) -> list[Citation]:
    engine = ground.installed.get(program)
    if engine is not None and engine.options:
        return [cite_whole_help(engine, name)]
    return cite_searched(ground.searched("flag", name))


def _others(ground: Ground, program: str, name: str) -> dict[str, Option]:
    """Other programs that take this flag, installed ones first."""
    found: dict[str, Option] = {}
    for other in ground.installed:
        option = ground.option(other, name) if other != program else None
        if option is not None:
            found[other] = option
    known = {program for flag in ground.options.flags for program in flag.programs if program != "*"}
    for other in sorted(known | {"llama-server", "llama-cli"}) if not found else ():
        option = ground.option(other, name) if other != program and other not in ground.installed else None
        if option is not None:
            found[other] = option
    return found


def configuration(case: Case, ground: Ground, programs: tuple[str, ...]) -> LintItem:
    """A key of config.ini: an option's name without dashes, or its variable (common/preset.cpp at b11434)."""
    key = case.item.name
    for program in programs:
        engine = ground.installed.get(program)
        if engine is not None and engine.files and not engine.hits.get(CONFIG_FILE):
            text = (
                f"{len(engine.files)} files of {program} hold no string {CONFIG_FILE}: this build reads no such file"
            )
            return verdict(
                case,
                Reading.NOT_FOUND,
                [Citation("string", engine.path, text)],
                why="configuration files came after this build",
                value=(ValueReading.NO_EFFECT, ""),
                program=program,
            )
    for program in programs:
        option = next(
            (o for o in ground.options_of(program) if key == o.env or key in [name.lstrip("-") for name in o.names]),
            None,
        )
        if option is not None:
            engine = ground.installed.get(program)
            hits = engine.hits.get(CONFIG_FILE, ()) if engine else ()
            return verdict(
                case,
                Reading.READ,
                [option.cited, *[cite_string(engine, hit) for hit in hits[:1] if engine]],
                why="environment variables and arguments override it",
                value=_config_value(case.item.value or "", _with_listed(option, _row(ground, option.names), program)),
                program=program,
                reader=program,
                effect=option.about,
                accepts=values.accepts(option),
            )
    return _no_such_key(case, ground, programs[0])


def _no_such_key(case: Case, ground: Ground, program: str) -> LintItem:
    """A key that no option has, today or here."""
    key = case.item.name
    row = _row(ground, (f"--{key}", f"-{key}"))
    if row is not None and row.status in (Status.REMOVED, Status.RENAMED):
        return verdict(
            case,
            Reading.RENAMED if row.status is Status.RENAMED else Reading.REMOVED,
            [cite_row(row), *_nowhere(ground, program, key)],
            why="ignored with a warning",
            value=(ValueReading.NO_EFFECT, ""),
            program=program,
            since=row.since,
            until=row.until,
            use=row.use.lstrip("-").replace(" ", " = ", 1),
        )
    known = [name.lstrip("-") for option in ground.options_of(program) for name in option.names]
    close = near(key, known)
    evidence = _nowhere(ground, program, key) or [cite_reader(r) for r in ground.readers("llama-server", "program")]
    return verdict(
        case,
        Reading.NOT_FOUND,
        evidence,
        why="ignored with a warning" + (f"; near: {', '.join(close)}" if close else ""),
        program=program,
        use=close[0] if close else "",
    )


def _config_value(value: str, option: Option) -> values.Answer:
    if option.takes_value:
        return values.against(value, option)
    if option.negatives and value not in values.TRUTHY:
        fine = value in values.FALSEY
        return (ValueReading.OK, "") if fine else (ValueReading.OTHER_MEANING, f"`{value}` is taken as off")
    return ValueReading.OK, ""
