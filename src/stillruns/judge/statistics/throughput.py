"""Speeds: medians with their interval, and what difference is one.

The interval of a median is that of order statistics: between the k-th smallest and the k-th largest of n values lies
the true median with probability 1 - 2 P(X < k), X binomial(n, 1/2), whatever the distribution. Below six values it
reaches 95 % nowhere, and the range of all is taken. The A/A floor is what one condition differs by from itself: its
trials are split into halves in every way, and of 95 % of the splits the medians lie within this ratio. A difference
between two conditions counts only beyond it. (The range of single trials would not do: it grows with their number,
so that more trials would decide less.)
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from stillruns.model.wording import significant

LEAST = 6
"""So few values have an interval of the median at 95 %."""
WHOLE = 12
"""Up to so many values every split into halves is looked at (924 of them), beyond it DRAWN splits."""
DRAWN = 100
FEW = 4
"""Below so many values there are no halves with a median of their own: the range of all is the floor."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Tokens per second: median, the 95 % interval of the median (`exact` tells whether n allows one; else the
    range), and the range of single trials."""

    median: float
    low: float
    high: float
    least: float
    most: float
    n: int
    exact: bool


def spread(speeds: Sequence[float]) -> Spread | None:
    """None below two values: a single one has no spread."""
    if len(speeds) < 2:
        return None
    ordered, n = sorted(speeds), len(speeds)
    rank = 0
    tail = 0.5**n
    while 2 * tail <= 0.05:
        rank += 1
        tail += math.comb(n, rank) * 0.5**n
    low, high = (ordered[rank - 1], ordered[n - rank]) if rank else (ordered[0], ordered[-1])
    return Spread(median(ordered), low, high, ordered[0], ordered[-1], n, rank > 0)


def floor(sides: Sequence[Sequence[float]]) -> float:
    """The A/A floor as a ratio: the largest of the sides' own, at least 1."""
    return max((_from_itself(sorted(side)) for side in sides if side and min(side) > 0), default=1.0)


def _from_itself(speeds: Sequence[float]) -> float:
    """The ratio of medians that 95 % of the splits of one side's trials into halves stay within."""
    n = len(speeds)
    if n < FEW:
        return speeds[-1] / speeds[0]
    ratios = sorted(max(a, b) / min(a, b) for a, b in _medians_of_halves(speeds))
    return ratios[math.ceil(0.95 * len(ratios)) - 1]


def _medians_of_halves(speeds: Sequence[float]) -> Iterator[tuple[float, float]]:
    n = len(speeds)
    every = combinations(range(n), n // 2) if n <= WHOLE else (_drawn(n, draw) for draw in range(DRAWN))
    for chosen in every:
        half = set(chosen)
        yield (
            median([speeds[i] for i in chosen]),
            median([speed for i, speed in enumerate(speeds) if i not in half]),
        )


def _drawn(n: int, draw: int) -> Sequence[int]:
    """Half of the places of n values, drawn by a digest: the same everywhere, so that verdicts are."""
    digest = hashlib.shake_128(f"halves {n} {draw}".encode()).digest(4 * n)
    return sorted(range(n), key=lambda i: digest[4 * i : 4 * i + 4])[: n // 2]


def within_floor(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """One sentence when two sides' medians differ by no more than those of one condition do, else nothing; nothing,
    too, where a side has less than two speeds."""
    a, b = spread(ours), spread(theirs)
    if a is None or b is None or min(a.median, b.median) <= 0:
        return ""
    ratio, limit = max(a.median, b.median) / min(a.median, b.median), floor((ours, theirs))
    if ratio > limit:
        return ""
    seen = f"{significant(a.median)} against {significant(b.median)} tokens/s"
    return (
        f"{seen} is no difference: halves of one condition's trials differ by up to {100 * (limit - 1):.0f} % "
        "(A/A floor)"
    )


def no_faster(offloaded: Sequence[float], base: Sequence[float]) -> str | None:
    """One sentence when an offloaded cell's speed lies within the floor of the 0-layer cell's, or below it; None
    when it is faster, or when there is nothing to compare."""
    ours, theirs = spread(offloaded), spread(base)
    if ours is None or theirs is None or theirs.median <= 0:
        return None
    ratio, limit = ours.median / theirs.median, floor((offloaded, base))
    if ratio > limit:
        return None
    seen = f"{significant(ours.median)} tokens/s against {significant(theirs.median)} with no layer offloaded"
    return (
        f"{seen}: no faster than the CPU (halves of one condition's trials differ by up to {100 * (limit - 1):.0f} %)"
    )
