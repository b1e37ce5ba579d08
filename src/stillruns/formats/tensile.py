"""Indexes of ready-made kernels: rocBLAS's Tensile libraries and hipBLASLt's, as msgpack.

A lazy index (one a target) is {solutions: [], library: {rows: [{predicate, library}]}} whose leaves are placeholders:
prefixes of the files that hold solutions and code. A merged index (one for all targets) has the same rows with all
solutions inside, 100 MB and more, and is read as a stream. hipBLASLt maps numbers to such prefixes. Which code file
belongs to a prefix: Tensile's PlaceholderLibrary.hpp.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import msgpack
import msgspec

from stillruns.errors import FormatError
from stillruns.formats.reading import ReadAt

LARGEST_INDEX = 4 << 20
"""Bytes of a lazy index; real ones have some 10^4."""
LARGEST_SOLUTIONS = 64 << 20
"""Bytes of a file of solutions that is read whole; real ones have some 10^6."""
LARGEST_PIECE = 32 << 20
"""Bytes of one value in a stream; a merged index is skipped in steps and never held."""
MOST_NODES = 1 << 20
_GFX = re.compile(r"gfx[0-9a-f]+(?:-[0-9]+)*(?:-generic)?")
_BROKEN = (ValueError, TypeError, RecursionError, msgpack.exceptions.UnpackException)
_T = TypeVar("_T")


class _Size(msgspec.Struct):
    sourceKernel: bool = False  # noqa: N815 (the file's own name)


class _Solution(msgspec.Struct):
    sizeMapping: _Size  # noqa: N815 (the file's own name)


class _Solutions(msgspec.Struct):
    solutions: list[_Solution]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the top level: `target` is its processor, or empty for the row that takes every one; `files` are the
    prefixes below it (in a merged index none)."""

    target: str
    files: tuple[str, ...] = ()


def lazy(data: bytes) -> tuple[Row, ...]:
    """The rows of a target's own index. FormatError where it is damaged."""
    document = _decoded(data)
    if not isinstance(document, dict) or not isinstance(document.get("library"), dict):
        raise FormatError("the index has no library in it", 0)
    rows = document["library"].get("rows")
    if not isinstance(rows, list):
        raise FormatError("the library of the index has no rows", 0)
    return tuple(Row(_target(row.get("predicate")), _leaves(row.get("library"))) for row in rows if _is_row(row))


def merged(read_at: ReadAt, size: int) -> tuple[Row, ...]:
    """The rows of an index for all targets; its solutions are walked past. FormatError where it is damaged."""

    def rows(stream: msgpack.Unpacker) -> tuple[Row, ...]:
        for _ in range(_bounded(stream.read_map_header())):
            if stream.unpack() != "library":
                stream.skip()
                continue
            found: list[Row] = []
            for _ in range(_bounded(stream.read_map_header())):
                if stream.unpack() != "rows":
                    stream.skip()
                    continue
                found += [_row(stream) for _ in range(_bounded(stream.read_array_header()))]
            return tuple(found)
        raise FormatError("the index has no library in it", 0)

    return _streamed(read_at, size, rows)


def mapping(data: bytes) -> tuple[str, ...]:
    """The prefixes of hipBLASLt's mapping. FormatError where it is damaged."""
    document = _decoded(data)
    if not isinstance(document, dict):
        raise FormatError("the mapping is no map", 0)
    return tuple(sorted({value for value in document.values() if isinstance(value, str)}))


def code_suffixes(data: bytes) -> frozenset[str]:
    """Which files a whole file of solutions needs beside it: `.co` for assembled kernels, `.hsaco` for compiled ones.

    The rest of each solution is walked past by the decoder. FormatError where the file is damaged.
    """
    try:
        found = msgspec.msgpack.decode(data, type=_Solutions)
    except (msgspec.DecodeError, *_BROKEN) as error:
        raise FormatError(f"the file is damaged: {error}") from None
    return frozenset(".hsaco" if one.sizeMapping.sourceKernel else ".co" for one in found.solutions)


def solution_fields(read_at: ReadAt, size: int) -> frozenset[str]:
    """The names of the fields of a file's first solution: they change between releases. Empty where it has none."""

    def fields(stream: msgpack.Unpacker) -> frozenset[str]:
        for _ in range(_bounded(stream.read_map_header())):
            if stream.unpack() != "solutions":
                stream.skip()
                continue
            if not stream.read_array_header():
                return frozenset()
            first = stream.unpack()
            inner = {f"{k}.{n}" for k in ("problemType", "sizeMapping") for n in _keys(_keys(first).get(k))}
            return frozenset(str(name) for name in _keys(first)) | frozenset(inner)
        return frozenset()

    return _streamed(read_at, min(size, 1 << 20), fields, 1 << 14)


def target_in(name: str) -> str:
    """The target that a file's name ends with (`..._gfx90a-xnack+.hsaco` -> `gfx90a`), or empty."""
    found = re.search(r"[_-](gfx[0-9a-f]+(?:-[0-9]+)*(?:-generic)?)(?:-xnack[+-])?\.[a-z]+\Z", name)
    return found[1] if found else ""


def code_names(prefix: str, target: str) -> tuple[str, ...]:
    """The names under which the code of a prefix may lie, without the xnack marks that some files bear."""
    if "fallback" in prefix:
        own = prefix if prefix.endswith(f"_{target}") else f"{prefix}_{target}"
        return (f"{own}.hsaco", f"{prefix}.co")
    return (f"{prefix}.co", f"{prefix}.hsaco")


def _decoded(data: bytes) -> object:
    if len(data) > LARGEST_INDEX:
        raise FormatError(f"the index has {len(data)} bytes; no lazy one has that many", 0)
    try:
        document: object = msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, *_BROKEN) as error:
        raise FormatError(f"the index is damaged: {error}") from None
    return document


def _is_row(row: object) -> bool:
    return isinstance(row, dict) and "predicate" in row


def _target(predicate: object) -> str:
    """The processor that a row's predicate names; the first one where it names more than one thing."""
    todo, seen = [predicate], 0
    while todo and seen < 100:
        seen += 1
        item = todo.pop()
        if isinstance(item, str) and _GFX.fullmatch(item):
            return item
        if isinstance(item, dict):
            todo += list(item.values())
        elif isinstance(item, list):
            todo += item
    return ""


def _leaves(library: object) -> tuple[str, ...]:
    found: dict[str, None] = {}
    todo, seen = [library], 0
    while todo:
        seen += 1
        if seen > MOST_NODES:
            raise FormatError(f"the index has more than {MOST_NODES} nodes", 0)
        item = todo.pop()
        if isinstance(item, dict):
            value = item.get("value")
            if item.get("type") == "Placeholder" and isinstance(value, str):
                found[value] = None
            else:
                todo += item.values()
        elif isinstance(item, list):
            todo += item
    return tuple(sorted(found))


def _row(stream: msgpack.Unpacker) -> Row:
    target = ""
    for _ in range(_bounded(stream.read_map_header())):
        if stream.unpack() == "predicate":
            target = _target(stream.unpack())
        else:
            stream.skip()
    return Row(target)


def _bounded(count: int) -> int:
    if count > 4096:
        raise FormatError(f"the index claims {count} entries where it has a few", 0)
    return count


def _keys(value: object) -> dict[object, object]:
    return value if isinstance(value, dict) else {}


class _Stream:
    """What msgpack reads from: the file, in order."""

    def __init__(self, read_at: ReadAt, size: int) -> None:
        self.read_at, self.size, self.at = read_at, size, 0

    def read(self, count: int) -> bytes:
        """The next bytes; none at the end."""
        data = self.read_at(self.at, min(count, self.size - self.at)) if self.at < self.size else b""
        self.at += len(data)
        return data


def _streamed(read_at: ReadAt, size: int, job: Callable[[msgpack.Unpacker], _T], step: int = 1 << 20) -> _T:
    stream = _Stream(read_at, size)
    unpacker = msgpack.Unpacker(stream, strict_map_key=False, max_buffer_size=LARGEST_PIECE, read_size=step)
    try:
        return job(unpacker)
    except msgpack.exceptions.OutOfData:
        raise FormatError(f"the index ends after {size} bytes, before it is complete", size) from None
    except OSError as error:
        raise FormatError(f"the index cannot be read: {error.strerror or error}", stream.at) from None
    except _BROKEN as error:
        raise FormatError(f"the index is damaged: {error or type(error).__name__}", stream.at) from None
