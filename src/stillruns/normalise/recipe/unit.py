"""systemd units: Exec lines, Environment=, and what they leave to other files (systemd.exec(5))."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stillruns.model.recipe import Comment, Scope
from stillruns.normalise.recipe.draft import ASSIGNMENT, Draft
from stillruns.normalise.recipe.programs import Unwrapper
from stillruns.normalise.recipe.shell import Script
from stillruns.normalise.recipe.words import Lexer, cut

_KEY = re.compile(r"[ \t]*([A-Za-z]\w*)[ \t]*=[ \t]*")


@dataclass(frozen=True, slots=True)
class _Entry:
    key: str
    start: int
    """Of the whole line."""
    value: int
    end: int
    line: int


def entries(text: str, start: int, end: int, line: int) -> tuple[list[_Entry], list[Comment]]:
    """`Key=value` lines with their continuations, and the comments."""
    found: list[_Entry] = []
    comments: list[Comment] = []
    at = start
    while at < end:
        stop, lines = _line(text, at, end)
        row = text[at:stop]
        if row.lstrip()[:1] in ("#", ";"):
            comments.append(Comment(row.strip().lstrip("#;").strip(), line))
        else:
            matched = _KEY.match(text, at, stop)
            if matched:
                found.append(_Entry(matched.group(1), at, matched.end(), stop, line))
        at, line = stop + 1, line + lines
    return found, comments


def _line(text: str, at: int, end: int) -> tuple[int, int]:
    """The end of the logical line at `at` (before its line end), and how many lines it takes."""
    lines = 1
    while True:
        stop = text.find("\n", at, end)
        if stop < 0:
            return end, lines
        if not text[at:stop].rstrip("\r").endswith("\\"):
            return stop, lines
        at, lines = stop + 1, lines + 1


def read(draft: Draft, start: int, end: int, line: int) -> None:
    """Add what a unit (or a drop-in) sets and starts."""
    rows, comments = entries(draft.text, start, end, line)
    draft.comments += comments
    variables: dict[str, str] = {}
    for row in rows:
        if row.key == "Environment":
            words = cut(draft.text, row.value, row.end, row.line, draft.notes)
            for word in words:
                found = ASSIGNMENT.match(word.text)
                if not found:
                    continue
                variables[found.group(1)] = word.text[found.end() :]
                alone = len(words) == 1
                draft.setting(
                    word,
                    Scope.SERVICE,
                    "Environment=",
                    start=row.start if alone else None,
                    end=row.end if alone else None,
                    style="line" if alone else "shell",
                    shift=1 if draft.text[word.start] in "\"'" else 0,
                )
        elif row.key == "EnvironmentFile":
            path = draft.text[row.value : row.end].strip()
            draft.note(f"EnvironmentFile={path} was not opened; name it as another FILE to have it judged", row.line)
    for row in rows:
        if row.key.startswith("Exec") and row.key[4:] in ("Start", "StartPre", "StartPost", "Reload"):
            _start(draft, row, variables)


def _start(draft: Draft, row: _Entry, variables: dict[str, str]) -> None:
    at = row.value
    while at < row.end and draft.text[at] in "-@:+!":
        at += 1
    lexer = Lexer(draft.text, at, row.end, row.line, variables, shell=False, notes=draft.notes)
    words = lexer.words()

    def nested(start: int, end: int, line: int, scope: Scope) -> None:
        Script(draft, scope, None, dict(variables)).read(start, end, line)

    if words:
        Unwrapper(draft, nested, Scope.SERVICE).command(words, [])
