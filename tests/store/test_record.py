"""The promise: a line proves itself, and whatever bytes come instead are named, never believed."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillruns.errors import StoreDamaged
from stillruns.store.record import ZERO, ChainHead, decode, encode

LINE = encode(0, ZERO, "w000001-00000000", "k", "r", {"t": "\udcff é", "n": [1.5, None]}, {"w": ChainHead(3, ZERO)})


def test_round_trip() -> None:
    """What was encoded is decoded: half a surrogate pair (a file name that is no UTF-8) included."""
    line = decode(LINE[:-1])
    assert line.record().body == {"t": "\udcff é", "n": [1.5, None]}
    assert line.after == {"w": ChainHead(3, ZERO)}
    assert LINE.isascii() and LINE.endswith(b"\n") and LINE.count(b"\n") == 1


@pytest.mark.parametrize("mask", [0x01, 0x20, 0x80])
def test_every_byte_counts(mask: int) -> None:
    """No byte of a line can change unnoticed: not in the body, not in the seal, not in white space."""
    for place in range(len(LINE) - 1):
        changed = bytearray(LINE[:-1])
        changed[place] ^= mask
        with pytest.raises(StoreDamaged):
            decode(bytes(changed))


@given(st.binary(max_size=200))
def test_foreign_bytes(data: bytes) -> None:
    """Arbitrary bytes are no record, and neither are arbitrary bytes with a right digest behind them."""
    with pytest.raises(StoreDamaged):
        decode(data)
    seal = hashlib.sha256(data).hexdigest().encode()
    with pytest.raises(StoreDamaged, match="cannot be read"):
        decode(data + b',"sha256":"sha256:' + seal + b'"}')


def test_depth() -> None:
    """A body nested a hundred thousand deep is refused, and does not end the process."""
    deep = b'{"seq":0,"body":' + b"[" * 100_000 + b"]" * 100_000
    seal = hashlib.sha256(deep).hexdigest().encode()
    with pytest.raises(StoreDamaged, match="cannot be read"):
        decode(deep + b',"sha256":"sha256:' + seal + b'"}')
