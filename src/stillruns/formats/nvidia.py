"""NVIDIA's fat binaries, as in .nv_fatbin sections: which architectures there is machine code or PTX for.

The layout is not documented by NVIDIA; it is read as in the open descriptions of it (a header of 16 bytes, then
entries that say their kind, header length, size and architecture), and was compared with cuobjdump's list.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stillruns.errors import FormatError
from stillruns.formats.reading import Span

MAGIC = 0xBA55ED50
_BYTES = MAGIC.to_bytes(4, "little")
MOST_ENTRIES = 1 << 12
MOST_FATBINS = 1 << 14
_KINDS = {1: "compute", 2: "sm"}
_SUFFIXES = ((1 << 20, "a"), (1 << 21, "f"))
"""Bits of an entry's flags for code that is bound to one processor or one family (as fatbinary 13 writes it)."""


class Entry(NamedTuple):
    """One entry: `target` is `sm_61` (machine code), `sm_90a` (bound to that very processor) or `compute_61` (PTX),
    `processor` the same without the letter; at `offset`, `size` bytes as stored."""

    target: str
    processor: str
    offset: int
    size: int


class Fatbin(NamedTuple):
    """One fat binary; `problem` is a sentence about damage, or empty."""

    offset: int
    entries: tuple[Entry, ...] = ()
    problem: str = ""


def walk(span: Span) -> Iterator[Fatbin]:
    """The fat binaries of a section."""
    at = span.start
    for _ in range(MOST_FATBINS):
        if at + 16 > span.end:
            return
        if span.some(at, 4) != _BYTES:
            at = span.find((_BYTES,), at, 256 << 20)
            if at < 0:
                return
        entries: list[Entry] = []
        problem = ""
        stop = span.end
        try:
            for item in _entries(span, at):
                if isinstance(item, int):
                    stop = item
                else:
                    entries.append(item)
        except FormatError as error:
            problem = str(error)
        yield Fatbin(at, tuple(entries), problem)
        if problem:
            return
        at = stop
    yield Fatbin(at, (), f"there are more than {MOST_FATBINS} fat binaries; the rest is not read")


def _entries(span: Span, at: int) -> Iterator[Entry | int]:
    """First where the fat binary ends, then its entries of a known kind."""
    _, _, header, size = span.unpack("<IHHQ", at, "the header of a fat binary")
    stop = at + header + size
    if header < 16 or stop > span.end:
        raise FormatError(f"the fat binary claims {size} bytes and {span.end - at} are there", at)
    yield stop
    place = at + header
    for _ in range(MOST_ENTRIES):
        if place + 64 > stop:
            return
        row = span.unpack("<HHIQIIHHIQQ", place, "an entry of a fat binary")
        kind, length, stored, arch, flags = row[0], row[2], row[3], row[8], row[10]
        if not 64 <= length <= 4096 or place + length + stored > stop:
            raise FormatError(f"an entry of a fat binary claims {length} and {stored} bytes", place)
        if kind in _KINDS:
            processor = f"{_KINDS[kind]}_{arch}"
            letter = next((letter for bit, letter in _SUFFIXES if flags & bit), "")
            yield Entry(processor + letter, processor, place, stored)
        place += length + stored
    raise FormatError(f"the fat binary has more than {MOST_ENTRIES} entries", at)
