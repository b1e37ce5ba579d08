"""The corrected recipe: the smallest edits of the user's own text after which every name is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from stillruns.judge.recipe.conflicts import given
from stillruns.judge.recipe.ground import FAMILY, Ground, fold
from stillruns.judge.recipe.made import near
from stillruns.judge.recipe.variables import own_use
from stillruns.model.lint import Edit, LintItem, Reading, ValueReading
from stillruns.model.recipe import BUILDERS, UNEXPORTED, Item, ItemKind, Recipe

_GONE = (Reading.REMOVED, Reading.RENAMED, Reading.NEVER, Reading.NOT_FOUND, Reading.OTHER, Reading.BUILD_TIME)


_HULL = re.compile(r"[ \t]*(export|ENV|Environment=|environment:)[ \t]*\Z")


_PROMPT = re.compile(r"[ \t>]*(?:[\w.-]+@[\w.-]+[:~\w/.\-]*)?[$#%][ \t]+")
"""A shell's prompt, which goes away with the only command behind it."""


_LONG = 6
"""Of a shorter flag (`-tps`) nobody can say which other one it was meant to be."""
_SERVERS = ("ollama", "main", "server", "vllm")
"""Programs beside llama.cpp's whose variables are known."""


@dataclass(frozen=True, slots=True)
class _Change:
    start: int
    end: int
    text: str
    line: int
    why: str


def correct(
    recipe: Recipe, judged: Sequence[tuple[Item, LintItem]], ground: Ground
) -> tuple[str | None, tuple[Edit, ...]]:
    """(the corrected text or None, its edits). `judged` pairs the items of this recipe with their verdicts."""
    changes: list[_Change] = []
    chosen: dict[tuple[int, str], int] = {}
    for item, verdict in judged:
        change = _change(recipe, item, verdict, ground)
        if change is None:
            continue
        option = change.text.split(" ")[0] if item.kind is ItemKind.FLAG else ""
        if option and (item.command, option) in chosen:
            before = chosen[(item.command, option)]
            first = changes[before]
            changes[before] = _removal(
                recipe, first.start, first.end, item.style, first.line, f"{option} once is enough"
            )
        if option:
            chosen[(item.command, option)] = len(changes)
        changes.append(change)
    changes += _duplicates(recipe, ground)
    return _apply(recipe.text, changes)


def _apply(text: str, changes: list[_Change]) -> tuple[str | None, tuple[Edit, ...]]:
    edits: list[Edit] = []
    out: list[str] = []
    at = 0
    for change in sorted(changes, key=lambda change: (change.start, -change.end)):
        if change.start < at and (change.end <= at or change.text):
            continue  # inside a larger change
        start = max(at, change.start)
        before = text[start : change.end]
        out += [text[at:start], change.text]
        at = change.end
        edits.append(Edit(change.line, before.strip("\n"), change.text.strip("\n"), change.why))
    return (_tidy(text, "".join([*out, text[at:]])) if edits else None), tuple(edits)


def _tidy(before: str, after: str) -> str:
    """What removals leave behind: an `export` without names (it would print the environment), an `environment:`
    without entries, a continuation whose next line is gone (it would swallow the command after it)."""
    old = set(before.split("\n"))
    rows: list[str] = []
    left = after.split("\n")
    for number, row in enumerate(left):
        if row not in old and _HULL.match(row):
            continue
        following = left[number + 1] if number + 1 < len(left) else ""
        bare = row.strip() == "environment:" and _indent(following) <= _indent(row)
        if bare and f"{row}\n{following}\n" not in f"{before}\n":
            continue
        if rows and not row.strip() and rows[-1].endswith("\\") and f"{rows[-1]}\n{row}\n" not in before:
            rows[-1] = rows[-1][:-1].rstrip()
            continue
        rows.append(row)
    return "\n".join(rows) + ("\n" if after.endswith("\n") and rows and rows[-1] else "")


def _stands(recipe: Recipe, item: Item) -> bool:
    """Does the name stand where the item is? What came out of a variable cannot be changed where it is used."""
    return item.name in recipe.text[item.start : item.end]


def _indent(row: str) -> int:
    """Of a list entry, that of what stands behind the dash: entries may begin where their key does."""
    return len(row) - len(row.lstrip(" -"))


def _change(recipe: Recipe, item: Item, verdict: LintItem, ground: Ground) -> _Change | None:
    if item.kind is ItemKind.FLAG and not _stands(recipe, item):
        return None
    if item.kind is ItemKind.FLAG:
        return _flag(recipe, item, verdict, ground)
    if item.kind is ItemKind.ENV and item.how == UNEXPORTED:
        return _Change(item.start, item.start, "export ", item.line, verdict.why)
    if item.kind is ItemKind.ENV:
        return _variable(recipe, item, verdict)
    if item.kind is ItemKind.CMAKE:
        return _cmake(recipe, item, verdict)
    if item.kind is ItemKind.PROGRAM and verdict.verdict is Reading.RENAMED and verdict.use:
        return _Change(item.name_start, item.name_end, verdict.use, item.line, verdict.why or "renamed")
    if item.kind is ItemKind.CONFIG and not verdict.good:
        return _removal(recipe, item.start, item.end, "line", item.line, verdict.why)
    return None


def _flag(recipe: Recipe, item: Item, verdict: LintItem, ground: Ground) -> _Change | None:
    command = recipe.commands[item.command]
    ground = ground.of(command.scope)
    option = ground.option(command.program, item.name)
    with_value = item.follows.end if item.follows is not None and item.value is not None else item.end
    if option is None and verdict.good:
        return None  # gone in the newest release, and read by the older one that runs
    if option is None:
        use = re.sub(r"\s*\(.*\)", "", verdict.use or "")
        end = with_value if not item.joined else item.end
        if verdict.verdict is Reading.NOT_FOUND and (
            len(item.name) < _LONG or use not in near(fold(item.name), [use])[:1]
        ):
            use = ""
        if verdict.verdict is Reading.NOT_FOUND and _is_given(recipe, item, use):
            use = ""
        if use and verdict.verdict is Reading.NOT_FOUND:
            return _Change(item.name_start, item.name_end, use, item.line, f"{item.name} is not known; {use} is")
        if use and use.startswith("-"):
            takes = _takes(ground, command.program, use)
            keeps = " " not in use and takes  # another name for the same thing: the value that stands there stays
            end = item.end if item.value is not None and (keeps or not takes) else end
            return _words(
                recipe, item, item.start, _end_for(item, use, end), use, verdict.why or verdict.verdict.value
            )
        return _removal(recipe, item.start, end, item.style, item.line, f"{item.name}: {verdict.verdict.value}")
    if option.deprecated and verdict.use and verdict.use.startswith("-"):
        use = re.sub(r"\s*\(.*\)", "", verdict.use)
        if " " in use or not option.takes_value:
            return (
                _words(recipe, item, item.start, item.end, use, f"{item.name} is deprecated") if " " in use else None
            )
    if verdict.value_verdict is not ValueReading.NOT_ACCEPTED:
        return None
    if item.joined:
        name, _, value = recipe.text[item.start : item.end].partition("=")
        words = [name.strip("\"'"), value.strip("\"'")] if item.style == "json" else [name, value]
        return _Change(item.start, item.end, _join(recipe, item, words), item.line, "the value is a word of its own")
    if option.takes_value and item.value is None and "on" in option.values:
        return _words(
            recipe, item, item.start, item.end, f"{item.name} on", f"{item.name} needs a value in this build"
        )
    if not option.takes_value and item.follows is not None:
        return _removal(
            recipe, item.follows.start, item.follows.end, item.style, item.line, f"{item.name} takes no value"
        )
    return None


def _is_given(recipe: Recipe, item: Item, use: str) -> bool:
    """Does the same command give that flag already?"""
    return any(fold(other.name) == use for other in recipe.of_command(item.command))


def _end_for(item: Item, use: str, end: int) -> int:
    """A switch that is replaced leaves the next word alone; an option with a value takes its value along."""
    return item.end if item.value is None or item.joined else end


def _takes(ground: Ground, program: str, use: str) -> bool:
    option = ground.option(program, use.split(" ")[0])
    return option is not None and option.takes_value


def _join(recipe: Recipe, item: Item, words: list[str]) -> str:
    """Words as the file separates them: blanks, quoted and with commas, or a list line each."""
    if item.style == "json":
        return ", ".join(f'"{word}"' for word in words)
    if item.style == "line":
        row_start = recipe.text.rfind("\n", 0, item.start) + 1
        return f"\n{recipe.text[row_start : item.start]}".join(words)
    return " ".join(words)


def _words(recipe: Recipe, item: Item, start: int, end: int, use: str, why: str) -> _Change:
    return _Change(start, end, _join(recipe, item, use.split(" ")), item.line, why)


def _variable(recipe: Recipe, item: Item, verdict: LintItem) -> _Change | None:
    reading, use = verdict.verdict, verdict.use or ""
    if reading is Reading.WRONG_INDEX or (reading is Reading.RENAMED and use.isidentifier()):
        return _Change(item.name_start, item.name_end, use, item.line, verdict.why)
    if reading in (Reading.RENAMED, Reading.READ) and re.fullmatch(r"[A-Z_]+=\S+", use):
        end = max(_value_end(recipe, item), item.name_end)
        if (
            recipe.text[item.name_end : end].lstrip(" \t\"'").startswith(":")
        ):  # `NAME: value`, a map of a compose file
            name, _, value = use.partition("=")
            quote = recipe.text[item.name_end : item.name_end + 1].strip(": \t")
            return _Change(item.name_start, item.end, f'{name}{quote}: "{value}"', item.line, verdict.why)
        return _Change(item.name_start, end, use, item.line, verdict.why)
    if _wanted_elsewhere(recipe, item):
        return None
    wrong = reading is Reading.PRESENCE and verdict.value_verdict is ValueReading.OTHER_MEANING
    if reading in _GONE or wrong:
        why = verdict.why if wrong else f"{item.name}: {reading.value}"
        start, end = item.start, item.end
        if item.style == "docker":
            lead = re.search(r"(?:-e|--env)[ =]$", recipe.text[:start][-8:])
            start -= len(lead.group()) if lead else 0
        return _removal(recipe, start, end, item.style, item.line, why, leading=item.how == "before the command")
    return None


def _wanted_elsewhere(recipe: Recipe, item: Item) -> bool:
    """May something that lint does not know want the variable: the recipe itself, a build, somebody's script?"""
    if own_use(recipe, item):
        return True
    own = item.command >= 0
    sees = [recipe.commands[item.command]] if own else [c for c in recipe.commands if c.line >= item.line]
    if not sees:
        return False
    if not any(c.program.startswith(FAMILY) or c.program in _SERVERS for c in sees):
        return True
    return any(c.program in BUILDERS or c.program.endswith((".sh", ".py")) for c in sees)


def _value_end(recipe: Recipe, item: Item) -> int:
    """The end of `NAME=value`: a quote that opened before the name stays behind the value."""
    text = recipe.text[item.name_end : item.end].rstrip()
    opened = recipe.text[item.name_start - 1 : item.name_start]
    return item.name_end + len(text.removesuffix(opened) if opened in ("'", '"') else text)


def _cmake(recipe: Recipe, item: Item, verdict: LintItem) -> _Change | None:
    use = verdict.use or ""
    if item.how == "make" and verdict.verdict is Reading.REMOVED and item.command >= 0:
        command = recipe.commands[item.command]
        end = max([word.end for word in command.words] or [command.written.end])
        return _Change(command.written.start, end, use, item.line, verdict.why)
    if verdict.verdict in (Reading.RENAMED, Reading.NOT_FOUND) and use.isidentifier():
        return _Change(item.name_start, item.name_end, use, item.line, verdict.why)
    if verdict.verdict in _GONE:
        return _removal(recipe, item.start, item.end, "shell", item.line, f"{item.name}: {verdict.verdict.value}")
    return None


def _duplicates(recipe: Recipe, ground: Ground) -> list[_Change]:
    """All but the last of each option that overrides itself."""
    found: list[_Change] = []
    for index in range(len(recipe.commands)):
        last: dict[tuple[str, ...], Item] = {}
        for each in given(recipe, index, ground):
            before = last.get(each.option.names)
            if each.option.repeat != "append" and before is not None and _stands(recipe, before):
                long = each.option.takes_value and before.value is not None and before.follows is not None
                end = before.follows.end if long and before.follows and not before.joined else before.end
                why = f"{each.item.name} is given again later, and the last one counts"
                found.append(_removal(recipe, before.start, end, before.style, before.line, why))
            last[each.option.names] = each.item
    return found


def _removal(
    recipe: Recipe, start: int, end: int, style: str, line: int, why: str, *, leading: bool = False
) -> _Change:
    """Take a span out with the separators that would be left over."""
    text = recipe.text
    row_start = text.rfind("\n", 0, start) + 1
    row_end = text.find("\n", end)
    row_end = len(text) if row_end < 0 else row_end
    before, after = text[row_start:start], text[end:row_end]
    before = "" if _PROMPT.fullmatch(before) else before
    if style == "line" or (not before.strip(" \t-") and style == "line"):
        return _Change(row_start, min(row_end + 1, len(text)), "", line, why)
    if style == "json":
        comma = re.match(r"\s*,\s*", text[end:])
        if comma:
            return _Change(start, end + comma.end(), "", line, why)
        lead = re.search(r"\s*,\s*\Z", text[:start])
        return _Change(start - len(lead.group()) if lead else start, end, "", line, why)
    if not before.strip() and re.fullmatch(r"\s*\\?\r?", after):
        if after.strip() == "\\" or row_start == 0 or not text[:row_start].rstrip("\r\n").endswith("\\"):
            return _Change(row_start, min(row_end + 1, len(text)), "", line, why)
        head = text[:row_start].rstrip("\r\n")[:-1].rstrip()
        return _Change(len(head), end, "", line, why)
    if leading or not before.strip() or before.rstrip().endswith("="):
        gap = re.match(r"[ \t]*;?[ \t]*", after)
        return _Change(start, end + (gap.end() if gap else 0), "", line, why)
    lead = re.search(r"[ \t]+\Z", before)
    return _Change(start - len(lead.group()) if lead else start, end, "", line, why)
