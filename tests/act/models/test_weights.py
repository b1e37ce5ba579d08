"""The promise: the same weights everywhere, exact twins in F16 and Q8_0, and Q4_0 as near as its 16 levels allow."""

from __future__ import annotations

import struct
from statistics import NormalDist, fmean, pstdev

import pytest

from stillruns.act.models import weights


def dequantise(kind: str, data: bytes) -> list[float]:
    """Weights from their stored form, straight from ggml's description of the formats."""
    if kind == "F16":
        return list(struct.unpack(f"<{len(data) // 2}e", data))
    out: list[float] = []
    size = {"Q8_0": 34, "Q4_0": 18}[kind]
    for start in range(0, len(data), size):
        (scale,) = struct.unpack_from("<e", data, start)
        block = data[start + 2 : start + size]
        if kind == "Q8_0":
            out += [scale * q for q in struct.unpack("<32b", block)]
        else:
            out += [scale * ((byte & 15) - 8) for byte in block] + [scale * ((byte >> 4) - 8) for byte in block]
    return out


def test_quantiles_are_those_of_the_normal_distribution() -> None:
    """The written-out table is round(1024 * quantile), symmetric, and 127 at most at the largest deviation."""
    inverse = NormalDist().inv_cdf
    exact = [inverse((byte + 0.5) / 256) * weights.MAX_LEVEL for byte in range(256)]
    q = weights.levels(weights.MAX_LEVEL)
    assert max(abs(a - b) for a, b in zip(exact, q, strict=True)) < 0.53
    assert (min(q), max(q), q[weights.ZERO]) == (-127, 127, 0)
    assert all(levels[weights.ZERO] == 0 for levels in map(weights.levels, range(1, weights.MAX_LEVEL + 1)))


@pytest.mark.parametrize("std", [3.0, 1.0, 0.3, 0.125, 0.03, 0.01])
def test_f16_and_q8_0_are_twins(std: float) -> None:
    """Both forms dequantise to the same numbers, with the deviation that was asked for."""
    deviation, k = weights.grid(std)
    raw = b"".join(weights.draw(7, "a tensor", 1 << 14))
    halves = dequantise("F16", weights.encoder("F16", deviation, k)(raw))
    assert halves == dequantise("Q8_0", weights.encoder("Q8_0", deviation, k)(raw))
    assert abs(pstdev(halves) / std - 1) < 0.05
    assert abs(fmean(halves)) < 0.05 * std


@pytest.mark.parametrize("std", [1.0, 0.125, 0.01])
def test_q4_0_is_the_nearest_of_its_levels(std: float) -> None:
    """Every weight is within half a step of the exact one, except where it is clipped to the outermost level."""
    deviation, k = weights.grid(std)
    raw = b"".join(weights.draw(7, "a tensor", 1 << 12))
    exact = dequantise("Q8_0", weights.encoder("Q8_0", deviation, k)(raw))
    coarse = dequantise("Q4_0", weights.encoder("Q4_0", deviation, k)(raw))
    step = 2.0 ** (4 - k)
    for a, b in zip(exact, coarse, strict=True):
        assert abs(a - b) <= step / 2 or b == 7 * step


def test_drawing_depends_on_seed_and_name_only() -> None:
    """A tensor's bytes do not depend on the others; chunks join to the asked length."""
    first = b"".join(weights.draw(0, "x", weights.CHUNK + 64))
    assert len(first) == weights.CHUNK + 64
    assert first.startswith(b"".join(weights.draw(0, "x", 4096)))
    assert b"".join(weights.draw(1, "x", 64)) != first[:64] != b"".join(weights.draw(0, "y", 64))


def test_agrees_with_the_gguf_package() -> None:
    """The reference implementation dequantises the blocks to the same numbers."""
    quants = pytest.importorskip("gguf.quants", reason="the package gguf (extra `oracle`) is not installed")
    numpy = pytest.importorskip("numpy")
    types = quants.GGMLQuantizationType
    deviation, k = weights.grid(0.1)
    raw = b"".join(weights.draw(3, "t", 4096))
    for kind in ("F16", "Q8_0", "Q4_0"):
        data = weights.encoder(kind, deviation, k)(raw)
        theirs = quants.dequantize(numpy.frombuffer(data, dtype=numpy.uint8), types[kind]) if kind != "F16" else None
        if theirs is not None:
            assert theirs.tolist() == dequantise(kind, data)
