"""The promise: amdgpu's table says what slows a card down, in formats that are known, and nothing in others."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillruns.errors import FormatError
from stillruns.formats import gpu_metrics

SIZES = {(1, 0): 80, (1, 1): 96, (1, 3): 120, (2, 1): 120, (2, 3): 152}


def table(major: int, minor: int, own: int, common: int | None = None) -> bytes:
    """A table with the chip's status and the common one, the rest as the driver leaves what it has not (0xff)."""
    data = bytearray(b"\xff" * SIZES[major, minor])
    struct.pack_into("<HBB", data, 0, len(data), major, minor)
    struct.pack_into("<I", data, {1: 68, 2: 108}[major], own)
    if common is not None:
        struct.pack_into("<Q", data, {1: 112, 2: 120}[major], common)
    return bytes(data)


def test_common_bits() -> None:
    """1.3 has bits that mean the same on every chip: here heat at the junction and a power limit."""
    found = gpu_metrics.read(table(1, 3, 5, 1 << 36 | 1))
    assert found.format == "1.3" and found.throttled == ("power limit", "heat (junction)")
    assert gpu_metrics.read(table(2, 3, 0, 0)).throttled == ()


def test_vega20() -> None:
    """1.0 has the chip's own bits: Vega 20's are known, another chip's are not."""
    assert gpu_metrics.read(table(1, 0, 1 << 3 | 1 << 13), "gfx906").throttled == (
        "power limit",
        "heat of the memory",
    )
    other = gpu_metrics.read(table(1, 0, 1 << 3), "gfx904")
    assert other.throttled is None and other.raw == 8


def test_values_that_the_firmware_does_not_give() -> None:
    """All ones are no status."""
    found = gpu_metrics.read(table(1, 3, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF))
    assert found.throttled is None and found.raw is None


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x78\x00\x01", struct.pack("<HBB", 120, 1, 3), struct.pack("<HBB", 120, 9, 9) * 30,
        struct.pack("<HBB", 96, 1, 3) * 30,
    ],
)  # fmt: skip
def test_no_known_table(data: bytes) -> None:
    """Short tables, other formats, and a size that does not fit the format."""
    with pytest.raises(FormatError):
        gpu_metrics.read(data)


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    """Any bytes end in an answer or a FormatError."""
    try:
        gpu_metrics.read(data, "gfx906")
    except FormatError:
        return
