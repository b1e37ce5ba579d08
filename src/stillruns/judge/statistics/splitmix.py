"""splitmix64 (Steele, Lea and Flood, OOPSLA 2014): the same words everywhere; Python promises no such stream."""

from __future__ import annotations

from collections.abc import Iterator

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def words(state: int) -> Iterator[int]:
    """64-bit words without end. A word modulo a few is uneven by less than 1e-17."""
    while True:
        state = (state + GOLDEN) & MASK
        mixed = state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
        yield mixed ^ (mixed >> 31)
