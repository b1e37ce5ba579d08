"""GGUF: header, metadata and tensor list of a model file, read without touching the weights.

The layout is described in ggml's `docs/gguf.md`; versions 1 (32-bit counts), 2 and 3 and both byte orders are read.
Files are hostile until proved otherwise: every count is checked against the bytes that are left, every string has a
bound, and whatever does not fit raises FormatError with its offset. Long arrays (token lists, merges, scores) are not
held: they become an `ArrayRef`, which says where they lie.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from stillruns.errors import FormatError
from stillruns.formats.reading import ReadAt

MAX_ENTRIES = 1 << 20
"""Metadata entries or tensors; the largest published files have some 10^4."""
MAX_NAME = 65_535
"""Bytes in a metadata key (ggml's own bound) or a tensor name."""
MAX_STRING = 64 << 20
"""Bytes in one string value (chat templates are some 10^5)."""
MAX_DEPTH = 4
"""Arrays in arrays; ggml itself refuses any."""
KEPT_ELEMENTS = 64
"""Arrays up to this length are read at once; longer ones become an ArrayRef."""
MAX_WALKED = 1 << 23
"""Strings and inner arrays that are walked past in one file; the largest vocabularies have some 10^6."""
WINDOW = 1 << 18

TENSOR_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 36),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
}
"""ggml type number -> (name, elements in a block, bytes in a block), from ggml.h and ggml-common.h. Types that ggml
removed (4, 5, 31 to 33, 36 to 38) are unknown here, as they are to ggml."""

_SCALARS: dict[int, tuple[str, int]] = {
    0: ("B", 1),
    1: ("b", 1),
    2: ("H", 2),
    3: ("h", 2),
    4: ("I", 4),
    5: ("i", 4),
    6: ("f", 4),
    7: ("?", 1),
    10: ("Q", 8),
    11: ("q", 8),
    12: ("d", 8),
}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True, slots=True)
class ArrayRef:
    """A long array that was not held: `count` elements of metadata type `element` at `offset`, `bytes` long."""

    element: int
    count: int
    offset: int
    bytes: int


Scalar = int | float | bool | str
Value = Scalar | tuple[Scalar, ...] | ArrayRef


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor's entry. `shape` in ggml's order (the contiguous dimension first); `offset` from the start of the
    file; `bytes` is None for a type number that is not known here."""

    name: str
    shape: tuple[int, ...]
    type: int
    offset: int
    bytes: int | None

    @property
    def type_name(self) -> str:
        """ggml's name of the type, or `type 99` for one that is not known here."""
        known = TENSOR_TYPES.get(self.type)
        return known[0] if known else f"type {self.type}"


@dataclass(frozen=True, slots=True)
class Gguf:
    """What a model file says about itself. `data` is where the weights begin, in bytes from the start.

    `missing` is how many bytes the file is shorter than its tensors need: more than 0 is a broken download.
    """

    version: int
    big_endian: bool
    metadata: dict[str, Value]
    tensors: tuple[Tensor, ...]
    alignment: int
    data: int
    missing: int

    @property
    def architecture(self) -> str | None:
        """`general.architecture`, or None when the file does not say it as text."""
        value = self.metadata.get("general.architecture")
        return value if isinstance(value, str) else None


class _Cursor:
    """Walks forward through the file in windows; every read is checked against the file's size."""

    def __init__(self, read_at: ReadAt, size: int) -> None:
        self.read_at, self.size, self.at = read_at, size, 0
        self.order, self.long = "<", True
        self.walked = 0
        self._start, self._window = 0, b""

    def left(self) -> int:
        """Bytes from here to the end."""
        return self.size - self.at

    def take(self, count: int, what: str) -> bytes:
        """Exactly `count` bytes, or FormatError."""
        if count > self.left():
            raise FormatError(
                f"the GGUF file ends within {what}: {count} bytes needed, {max(0, self.left())} left", self.at
            )
        begin = self.at - self._start
        if begin < 0 or begin + count > len(self._window):
            self._start, begin = self.at, 0
            self._window = self.read_at(self.at, max(count, min(WINDOW, self.left())))
            if len(self._window) < count:
                raise FormatError(f"the GGUF file could not be read to its end within {what}", self.at)
        self.at += count
        return self._window[begin : begin + count]

    def skip(self, count: int, what: str) -> None:
        """Go past `count` bytes without reading them."""
        if count > self.left():
            raise FormatError(f"the GGUF file ends within {what}: {count} bytes needed, {self.left()} left", self.at)
        self.at += count

    def skip_strings(self, count: int, what: str) -> None:
        """Go past `count` strings; a vocabulary has some 10^5, so this runs over whole windows at a time."""
        prefix = struct.Struct(self.order + ("Q" if self.long else "I"))
        while count:
            self.take(prefix.size, what)  # brings the window here
            self.at -= prefix.size
            window, start = self._window, self._start
            place, last = self.at - start, len(window) - prefix.size
            while count and place <= last:
                (length,) = prefix.unpack_from(window, place)
                if length > MAX_STRING:
                    raise FormatError(f"{what} claims {length} bytes, more than any GGUF file has", start + place)
                place += prefix.size + length
                count -= 1
            if start + place > self.size:
                raise FormatError(f"the GGUF file ends within {what}", self.size)
            self.at = start + place

    def number(self, code: str, width: int, what: str) -> int:
        """An integer of `width` bytes with struct's format letter `code`."""
        return int(struct.unpack(self.order + code, self.take(width, what))[0])

    def u32(self, what: str) -> int:
        """A type number, dimension count or version."""
        return self.number("I", 4, what)

    def count(self, what: str) -> int:
        """A length or count: 64 bits, 32 in version 1."""
        return self.number("Q", 8, what) if self.long else self.u32(what)

    def text(self, bound: int, what: str) -> str:
        """A string of at most `bound` bytes."""
        at = self.at
        length = self.count(f"the length of {what}")
        if length > bound:
            raise FormatError(f"{what} claims {length} bytes, more than any GGUF file has", at)
        raw = self.take(length, what)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise FormatError(f"{what} is not UTF-8", at + error.start) from None


def read(read_at: ReadAt, size: int) -> Gguf:
    """Read the header of a GGUF file of `size` bytes. FormatError (with the offset) on anything that is not one."""
    cursor = _Cursor(read_at, size)
    version = _version(cursor)
    cursor.long = version > 1
    tensor_count = _bounded(cursor, "the tensor count", 8 if version == 1 else 24)
    entry_count = _bounded(cursor, "the metadata count", 9 if version == 1 else 13)
    metadata: dict[str, Value] = {}
    for index in range(entry_count):
        at = cursor.at
        key = cursor.text(MAX_NAME, f"the key of metadata entry {index}")
        if key in metadata:
            raise FormatError(f"metadata key {key!r} occurs twice", at)
        metadata[key] = _value(cursor, cursor.u32(f"the type of {key!r}"), key)
    alignment = _alignment(metadata)
    listed = [_tensor(cursor, index) for index in range(tensor_count)]
    data = -(-cursor.at // alignment) * alignment
    return _finish(version, cursor.order == ">", metadata, alignment, data, listed, size)


def _version(cursor: _Cursor) -> int:
    magic = cursor.take(4, "the magic bytes")
    if magic != b"GGUF":
        raise FormatError(f"not a GGUF file: it begins with {magic!r}", 0)
    raw = cursor.take(4, "the version")
    version = int.from_bytes(raw, "little")
    if version & 0xFFFF == 0 and version:
        cursor.order, version = ">", int.from_bytes(raw, "big")
    if version not in (1, 2, 3):
        raise FormatError(f"GGUF version {version} is not known here (1 to 3 are)", 4)
    return version


def _bounded(cursor: _Cursor, what: str, smallest: int) -> int:
    """A count of things of at least `smallest` bytes each: it cannot exceed what the file has left."""
    at = cursor.at
    count = cursor.count(what)
    if count > MAX_ENTRIES or count * smallest > cursor.left():
        raise FormatError(f"{what} is {count}, more than the file can hold", at)
    return count


def _value(cursor: _Cursor, kind: int, key: str) -> Value:
    if kind == _STRING:
        return cursor.text(MAX_STRING, f"the value of {key!r}")
    if kind == _ARRAY:
        return _array(cursor, key, 1)
    if kind not in _SCALARS:
        raise FormatError(f"{key!r} has the unknown metadata type {kind}", cursor.at - 4)
    code, width = _SCALARS[kind]
    value = struct.unpack(cursor.order + code, cursor.take(width, f"the value of {key!r}"))[0]
    assert isinstance(value, (int, float))
    return value


def _array(cursor: _Cursor, key: str, depth: int) -> tuple[Scalar, ...] | ArrayRef:
    """A short flat array as a tuple, anything else as a reference (walked past, so that its end is known)."""
    kind = cursor.u32(f"the element type of {key!r}")
    at = cursor.at
    count = cursor.count(f"the length of {key!r}")
    start = cursor.at
    if kind in _SCALARS:
        code, width = _SCALARS[kind]
        if count * width > cursor.left():
            raise FormatError(f"the array {key!r} claims {count} elements, more than the file can hold", at)
        if count <= KEPT_ELEMENTS:
            raw = cursor.take(count * width, f"the array {key!r}")
            return tuple(struct.unpack(f"{cursor.order}{count}{code}", raw))
        cursor.skip(count * width, f"the array {key!r}")
        return ArrayRef(kind, count, start, cursor.at - start)
    if kind not in (_STRING, _ARRAY):
        raise FormatError(f"the array {key!r} has the unknown element type {kind}", at - 4)
    smallest = (8 if cursor.long else 4) + (4 if kind == _ARRAY else 0)
    cursor.walked += count
    if count * smallest > cursor.left() or cursor.walked > MAX_WALKED:
        raise FormatError(f"the array {key!r} claims {count} elements, more than the file can hold", at)
    if kind == _ARRAY:
        if depth >= MAX_DEPTH:
            raise FormatError(f"the array {key!r} is nested more than {MAX_DEPTH} deep", at)
        for _ in range(count):
            _array(cursor, key, depth + 1)
    elif count <= KEPT_ELEMENTS and depth == 1:
        return tuple(_lenient(cursor, key) for _ in range(count))
    else:
        cursor.skip_strings(count, f"a string of {key!r}")
    return ArrayRef(kind, count, start, cursor.at - start)


def _lenient(cursor: _Cursor, key: str) -> str:
    """A string of a vocabulary: not always UTF-8."""
    at = cursor.at
    length = cursor.count(f"a string of {key!r}")
    if length > MAX_STRING:
        raise FormatError(f"a string of {key!r} claims {length} bytes, more than any GGUF file has", at)
    return cursor.take(length, f"a string of {key!r}").decode("utf-8", "replace")


def _alignment(metadata: dict[str, Value]) -> int:
    value = metadata.get("general.alignment", 32)
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0 or value & (value - 1) or value > 1 << 20:
        raise FormatError(f"general.alignment is {value!r}, which is no power of two up to 2^20")
    return value


def _tensor(cursor: _Cursor, index: int) -> tuple[int, Tensor]:
    """One entry of the tensor list with the place of the entry; its offset still counts from the data section."""
    at = cursor.at
    name = cursor.text(MAX_NAME, f"the name of tensor {index}")
    dims = cursor.u32(f"the shape of {name!r}")
    if not 0 <= dims <= 4:
        raise FormatError(f"tensor {name!r} claims {dims} dimensions; ggml has at most 4", at)
    shape = tuple(cursor.count(f"the shape of {name!r}") for _ in range(dims))
    kind = cursor.u32(f"the type of {name!r}")
    offset = cursor.number("Q", 8, f"the offset of {name!r}")
    known = TENSOR_TYPES.get(kind)
    size: int | None = None
    elements = 1
    for extent in shape:
        elements *= extent
    if elements >= 1 << 63:
        raise FormatError(f"tensor {name!r} claims {elements} elements, more than ggml can count", at)
    if known:
        _, block, block_bytes = known
        row = shape[0] if shape else 1
        if row % block:
            raise FormatError(f"tensor {name!r}: rows of {row} do not divide into {known[0]} blocks of {block}", at)
        size = elements // block * block_bytes
    return at, Tensor(name, shape, kind, offset, size)


def _finish(
    version: int,
    big_endian: bool,
    metadata: dict[str, Value],
    alignment: int,
    data: int,
    listed: list[tuple[int, Tensor]],
    size: int,
) -> Gguf:
    """Turn offsets into places in the file and check what they promise."""
    names: set[str] = set()
    tensors = []
    end = data if listed else 0
    for at, tensor in listed:
        if tensor.name in names:
            raise FormatError(f"tensor {tensor.name!r} occurs twice", at)
        names.add(tensor.name)
        if tensor.offset % alignment:
            raise FormatError(
                f"tensor {tensor.name!r} begins at {tensor.offset}, which is not aligned to {alignment}", at
            )
        tensors.append(Tensor(tensor.name, tensor.shape, tensor.type, data + tensor.offset, tensor.bytes))
        end = max(end, data + tensor.offset + (tensor.bytes or 0))
    return Gguf(version, big_endian, metadata, tuple(tensors), alignment, data, max(0, end - size))
