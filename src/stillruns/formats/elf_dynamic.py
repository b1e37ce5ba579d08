"""The dynamic part of an ELF file: what it needs, where it looks, which symbols it imports.

Follows the System V ABI (ELF header, section headers, .dynamic, .dynsym). Everything is bounded by the file's size;
FormatError for bytes that are not what they claim to be.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from stillruns.errors import FormatError
from stillruns.formats.reading import ReadAt, c_string

_DYNAMIC, _DYNSYM = 6, 11
_NEEDED, _RPATH, _RUNPATH = 1, 15, 29
_LARGEST = 64 << 20


@dataclass(frozen=True, slots=True)
class Dynamic:
    """`needed` DT_NEEDED names; `search` DT_RUNPATH or DT_RPATH folders ($ORIGIN not replaced); `imports` maps each
    undefined symbol (version suffix cut) to the file offset of its entry in .dynsym."""

    needed: tuple[str, ...]
    search: tuple[str, ...]
    imports: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Section:
    kind: int
    offset: int
    size: int
    link: int
    entry: int


def read(read_at: ReadAt, size: int) -> Dynamic:
    """The dynamic section and imports of an ELF file of `size` bytes; a static file has none of either."""
    head = read_at(0, 64)
    if len(head) < 52 or head[:4] != b"\x7fELF":
        raise FormatError("no ELF file", 0)
    wide, order = head[4] == 2, "<" if head[5] == 1 else ">"
    sections = _sections(read_at, size, head, wide, order)
    needed: list[str] = []
    search: list[str] = []
    imports: dict[str, int] = {}
    for section in sections:
        if section.kind == _DYNAMIC:
            names = _strings(read_at, size, sections, section.link)
            for tag, value in _entries(_take(read_at, size, section), wide, order):
                if tag == _NEEDED:
                    needed.append(c_string(names, value))
                elif tag in (_RPATH, _RUNPATH):
                    search += [part for part in c_string(names, value).split(":") if part]
        elif section.kind == _DYNSYM:
            names = _strings(read_at, size, sections, section.link)
            imports |= _imports(_take(read_at, size, section), section.offset, names, wide, order)
    return Dynamic(tuple(needed), tuple(search), imports)


def _sections(read_at: ReadAt, size: int, head: bytes, wide: bool, order: str) -> list[_Section]:
    try:
        if wide:
            table = struct.unpack_from(order + "Q", head, 40)[0]
            entry, count = struct.unpack_from(order + "HH", head, 58)
        else:
            table = struct.unpack_from(order + "I", head, 32)[0]
            entry, count = struct.unpack_from(order + "HH", head, 46)
    except struct.error as error:
        raise FormatError("the ELF header is cut short", 0) from error
    if not count:
        return []
    if entry < (64 if wide else 40) or table + entry * count > size:
        raise FormatError("the section headers lie outside the file", table)
    data = read_at(table, entry * count)
    found: list[_Section] = []
    for index in range(count):
        if wide:
            kind, _, _, offset, length, link, _, _, each = struct.unpack_from(
                order + "IQQQQIIQQ", data, index * entry + 4
            )
        else:
            kind, _, _, offset, length, link, _, _, each = struct.unpack_from(
                order + "IIIIIIIII", data, index * entry + 4
            )
        found.append(_Section(kind, offset, length, link, each))
    return found


def _take(read_at: ReadAt, size: int, section: _Section) -> bytes:
    if section.offset + section.size > size or section.size > _LARGEST:
        raise FormatError("a section lies outside the file", section.offset)
    return read_at(section.offset, section.size)


def _strings(read_at: ReadAt, size: int, sections: list[_Section], link: int) -> bytes:
    if link >= len(sections):
        raise FormatError("a string table is missing")
    return _take(read_at, size, sections[link])


def _entries(data: bytes, wide: bool, order: str) -> list[tuple[int, int]]:
    form = struct.Struct(order + ("QQ" if wide else "II"))
    whole = len(data) // form.size * form.size
    return [(int(tag), int(value)) for tag, value in form.iter_unpack(data[:whole])]


def _imports(data: bytes, base: int, names: bytes, wide: bool, order: str) -> dict[str, int]:
    form = struct.Struct(order + ("IBBHQQ" if wide else "IIIBBH"))
    found: dict[str, int] = {}
    for index in range(len(data) // form.size):
        row = form.unpack_from(data, index * form.size)
        section = row[3] if wide else row[5]
        if section == 0 and row[0]:
            found[c_string(names, row[0]).partition("@")[0]] = base + index * form.size
    return found
