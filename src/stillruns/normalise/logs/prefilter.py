"""Blocks of bytes -> the numbered lines that a reader may need.

Most lines of a big journal match nothing. Whether a line can matter, the literals tell that the rules, the patterns
and the readers name (their anchors); only lines that hold one are decoded and read. After a line that speaks of a
death, the next lines are delivered whatever they hold, since stack dumps have no anchors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from stillruns.normalise.logs.reader import Line, lines

_LONGEST_TAIL = 1 << 16


@dataclass
class Prefilter:
    """Fed with blocks in order; `lines` counts the newlines (and a last line without one) seen so far."""

    lines: int = 0
    _tail: bytes = field(default=b"")

    def feed(self, block: bytes) -> Iterator[Line]:
        """The lines of this block that are complete."""
        data = self._tail + block if self._tail else block
        end = data.rfind(b"\n") + 1
        tail = data[end:]
        if len(tail) > _LONGEST_TAIL:
            tail = tail[: _LONGEST_TAIL // 2] + tail[-_LONGEST_TAIL // 2 :]
        self._tail = tail
        if end:
            yield from self._lines(data[:end])

    def end(self) -> Iterator[Line]:
        """The last line, where it has no newline."""
        tail, self._tail = self._tail, b""
        if tail:
            yield from self._lines(tail)

    def _lines(self, data: bytes) -> Iterator[Line]:
        before = self.lines
        for line in lines(data):
            self.lines = before + line.number
            yield replace(line, number=self.lines)
