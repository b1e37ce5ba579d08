"""Bounded reading for the walkers of binary formats: what lies outside a span is not read, what is short says so."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from stillruns.errors import FormatError

ReadAt = Callable[[int, int], bytes]
"""`read_at(offset, n)` returns at most n bytes, fewer at the end of the input."""

_STEP = 1 << 20


def c_string(data: bytes, at: int) -> str:
    """The text from `at` to the next NUL, or to the end of the bytes."""
    end = data.find(b"\0", at)
    return data[at : end if end >= 0 else len(data)].decode("utf-8", "replace")


class Span(NamedTuple):
    """The bytes [start, end) of an input. Offsets are the input's own, not counted from `start`."""

    read_at: ReadAt
    start: int
    end: int

    def some(self, offset: int, count: int) -> bytes:
        """At most `count` bytes from `offset`; fewer at the end of the span."""
        if offset < self.start or offset >= self.end or count <= 0:
            return b""
        try:
            return self.read_at(offset, min(count, self.end - offset))
        except OSError as error:
            raise FormatError(f"the file cannot be read there: {error.strerror or error}", offset) from None

    def take(self, offset: int, count: int, what: str) -> bytes:
        """Exactly `count` bytes; FormatError that names `what` where they are not there."""
        if offset < self.start or count < 0 or offset + count > self.end:
            left = max(0, self.end - offset) if offset >= self.start else 0
            raise FormatError(f"{what} needs {count} bytes and {left} are there", max(0, offset))
        data = self.some(offset, count)
        if len(data) < count:
            raise FormatError(f"{what} ends after {len(data)} of {count} bytes", offset)
        return data

    def unpack(self, form: str, offset: int, what: str) -> tuple[int, ...]:
        """Integers in struct's notation."""
        return tuple(struct.unpack(form, self.take(offset, struct.calcsize(form), what)))

    def within(self, start: int, end: int) -> Span:
        """A part of this span; it is cut where it goes beyond."""
        return Span(self.read_at, max(self.start, start), min(self.end, end))

    def places(self, needles: tuple[bytes, ...], offset: int, most: int) -> Iterator[int]:
        """Where a needle begins in `most` bytes from `offset`, in order; nothing is read twice. Reading begins with a
        page and grows, so what is near is found at little cost."""
        longest = max(len(needle) for needle in needles)
        pattern = re.compile(b"|".join(map(re.escape, needles)))
        stop = min(self.end, offset + most)
        step = 4096
        while offset < stop:
            data = self.some(offset, min(step + longest - 1, stop - offset))
            if not data:
                return
            for match in pattern.finditer(data):
                if match.start() < step:
                    yield offset + match.start()
            offset += step
            step = min(step * 4, _STEP)

    def find(self, needles: tuple[bytes, ...], offset: int, most: int) -> int:
        """The first of `places`, or -1."""
        return next(self.places(needles, offset, most), -1)

    def skip_zeros(self, offset: int, most: int) -> int:
        """The first byte from `offset` on that is not zero; the span's end where there is none within `most`."""
        stop = min(self.end, offset + most)
        step = 4096
        while offset < stop:
            data = self.some(offset, min(step, stop - offset))
            rest = data.lstrip(b"\0")
            if rest:
                return offset + len(data) - len(rest)
            if not data:
                break
            offset += len(data)
            step = min(step * 8, _STEP)
        return self.end
