"""Bytes of a log -> numbered clean lines.

Logs are hostile: progress bars that rewrite a line with CR, colour codes, NULs, broken UTF-8, lines of megabytes, a
tear where a bounded capture left its middle out. The reader never fails on any of it, keeps the line numbers of the
bytes (`b"\n"` counts, nothing else), and needs time linear in the input.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stillruns.model.evidence import Cut
from stillruns.model.expression import Expression

MAX_BYTES = 8192
"""Of a longer line, the first and the last half of this are kept."""
MAX_PARTS = 16
"""Of a line that was rewritten more often (CR), the first and the last half of this many states are kept."""
MAX_EXCERPT = 500
"""Characters of an excerpt."""

LONG_MARK = " […] "
"""Stands for what was left out of a long line."""

_ANSI = Expression(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor
    r"|\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)"  # OSC: titles, links
    r"|[@-Z\\^_])"
)
_CONTROL = dict.fromkeys((*range(9), *range(10, 32), 127))
_VISIBLE = {code: chr(0x2400 + code) for code in range(32)} | {127: "␡"}
# Bidirectional overrides can make an excerpt read as something else than it is.
_VISIBLE |= {
    code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029, 0x85)
}


class CleanLine(NamedTuple):
    """One state of one line: `number` counts from 1; a line rewritten with CR yields several with one number.

    `text` is what a terminal would show: no colour codes, no control characters save tab. `torn` says that the
    line is not whole: it was longer than MAX_BYTES, lies at the cut of a bounded capture, or ends without a newline
    (`unended`). `beside` says that nothing speaks for it but that it stands just after a death.
    """

    number: int
    text: str
    torn: bool = False
    unended: bool = False
    beside: bool = False


def lines(data: bytes, cut: Cut | None = None, before: int = 0) -> Iterator[CleanLine]:
    """The lines of `data` in order. `cut` marks the line at which a bounded capture lost its middle; `before` lines
    came before these."""
    start, number, size = 0, before, len(data)
    seam = cut.head if cut else -1
    while start < size:
        end = data.find(b"\n", start)
        unended = end < 0
        if unended:
            end = size
        number += 1
        torn = start <= seam <= end
        yield from (
            _states(data[start:end], number, torn, unended)
            if end - start <= MAX_BYTES
            else _states(_shorten(data, start, end), number, True, unended)
        )
        start = end + 1


def _shorten(data: bytes, start: int, end: int) -> bytes:
    half = MAX_BYTES // 2
    return data[start : start + half] + LONG_MARK.encode() + data[end - half : end]


def _states(raw: bytes, number: int, torn: bool, unended: bool) -> Iterator[CleanLine]:
    if raw.endswith(b"\r"):
        raw = raw[:-1]
    parts = raw.split(b"\r") if b"\r" in raw else [raw]
    if len(parts) > 1:
        parts = [part for part in parts if part.strip()] or [b""]
        if len(parts) > MAX_PARTS:
            parts = parts[: MAX_PARTS // 2] + parts[-MAX_PARTS // 2 :]
    for part in parts:
        yield CleanLine(number, clean(part), torn, unended)


def clean(raw: bytes) -> str:
    """Text of one line's bytes: broken UTF-8 replaced, colour codes and control characters gone (tab stays)."""
    text = raw.decode("ascii") if raw.isascii() else raw.decode("utf-8", "replace")
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return text if text.isprintable() else text.translate(_CONTROL)


def visible(text: str, limit: int = MAX_EXCERPT) -> str:
    """An excerpt that cannot act: control characters and direction marks are shown as signs, the end is bounded.

    Excerpts are part of verdicts, whose digests must be equal on all machines: what is replaced comes from the table
    above and not, as on the way to a terminal (`report.columns`), from the Unicode tables of this Python.
    """
    shown = text if text.isprintable() else text.translate(_VISIBLE)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"
