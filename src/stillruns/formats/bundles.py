"""Clang's offload bundles, plain and compressed: the entries of each, without their code.

Layouts: clang's OffloadBundler documentation.

plain        the magic, a count, and for each entry its offset (counted from the magic), size, length of its id, id
compressed   `CCOB`, version, method (0 zlib, 1 zstd), sizes, checksum: 20 bytes in version 1, which does not tell its
             own length, 24 in version 2, 32 in version 3; then the plain bundle, packed

A section holds one bundle for each translation unit, padded with zeros to 4,096 bytes. Of a compressed bundle only
the head is unpacked.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from stillruns.errors import FormatError
from stillruns.formats import amdgpu, zstd
from stillruns.formats.reading import Span

MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
COMPRESSED = b"CCOB"

MOST_ENTRIES = 4096
LONGEST_ID = 1024
LARGEST_TABLE = 1 << 20
"""Bytes of a bundle's table that are read or unpacked; 4,096 entries of ordinary length are a quarter of it."""
MOST_PADDING = 64 << 20
"""Zeros that are walked past in one go; alignment needs 4,095."""
MOST_SEARCHED = 256 << 20
"""Bytes that are searched for the next bundle where none begins where it should."""
MOST_BUNDLES = 1 << 14
"""Bundles in one section; the largest real library (1.9 GB) has 235."""
MOST_TRIED = 1 << 12
"""Magic bytes without a credible header behind them that are passed in one search."""
MOST_DAMAGED = 64
_PAGE = 4096
_ENTRY = struct.Struct("<QQQ")
_METHODS = {0: "zlib", 1: "zstd"}
_HEADERS = {1: ("<I", 20), 2: ("<II", 24), 3: ("<QQ", 32)}


class Entry(NamedTuple):
    """One entry: its id as written, the target in it (empty for the host), size in bytes, and its code's header where
    that was read. `offset` is the code's place in the file; in a compressed bundle it is the bundle's."""

    id: str
    target: str
    size: int
    offset: int
    code: amdgpu.Code | None


class Bundle(NamedTuple):
    """One bundle at `offset` of the file. `form` is `plain`, `code object` or such as `v2/zstd`; `size` in bytes is
    None where the format does not tell it; `problem` is a sentence about damage, or empty."""

    offset: int
    form: str
    size: int | None = None
    entries: tuple[Entry, ...] = ()
    problem: str = ""


def compressed_size(head: bytes) -> int | None:
    """The whole size that a compressed bundle's first 32 bytes claim (None in version 1); FormatError for damage."""
    return _sizes(head, 0)[2]


def walk(span: Span) -> Iterator[Bundle]:
    """The bundles of a section or file. Damage gives a bundle with a problem and no entries; where another bundle can
    be found behind it, the walk goes on there."""
    at = span.start
    searched = 0
    found = damaged = 0
    while at < span.end:
        if found >= MOST_BUNDLES or damaged >= MOST_DAMAGED:
            what = f"{MOST_BUNDLES} bundles" if damaged < MOST_DAMAGED else f"{MOST_DAMAGED} damaged bundles"
            yield Bundle(at, "damaged", problem=f"there are more than {what}; the rest is not read")
            return
        found += 1
        try:
            head = span.some(at, _PAGE)
            if not head.strip(b"\0"):
                at = span.skip_zeros(at, MOST_PADDING)
                continue
            zeros = len(head) - len(head.lstrip(b"\0"))
            at += zeros
            bundle = _one(span, at, span.some(at, _PAGE) if zeros else head)
        except FormatError as error:
            bundle = Bundle(at, "damaged", problem=str(error))
        yield bundle
        damaged += bundle.form == "damaged"
        if bundle.size:
            at += bundle.size
            continue
        nearby = max(0, MOST_SEARCHED - searched)
        after = _next(span, at + 4, nearby)
        searched += (after if after >= 0 else span.end) - at
        if after < 0:
            return
        at = after


def _one(span: Span, at: int, head: bytes) -> Bundle:
    if head.startswith(MAGIC):
        return _plain(span, at, head)
    if head.startswith(COMPRESSED):
        return _compressed(span, at, head)
    code = amdgpu.header(head)
    if code is not None:
        return Bundle(at, "code object", span.end - at, (Entry("", code.target, span.end - at, at, code),))
    raise FormatError(f"no bundle begins here: {head[:8].hex(' ')}", at)


def _plain(span: Span, at: int, head: bytes) -> Bundle:
    table, end = _table(span, at, head)
    entries = []
    for name, offset, size in table:
        code = amdgpu.header(span.some(at + offset, 64)) if size >= 64 else None
        entries.append(Entry(name, amdgpu.target_in(name), size, at + offset, code))
    beyond = at + end - span.end
    problem = f"the bundle at {at:#x} goes {beyond} bytes beyond its section" if beyond > 0 else ""
    return Bundle(at, "plain", end, tuple(entries), problem)


def _table(span: Span, at: int, head: bytes) -> tuple[list[tuple[str, int, int]], int]:
    """The table of a plain bundle and where the bundle ends, counted from its start."""
    for more in (1 << 16, LARGEST_TABLE):
        try:
            return _parsed(head, at)
        except FormatError:
            if at + len(head) >= span.end:
                raise
        head = span.some(at, more)
    return _parsed(head, at)


def _parsed(data: bytes, at: int) -> tuple[list[tuple[str, int, int]], int]:
    if len(data) < 32:
        raise FormatError("the bundle ends within its header", at)
    count = int.from_bytes(data[24:32], "little")
    if count > MOST_ENTRIES:
        raise FormatError(f"the bundle claims {count} entries", at)
    place, end, entries = 32, 32, []
    for index in range(count):
        if place + 24 > len(data):
            raise FormatError(f"the bundle ends within entry {index} of {count}", at)
        offset, size, length = _ENTRY.unpack_from(data, place)
        place += 24
        if length > LONGEST_ID:
            raise FormatError(f"entry {index} of the bundle claims an id of {length} bytes", at)
        if place + length > len(data):
            raise FormatError(f"the bundle ends within entry {index} of {count}", at)
        entries.append((data[place : place + length].decode("utf-8", "replace"), offset, size))
        place += length
        end = max(end, place, offset + size)
    return entries, end


def _compressed(span: Span, at: int, head: bytes) -> Bundle:
    version, method, total, _ = _sizes(head, at)
    form = f"v{version}/{_METHODS[method]}"
    start = _HEADERS[version][1]
    if total is not None and (total < start or at + total > span.end):
        raise FormatError(f"the compressed bundle claims {total} bytes and {span.end - at} are there", at)
    body = span.within(at + start, at + total if total else span.end)
    try:
        table = _packed_table(body, method, at)
    except FormatError as error:  # its size is known, so the walk goes on behind it
        return Bundle(at, "damaged", total, problem=str(error))
    entries = tuple(Entry(name, amdgpu.target_in(name), size, at, amdgpu.header(head)) for name, size, head in table)
    return Bundle(at, form, total, entries)


def _packed_table(body: Span, method: int, at: int) -> list[tuple[str, int, bytes]]:
    """(id, size, first bytes of the code where they were unpacked) of each entry."""
    want = 1 << 14
    while True:
        data = _unpack(method, body.some(body.start, max(want * 4, 1 << 16)), want, at)
        try:
            if not data.startswith(MAGIC):
                raise FormatError(f"what is compressed is no bundle: {data[:8].hex(' ')}", at)
            table, _ = _parsed(data, at)
            return [(name, size, data[offset : offset + 64] if size else b"") for name, offset, size in table]
        except FormatError:
            if len(data) < want or want >= LARGEST_TABLE or not data.startswith(MAGIC):
                raise
            want *= 8


def _sizes(head: bytes, at: int) -> tuple[int, int, int | None, int]:
    """(version, method, whole size or None, size when unpacked) of a compressed bundle's header."""
    version = int.from_bytes(head[4:6], "little")
    method = int.from_bytes(head[6:8], "little")
    if version not in _HEADERS:
        raise FormatError(f"compressed bundles of version {version} are not known here (1 to 3 are)", at)
    if method not in _METHODS:
        raise FormatError(f"compression method {method} is not known here (0 zlib and 1 zstd are)", at)
    form, length = _HEADERS[version]
    if len(head) < length:
        raise FormatError("the compressed bundle ends within its header", at)
    width = 4 if form[-1] == "I" else 8
    numbers = [int.from_bytes(head[8 + i * width : 8 + (i + 1) * width], "little") for i in range(len(form) - 1)]
    return version, method, numbers[0] if version > 1 else None, numbers[-1]


def _unpack(method: int, data: bytes, most: int, at: int) -> bytes:
    """At most `most` bytes: a bomb stays packed."""
    try:
        if method == 0:
            return zlib.decompressobj().decompress(data, most)
        return zstd.head(data, most)
    except (zlib.error, ValueError, EOFError) as error:
        raise FormatError(f"the compressed bundle cannot be unpacked: {error}", at) from None


def _next(span: Span, at: int, most: int) -> int:
    """The next place where a bundle credibly begins: a magic whose header makes sense."""
    for tried, place in enumerate(span.places((MAGIC, COMPRESSED), at, most)):
        if tried >= MOST_TRIED:
            return -1
        head = span.some(place, 32)
        if head.startswith(MAGIC):
            return place
        try:
            _, _, total, unpacked = _sizes(head, place)
        except FormatError:
            continue
        if unpacked >= 32 and (total is None or place + total <= span.end):
            return place
    return -1
