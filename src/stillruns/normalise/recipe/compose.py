"""Compose files: image, command, entrypoint, environment of each service (the Compose specification).

Only the part of YAML that such files use: block maps and lists by indentation, flow lists, quoted and block scalars.
Anchors, merges and flow maps are named in a note instead of being guessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from stillruns.model.recipe import Comment, Scope, Word
from stillruns.normalise.recipe.dockerfile import json_words
from stillruns.normalise.recipe.draft import Draft, is_flag
from stillruns.normalise.recipe.programs import Unwrapper
from stillruns.normalise.recipe.shell import Script
from stillruns.normalise.recipe.words import Lexer

_ROW = re.compile(r"(?P<indent> *)(?P<dash>- +)?(?:(?P<key>[\w.\-/\"']+) *:(?: +|$))?(?P<rest>.*)")
_COMMENT = re.compile(r"(?:^|\s)#(.*)$")
BUILT = "an image that is built here"
"""The program of a service without `image:` whose command does not say it either."""


@dataclass(frozen=True, slots=True)
class _Row:
    indent: int
    dash: bool
    key: str
    rest: int
    """Offset where the value begins."""
    end: int
    start: int
    line: int


@dataclass(slots=True)
class _Service:
    image: str = ""
    command: list[Word] = field(default_factory=list)
    entry: list[Word] = field(default_factory=list)
    environment: list[tuple[Word, int, int, int]] = field(default_factory=list)
    """Word, shift to the name, start and end of the line."""
    where: Word | None = None


def read(draft: Draft, start: int, end: int, line: int) -> None:
    """Add what each service of a compose file sets and starts."""
    rows = _rows(draft, start, end, line)
    services = [index for index, row in enumerate(rows) if row.key == "services" and not row.dash]
    if not services:
        draft.note("no `services:` found; only compose files with services are read", line)
        return
    at = services[0] + 1
    base = rows[services[0]].indent
    level = rows[at].indent if at < len(rows) else 0
    while at < len(rows) and rows[at].indent > base:
        stop = at + 1
        while stop < len(rows) and rows[stop].indent > level:
            stop += 1
        _service(draft, rows[at + 1 : stop])
        at = stop


def _rows(draft: Draft, start: int, end: int, line: int) -> list[_Row]:
    rows: list[_Row] = []
    at = start
    while at < end:
        stop = draft.text.find("\n", at, end)
        stop = end if stop < 0 else stop
        text = draft.text[at:stop].rstrip("\r")
        comment = _COMMENT.search(text)
        if comment and text.count('"', 0, comment.start()) % 2 == 0:
            draft.comments.append(Comment(comment.group(1).strip(), line))
            text = text[: comment.start()]
        if text.strip() and not text.startswith("---"):
            found = _ROW.match(text)
            assert found
            if "<<" in (found["key"] or "") or text.lstrip().startswith("<<:"):
                draft.note("a YAML merge (<<:) was not followed", line)
            inner = found.start("rest") if found["rest"] or found["key"] else len(text)
            indent = len(found["indent"]) + (len(found["dash"]) if found["dash"] and found["key"] else 0)
            rows.append(
                _Row(
                    indent,
                    bool(found["dash"]),
                    (found["key"] or "").strip("\"'"),
                    at + inner,
                    at + len(text.rstrip()),
                    at,
                    line,
                )
            )
        at, line = stop + 1, line + 1
    return rows


def _service(draft: Draft, rows: list[_Row]) -> None:
    if not rows:
        return
    service = _Service()
    level = rows[0].indent
    at = 0
    while at < len(rows):
        stop = at + 1
        while stop < len(rows) and (rows[stop].indent > level or (rows[stop].dash and not rows[stop].key)):
            stop += 1
        row, inner = rows[at], rows[at + 1 : stop]
        if row.key == "image":
            service.image = draft.text[row.rest : row.end].strip("\"' ")
            service.where = Word(service.image, row.rest, row.end, row.line)
        elif row.key == "command":
            service.command = _command(draft, row, inner)
        elif row.key == "entrypoint":
            service.entry = _command(draft, row, inner)
        elif row.key == "environment":
            service.environment = [found for entry in inner if (found := _setting(draft, entry))]
            if draft.text[row.rest : row.end].strip():
                draft.note("`environment:` on one line was not read; give it a line for each variable", row.line)
        elif row.key == "env_file":
            draft.note("env_file was not opened; name it as another FILE to have it judged", row.line)
        at = stop
    _start(draft, service)


def _setting(draft: Draft, row: _Row) -> tuple[Word, int, int, int] | None:
    raw = draft.text[row.rest : row.end]
    quote = raw[:1] if raw[:1] in ("'", '"') else ""
    value = raw[1:-1] if quote and raw.endswith(quote) and len(raw) > 1 else raw
    dynamic = "$" in value.replace("$$", "")
    if row.key and not (row.dash and not row.key):
        name_at = draft.text.index(row.key, row.start)
        word = Word(f"{row.key}={value}", name_at, row.end, row.line, dynamic)
        return word, 0, row.start, row.end
    if "=" in value:
        word = Word(value, row.rest, row.end, row.line, dynamic, bool(quote))
        return word, len(quote), row.start, row.end
    if re.fullmatch(r"[A-Za-z_]\w*", value):  # taken from where compose runs
        return Word(f"{value}=", row.rest, row.end, row.line, True, bool(quote)), len(quote), row.start, row.end
    return None


def _command(draft: Draft, row: _Row, inner: list[_Row]) -> list[Word]:
    """A string, a flow list, a block list or a block scalar."""
    text = draft.text
    value = text[row.rest : row.end].strip()
    if value.startswith("["):
        stop = text.find("]", row.rest)
        found = json_words(text, row.rest, (stop + 1) if stop >= 0 else row.end, row.line)
        return found or _flow(draft, row, stop)
    if value in ("|", ">", "|-", ">-", "|+", ">+") or (not value and inner and not inner[0].dash):
        if not inner:
            return []
        return _words(draft, inner[0].start, inner[-1].end, inner[0].line)
    if not value:
        words: list[Word] = []
        for entry in inner:
            raw = text[entry.start : entry.end]
            begin = entry.start + raw.index("-") + 1
            begin += len(text[begin : entry.end]) - len(text[begin : entry.end].lstrip())
            item = text[begin : entry.end]
            quoted = item[:1] in ("'", '"') and item[-1:] == item[:1]
            words.append(Word(item[1:-1] if quoted else item, begin, entry.end, entry.line, "$" in item, quoted))
        return words
    quoted = value[:1] in ("'", '"') and value[-1:] == value[:1]
    return _words(draft, row.rest + quoted, (inner[-1].end if inner else row.end) - quoted, row.line)


def _flow(draft: Draft, row: _Row, stop: int) -> list[Word]:
    words: list[Word] = []
    begin = draft.text.index("[", row.rest) + 1
    for found in re.finditer(r"'([^']*)'|([^,\s\[\]]+)", draft.text[begin : stop if stop >= 0 else row.end]):
        text = found.group(1) if found.group(1) is not None else found.group(2)
        words.append(Word(text, begin + found.start(), begin + found.end(), row.line, "$" in text))
    return words


def _words(draft: Draft, start: int, end: int, line: int) -> list[Word]:
    lexer = Lexer(draft.text, start, end, line, {}, shell=False, notes=draft.notes)
    return lexer.words()


def _start(draft: Draft, service: _Service) -> None:
    words = [*service.entry, *service.command]
    index = len(draft.commands)
    in_list = any(draft.text[word.start - 2 : word.start] == "- " for word in words)
    flow = any(draft.text[word.start : word.start + 1] in "\"'" and word.literal for word in words) and not in_list
    style = "line" if in_list else ("json" if flow else "shell")
    image = service.where or (words[0] if words else Word("", 0, 0, 1))
    program = draft.names.image_program(service.image)
    ours = bool(words) and bool(draft.is_ours(words[0].text, words[1:]))
    if words and (ours or service.entry or (not program and not is_flag(words[0]))):

        def nested(start: int, end: int, line: int, scope: Scope) -> None:
            Script(draft, scope).read(start, end, line)

        Unwrapper(draft, nested, Scope.CONTAINER, style).command(words, [])
    elif program or words or service.environment:
        written = replace(image, text=service.image)
        draft.run(program or service.image or BUILT, written, words, Scope.CONTAINER, style, named=False)
    for word, shift, start, end in service.environment:
        draft.setting(
            word,
            Scope.CONTAINER,
            "environment:",
            command=index if index < len(draft.commands) else -1,
            start=start,
            end=end,
            shift=shift,
            style="line",
        )
