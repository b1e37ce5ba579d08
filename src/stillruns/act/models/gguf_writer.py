"""Writes GGUF version 3: header, metadata, tensor list, tensors; streamed; the digest is taken on the way."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

ALIGNMENT = 32

TYPE_NUMBERS: dict[str, int] = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 8}
BLOCKS: dict[str, tuple[int, int]] = {"F32": (1, 4), "F16": (1, 2), "Q4_0": (32, 18), "Q8_0": (32, 34)}
"""Type -> (elements in a block, bytes in a block)."""


@dataclass(frozen=True, slots=True)
class U32:
    """A metadata value of GGUF type uint32 (llama.cpp checks the type, so a plain int would not say enough)."""

    value: int


@dataclass(frozen=True, slots=True)
class I32Array:
    """A metadata array of GGUF type int32."""

    values: tuple[int, ...]


MetadataValue = str | bool | float | U32 | I32Array | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """A tensor to be written: `shape` in ggml's order (the contiguous dimension first), `type` one of BLOCKS."""

    name: str
    shape: tuple[int, ...]
    type: str

    @property
    def elements(self) -> int:
        """The product of the shape."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def bytes(self) -> int:
        """Bytes of data, without padding."""
        block, block_bytes = BLOCKS[self.type]
        return self.elements // block * block_bytes


def header(metadata: dict[str, MetadataValue], tensors: Iterable[TensorEntry]) -> bytes:
    """Everything before the weights, padded to the alignment."""
    listed = list(tensors)
    out = [b"GGUF", struct.pack("<IQQ", 3, len(listed), len(metadata))]
    for key, value in metadata.items():
        out += [_text(key), _value(value)]
    offset = 0
    for tensor in listed:
        out.append(_text(tensor.name))
        out.append(struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape))
        out.append(struct.pack("<IQ", TYPE_NUMBERS[tensor.type], offset))
        offset += tensor.bytes + padding(tensor.bytes)
    whole = b"".join(out)
    return whole + bytes(padding(len(whole)))


def padding(length: int) -> int:
    """Zero bytes after `length` bytes up to the next multiple of the alignment."""
    return -length % ALIGNMENT


def write(
    stream: BinaryIO,
    metadata: dict[str, MetadataValue],
    tensors: Iterable[tuple[TensorEntry, Iterator[bytes]]],
    entries: Iterable[TensorEntry],
) -> str:
    """Write a whole file and return `sha256:<hex>` of it. `tensors` must give the entries' data in their order."""
    digest = hashlib.sha256()

    def put(data: bytes) -> None:
        stream.write(data)
        digest.update(data)

    put(header(metadata, entries))
    for entry, chunks in tensors:
        written = 0
        for chunk in chunks:
            put(chunk)
            written += len(chunk)
        assert written == entry.bytes, f"{entry.name}: {written} bytes for a tensor of {entry.bytes}"
        put(bytes(padding(written)))
    return f"sha256:{digest.hexdigest()}"


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(value: MetadataValue) -> bytes:
    """A metadata value with its type number: bool 7, string 8, float32 6, uint32 4, array 9."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, U32):
        return struct.pack("<II", 4, value.value)
    if isinstance(value, I32Array):
        return struct.pack(f"<IIQ{len(value.values)}i", 9, 5, len(value.values), *value.values)
    return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_text, value))
