"""Splits a GGUF file by hand, as llama.cpp's own tool does: all metadata in the first part, `split.*` in each."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from stillruns.formats import gguf

ALIGNMENT = 32
U16, I32 = 2, 5


def text(value: str) -> bytes:
    """A string as GGUF writes it."""
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def split(
    whole: Path, prefix: Path, count: int, *, numbers: Sequence[int] = (), tensors: int | None = None
) -> list[Path]:
    """Write `whole` as `count` parts named after `prefix`, and return their paths in order.

    `numbers` are what the parts say that they are (0, 1, 2 ...), and `tensors` how many tensors all have together:
    both are the truth unless they are given.
    """
    data = whole.read_bytes()
    head = gguf.read(lambda offset, size: data[offset : offset + size], len(data))
    first = head.tensors[0]
    metadata = data[24 : data.index(text(first.name) + struct.pack("<I", len(first.shape)))]
    paths = []
    for number in range(count):
        place = len(head.tensors) * number // count, len(head.tensors) * (number + 1) // count
        mine = head.tensors[place[0] : place[1]]
        keys = text("split.no") + struct.pack("<IH", U16, numbers[number] if numbers else number)
        keys += text("split.count") + struct.pack("<IH", U16, count)
        keys += text("split.tensors.count") + struct.pack(
            "<Ii", I32, len(head.tensors) if tensors is None else tensors
        )
        pairs = len(head.metadata) + 3 if number == 0 else 3
        out = b"GGUF" + struct.pack("<IQQ", 3, len(mine), pairs) + (metadata if number == 0 else b"") + keys
        offset, weights = 0, b""
        for tensor in mine:
            assert tensor.bytes is not None
            out += text(tensor.name) + struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
            out += struct.pack("<IQ", tensor.type, offset)
            content = data[tensor.offset : tensor.offset + tensor.bytes]
            weights += content + bytes(-len(content) % ALIGNMENT)
            offset = len(weights)
        path = prefix.with_name(f"{prefix.name}-{number + 1:05d}-of-{count:05d}.gguf")
        path.write_bytes(out + bytes(-len(out) % ALIGNMENT) + weights)
        paths.append(path)
    return paths
