"""Go's log/slog text lines: `time=... level=INFO source=server.go:431 msg="starting runner" cmd="..."`."""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache

import msgspec

_HEAD = re.compile(
    r"(?:time=(?P<time>[^ ]{1,40}) )?level=(?P<level>[A-Z+\-0-9]{1,12}) "
    r'(?:source=(?P<file>[\w.-]{1,80}):(?P<line>\d{1,6}) )?msg=(?P<msg>"(?:[^"\\]|\\.){0,400}"?|[^ "]{0,400})'
)
_PAIR = re.compile(r'(?P<key>"[^"]{1,80}"|[A-Za-z_][\w.-]{0,80})=(?:"(?P<quoted>(?:[^"\\]|\\.)*)"?|(?P<bare>[^ "]*))')
_ESCAPE = re.compile(r"\\(.)")
_EPOCH = datetime(1970, 1, 1)


class Head(msgspec.Struct, frozen=True):
    """`time` as written or empty, `file` and `line` of the call, `message` without its quotes."""

    time: str
    level: str
    file: str
    line: int
    message: str


def head(text: str) -> Head | None:
    """The head of a slog line, or None for any other line."""
    if not text.startswith(("time=", "level=")):
        return None
    found = _HEAD.match(text)
    if not found:
        return None
    message = found["msg"]
    if message.startswith('"'):
        message = plain(message.strip('"'))
    return Head(found["time"] or "", found["level"], found["file"] or "", int(found["line"] or 0), message)


def attributes(text: str) -> dict[str, str]:
    """`id=0 library=ROCm name="a b"` as a mapping; the first of two equal keys counts, escapes are undone."""
    found: dict[str, str] = {}
    for match in _PAIR.finditer(text):
        value = match["quoted"]
        found.setdefault(match["key"].strip('"'), plain(value) if value is not None else match["bare"])
    return found


def value(text: str) -> str:
    """One value that stands at the beginning of `text`, with or without quotes."""
    if text.startswith('"'):
        end = 1
        while end < len(text) and text[end] != '"':
            end += 2 if text[end] == "\\" else 1
        return plain(text[1:end])
    return text.split(" ", 1)[0]


def plain(text: str) -> str:
    """Escapes undone; a line break becomes a blank, so that the text stays one line."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda m: " " if m[1] in "nrt" else m[1], text)


@lru_cache(maxsize=4096)
def local_seconds(time: str) -> float | None:
    """Seconds of a wall clock without its zone (`2026-03-07T01:26:44.767+09:00`), for comparing times of one host;
    None for anything else."""
    if len(time) < 19:
        return None
    try:
        return (datetime.fromisoformat(time[:19]) - _EPOCH).total_seconds() + _fraction(time)
    except ValueError:
        return None


def _fraction(time: str) -> float:
    digits = re.match(r"\.(\d{1,9})", time[19:])
    return float("0." + digits[1]) if digits else 0.0
