"""Dockerfiles: ENV, ARG, RUN, CMD, ENTRYPOINT (the Dockerfile reference)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from stillruns.model.recipe import Comment, Scope, Word
from stillruns.normalise.recipe.draft import ASSIGNMENT, Draft
from stillruns.normalise.recipe.programs import Unwrapper
from stillruns.normalise.recipe.shell import Script
from stillruns.normalise.recipe.words import Lexer

_INSTRUCTION = re.compile(r"[ \t]*([A-Za-z]+)[ \t]+")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.S)


@dataclass(slots=True)
class _File:
    draft: Draft
    variables: dict[str, str]
    image: str = ""
    entry: list[Word] | None = None
    command: list[Word] | None = None

    def nested(self, start: int, end: int, line: int, scope: Scope) -> None:
        """A shell slice inside."""
        Script(self.draft, scope, None, dict(self.variables)).read(start, end, line)


def read(draft: Draft, start: int, end: int, line: int) -> None:
    """Add what a Dockerfile sets, builds and starts."""
    file = _File(draft, {})
    text, at = draft.text, start
    while at < end:
        stop, lines = _instruction_end(text, at, end)
        row = text[at:stop]
        if row.lstrip().startswith("#"):
            draft.comments.append(Comment(row.strip().lstrip("#").strip(), line))
        else:
            found = _INSTRUCTION.match(text, at, stop)
            if found:
                _instruction(file, found.group(1).upper(), at, found.end(), stop, line)
        at, line = stop + 1, line + lines
    _finish(file)


def _instruction_end(text: str, at: int, end: int) -> tuple[int, int]:
    """End of the instruction at `at`: continued lines, and comment lines between them."""
    lines = 1
    continued = False
    while True:
        stop = text.find("\n", at, end)
        if stop < 0:
            return end, lines
        row = text[at:stop].strip()
        comment = row.startswith("#")
        if not (row.endswith("\\") or (comment and continued)):
            return stop, lines
        continued = continued or row.endswith("\\")
        at, lines = stop + 1, lines + 1


def _instruction(file: _File, name: str, start: int, value: int, end: int, line: int) -> None:
    draft = file.draft
    if name == "FROM":
        _finish(file)
        file.entry = file.command = None
        file.image = draft.text[value:end].split()[0] if draft.text[value:end].split() else ""
    elif name in ("ENV", "ARG"):
        _settings(file, name, start, value, end, line)
    elif name == "RUN":
        words = json_words(draft.text, value, end, line)
        if words is not None:
            Unwrapper(draft, file.nested, Scope.BUILD, "json").command(words, [])
        else:
            whole = draft.text
            draft.text = _without_comments(whole, value, end)
            file.nested(value, end, line, Scope.BUILD)
            draft.text = whole
    elif name in ("CMD", "ENTRYPOINT"):
        words = json_words(draft.text, value, end, line)
        if words is None:
            if name == "CMD":
                file.command = None
            file.nested(value, end, line, Scope.CONTAINER)
        elif name == "CMD":
            file.command = words
        else:
            file.entry = words


def _without_comments(text: str, start: int, end: int) -> str:
    """Comment lines between continued lines vanish before the shell sees them; lengths and lines stay."""
    rows = text[start:end].split("\n")
    kept = [row if not row.lstrip().startswith("#") or not row else " " * (len(row) - 1) + "\\" for row in rows]
    return text[:start] + "\n".join(kept) + text[end:]


def _settings(file: _File, name: str, start: int, value: int, end: int, line: int) -> None:
    draft = file.draft
    lexer = Lexer(draft.text, value, end, line, file.variables, shell=False, notes=draft.notes)
    words = lexer.words()
    if words and not ASSIGNMENT.match(words[0].text) and name == "ENV" and len(words) > 1:
        first, last = words[0], words[-1]
        joined = f"{first.text}={' '.join(word.text for word in words[1:])}"
        words = [replace(first, text=joined, end=last.end)]
    for word in words:
        found = ASSIGNMENT.match(word.text)
        if not found:
            continue
        if not word.dynamic:
            file.variables[found.group(1)] = word.text[found.end() :]
        alone = len(words) == 1
        if name == "ARG":
            continue  # seen by RUN lines only, and there only by those that use it
        draft.setting(
            word,
            Scope.CONTAINER,
            "ENV",
            start=start if alone else None,
            end=end if alone else None,
            style="line" if alone else "shell",
        )


def _finish(file: _File) -> None:
    """ENTRYPOINT and CMD together are the command; an image that we know has an entry point of its own."""
    entry, command = file.entry, file.command
    file.entry = file.command = None
    if entry is None and command is None:
        return
    words = [*(entry or []), *(command or [])]
    if not words:
        return
    program = "" if entry else file.draft.names.image_program(file.image)
    if program and not file.draft.is_ours(words[0].text, words[1:]):
        file.draft.run(program, words[0], words, Scope.CONTAINER, "json", named=False)
        return
    Unwrapper(file.draft, file.nested, Scope.CONTAINER, "json").command(words, [])


def json_words(text: str, start: int, end: int, line: int) -> list[Word] | None:
    """`["a", "b"]` as words that span their quotes; None when the slice is no such list."""
    inside = text[start:end].strip()
    if not (inside.startswith("[") and inside.endswith("]")):
        return None
    words: list[Word] = []
    for found in _STRING.finditer(text, start, end):
        row = line + text.count("\n", start, found.start())
        words.append(Word(_unescape(found.group()[1:-1]), found.start(), found.end(), row, literal=True))
    return words


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"n": "\n", "t": "\t"}.get(found.group(1), found.group(1)), text)
