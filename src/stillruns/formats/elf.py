"""ELF: header, sections, what the dynamic section links, and the build id.

64-bit little-endian files, as the System V ABI describes them; names of sections come from the section headers, all
about linking from the program headers, so a library without section headers still tells what it needs. Nothing but
headers, string tables, the dynamic section and notes is read, each within a bound.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from stillruns.errors import FormatError
from stillruns.formats.reading import ReadAt, Span, c_string
from stillruns.model.code_object import Linking

HEADER = 64
EM_AMDGPU = 224
NOBITS = 8
"""sh_type of a section without bytes in the file."""

MOST_SECTIONS = 1 << 16
LARGEST_NAMES = 4 << 20
LARGEST_DYNAMIC = 1 << 16
LARGEST_STRINGS = 32 << 20
LARGEST_NOTES = 1 << 16
LONGEST_NAME = 4096

_PT_LOAD, _PT_DYNAMIC, _PT_NOTE = 1, 2, 4
_DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 1, 5, 10, 14, 15, 29
_NT_GNU_BUILD_ID = 3


class Section(NamedTuple):
    """A section: its place in the file, its size in bytes, `type` as in sh_type."""

    name: str
    type: int
    address: int
    offset: int
    size: int


class Segment(NamedTuple):
    """A program header: `type` as in p_type, `size` in the file."""

    type: int
    offset: int
    address: int
    size: int


class Note(NamedTuple):
    """A note: `type` as in n_type, who defines it (its NUL included), and where in the segment's bytes its
    description begins, `size` bytes of it."""

    type: int
    owner: bytes
    start: int
    size: int


class Elf(NamedTuple):
    """What the headers say. `flags` and `abi_version` have a meaning for each machine; `problems` are sentences about
    parts that could not be read while others could."""

    type: int
    machine: int
    abi_version: int
    flags: int
    sections: tuple[Section, ...]
    segments: tuple[Segment, ...]
    linking: Linking
    build_id: str
    problems: tuple[str, ...]


def read(read_at: ReadAt, size: int) -> Elf:
    """The headers of an ELF file of `size` bytes. FormatError where it is none, or of a kind that is not read."""
    span = Span(read_at, 0, size)
    head = span.take(0, HEADER, "the header of an ELF file")
    if head[:4] != b"\x7fELF":
        raise FormatError("this is no ELF file", 0)
    if head[4] != 2 or head[5] != 1:
        raise FormatError("only 64-bit little-endian ELF files are read", 4)
    kind, machine = struct.unpack_from("<HH", head, 16)
    (flags,) = struct.unpack_from("<I", head, 48)
    problems: list[str] = []
    sections: tuple[Section, ...] = ()
    segments: tuple[Segment, ...] = ()
    linking, build_id = Linking(), ""
    try:
        sections = _sections(span, head)
    except FormatError as error:
        problems.append(f"section headers: {error}")
    try:
        segments = _segments(span, head)
        linking = _linking(span, segments)
        build_id = _build_id(span, segments)
    except FormatError as error:
        problems.append(f"program headers: {error}")
    return Elf(kind, machine, head[8], flags, sections, segments, linking, build_id, tuple(problems))


def _sections(span: Span, head: bytes) -> tuple[Section, ...]:
    (table,) = struct.unpack_from("<Q", head, 40)
    width, count, names_index = struct.unpack_from("<HHH", head, 58)
    if table == 0:
        return ()
    if width != 64:
        raise FormatError(f"section headers of {width} bytes instead of 64", 58)
    if count == 0 or names_index == 0xFFFF:  # more than 0xff00 sections: the first header holds the counts
        first = span.unpack("<IIQQQQIIQQ", table, "the first section header")
        count = count or first[5]
        names_index = first[6] if names_index == 0xFFFF else names_index
    if count > MOST_SECTIONS:
        raise FormatError(f"the file claims {count} sections", 60)
    raw = span.take(table, 64 * count, f"the table of {count} section headers")
    rows = list(struct.iter_unpack("<IIQQQQIIQQ", raw))
    if names_index >= count:
        raise FormatError(f"section {names_index} shall hold the names of {count} sections", 62)
    names = span.take(rows[names_index][4], min(rows[names_index][5], LARGEST_NAMES), "the names of the sections")
    return tuple(Section(c_string(names, row[0]), row[1], row[3], row[4], row[5]) for row in rows)


def _segments(span: Span, head: bytes) -> tuple[Segment, ...]:
    (table,) = struct.unpack_from("<Q", head, 32)
    width, count = struct.unpack_from("<HH", head, 54)
    if table == 0 or count == 0:
        return ()
    if width != 56:
        raise FormatError(f"program headers of {width} bytes instead of 56", 54)
    raw = span.take(table, 56 * count, f"the table of {count} program headers")
    return tuple(Segment(row[0], row[2], row[3], row[5]) for row in struct.iter_unpack("<IIQQQQQQ", raw))


def _linking(span: Span, segments: tuple[Segment, ...]) -> Linking:
    dynamic = next((s for s in segments if s.type == _PT_DYNAMIC and s.size), None)
    if dynamic is None:
        return Linking()
    if dynamic.size > LARGEST_DYNAMIC:
        raise FormatError(f"the dynamic section claims {dynamic.size} bytes", dynamic.offset)
    data = span.take(dynamic.offset, dynamic.size // 16 * 16, "the dynamic section")
    entries: list[tuple[int, int]] = []
    for tag, value in struct.iter_unpack("<qQ", data):
        if tag == 0:
            break
        entries.append((tag, value))
    single = dict(entries)
    if _DT_STRTAB not in single:
        return Linking()
    place = _place(segments, single[_DT_STRTAB])
    length = single.get(_DT_STRSZ, 0)
    if place is None or length > LARGEST_STRINGS:
        raise FormatError(f"the dynamic strings ({length} bytes) lie outside of what is loaded", dynamic.offset)

    def texts(wanted: int) -> tuple[str, ...]:
        found = []
        for tag, value in entries:
            if tag == wanted and value < length:
                found.append(c_string(span.some(place + value, min(LONGEST_NAME, length - value)), 0))
        return tuple(found)

    return Linking(texts(_DT_NEEDED), next(iter(texts(_DT_SONAME)), ""), _folders(texts(_DT_RPATH)),
                   _folders(texts(_DT_RUNPATH)))  # fmt: skip


def _folders(written: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(folder for text in written for folder in text.split(":") if folder)


def _place(segments: tuple[Segment, ...], address: int) -> int | None:
    """Where in the file an address lies."""
    for segment in segments:
        if segment.type == _PT_LOAD and segment.address <= address < segment.address + segment.size:
            return address - segment.address + segment.offset
    return None


def _build_id(span: Span, segments: tuple[Segment, ...]) -> str:
    for segment in segments:
        if segment.type != _PT_NOTE:
            continue
        data = span.some(segment.offset, min(segment.size, LARGEST_NOTES))
        for note in notes(data):
            if note.type == _NT_GNU_BUILD_ID and note.owner == b"GNU\0" and note.size <= 64:
                return data[note.start : note.start + note.size].hex()
    return ""


def notes(data: bytes) -> Iterator[Note]:
    """The notes of a PT_NOTE segment; the last may claim more than is there."""
    place = 0
    while place + 12 <= len(data):
        name_size, size, kind = struct.unpack_from("<III", data, place)
        start = place + 12 + (name_size + 3) // 4 * 4
        yield Note(kind, data[place + 12 : place + 12 + name_size], start, size)
        place = start + (size + 3) // 4 * 4
