"""Random weights that are the same on every machine, and their F16, Q8_0 and Q4_0 forms, in pure Python.

A weight is a small integer times a power of two: w = q * 2^-k with q from -127 to 127. The integers come from
SHAKE-128 keyed by seed and tensor name, one byte a weight, mapped to Gaussian quantiles by a table. Both numbers are
exact in binary16, so F16 and Q8_0 (with the block scale 2^-k) hold the very same weights: exact twins. Q4_0 rounds q
to its 16 levels. All forms are made with translate tables and strided slices: fast, and no memory to speak of.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Iterator

CHUNK = 1 << 17
"""Weights that are drawn and encoded at a time; a multiple of every block."""
BLOCK = 32
"""Weights in a block of Q8_0 and Q4_0 (ggml)."""
ZERO = 128
"""The random byte whose weight is 0 at every scale."""

_HALF_QUANTILES: tuple[int, ...] = (
    *(5, 15, 25, 35, 45, 55, 65, 75, 85, 95, 105, 116, 126, 136, 146, 156, 166, 176, 187, 197, 207, 217, 227, 238),
    *(248, 258, 269, 279, 290, 300, 311, 321, 332, 342, 353, 363, 374, 385, 396, 406, 417, 428, 439, 450, 461, 472),
    *(484, 495, 506, 518, 529, 540, 552, 564, 575, 587, 599, 611, 623, 635, 647, 660, 672, 684, 697, 710, 722, 735),
    *(748, 762, 775, 788, 802, 816, 829, 843, 858, 872, 886, 901, 916, 931, 946, 962, 977, 993, 1009, 1026, 1043),
    *(1060, 1077, 1094, 1112, 1131, 1149, 1168, 1188, 1208, 1228, 1249, 1270, 1292, 1315, 1338, 1362, 1386, 1412),
    *(1438, 1466, 1494, 1524, 1555, 1587, 1622, 1658, 1696, 1737, 1781, 1828, 1880, 1937, 2000, 2073, 2157, 2260),
    *(2391, 2581, 2955),
)
"""Quantiles (128.5 + i) / 256 of the normal distribution in 1/1024: written out, since libm may differ by machine."""

MAX_LEVEL = 44
"""Largest standard deviation of q: the outermost quantile (2.886) then is 127."""

Encoder = Callable[[bytes], bytes]
"""Random bytes (a multiple of BLOCK) -> the tensor's bytes."""


def levels(deviation: int) -> tuple[int, ...]:
    """q for each random byte, with the given standard deviation (1 to MAX_LEVEL); integer arithmetic only."""
    upper = [(quantile * deviation + 512) // 1024 for quantile in _HALF_QUANTILES]
    return tuple([-q for q in reversed(upper)] + upper)


def grid(std: float) -> tuple[int, int]:
    """(deviation of q, k) with deviation * 2^-k equal to `std` within 2.3 %; k <= 24, binary16's finest step."""
    k = min(24, math.frexp(MAX_LEVEL / std)[1] - 1)
    return max(1, min(MAX_LEVEL, round(std * 2.0**k))), k


def draw(seed: int, name: str, count: int) -> Iterator[bytes]:
    """`count` random bytes for the tensor `name`, in chunks of at most CHUNK."""
    for index, start in enumerate(range(0, count, CHUNK)):
        key = f"stillruns synthetic weights 1\0{seed}\0{name}\0{index}".encode()
        yield hashlib.shake_128(key).digest(min(CHUNK, count - start))


def encoder(kind: str, deviation: int, k: int) -> Encoder:
    """The encoder for F16, Q8_0 or Q4_0 weights q * 2^-k."""
    return {"F16": _f16, "Q8_0": _q8_0, "Q4_0": _q4_0}[kind](levels(deviation), k)


def _f16(q: tuple[int, ...], k: int) -> Encoder:
    halves = [struct.pack("<e", value * 2.0**-k) for value in q]
    low, high = bytes(half[0] for half in halves), bytes(half[1] for half in halves)

    def encode(raw: bytes) -> bytes:
        out = bytearray(2 * len(raw))
        out[0::2] = raw.translate(low)
        out[1::2] = raw.translate(high)
        return bytes(out)

    return encode


def _q8_0(q: tuple[int, ...], k: int) -> Encoder:
    """A block is its binary16 scale and 32 signed bytes; every scale is 2^-k."""
    table = bytes(value & 0xFF for value in q)
    scale = struct.pack("<e", 2.0**-k)

    def encode(raw: bytes) -> bytes:
        out = bytearray(len(raw) // BLOCK * 34)
        values = raw.translate(table)
        out[0::34] = scale[:1] * (len(raw) // BLOCK)
        out[1::34] = scale[1:] * (len(raw) // BLOCK)
        for place in range(BLOCK):
            out[2 + place :: 34] = values[place::BLOCK]
        return bytes(out)

    return encode


def _q4_0(q: tuple[int, ...], k: int) -> Encoder:
    """A block is its binary16 scale and 16 bytes: weight i of the block in the low half of byte i, weight i + 16 in
    the high half, stored plus 8. The level is q / 16 rounded (halves up), clipped to -8..7; the scale is 2^(4-k)."""
    nibbles = [max(-8, min(7, (value + 8) // 16)) + 8 for value in q]
    low, high = bytes(nibbles), bytes(value << 4 for value in nibbles)
    scale = struct.pack("<e", 2.0 ** (4 - k))

    def encode(raw: bytes) -> bytes:
        count = len(raw) // BLOCK
        out = bytearray(count * 18)
        out[0::18] = scale[:1] * count
        out[1::18] = scale[1:] * count
        for place in range(BLOCK // 2):
            lower = int.from_bytes(raw[place::BLOCK].translate(low), "little")
            upper = int.from_bytes(raw[place + 16 :: BLOCK].translate(high), "little")
            out[2 + place :: 18] = (lower | upper).to_bytes(count, "little")
        return bytes(out)

    return encode


def f32(seed: int, name: str, count: int, centre: float, k: int) -> bytes:
    """`count` binary32 values centre + q * 2^-k (deviation MAX_LEVEL); exact where centre is a dyadic fraction."""
    table = [struct.pack("<f", centre + q * 2.0**-k) for q in levels(MAX_LEVEL)]
    return b"".join(table[byte] for chunk in draw(seed, name, count) for byte in chunk)
