"""Speeds: medians with their interval, and what difference is one.

The interval of a median is that of order statistics: between the k-th smallest and the k-th largest of n values lies
the true median with probability 1 - 2 P(X < k), X binomial(n, 1/2), whatever the distribution. Below six values it
reaches 95 % nowhere, and the range of all is taken. What trials of one condition differ by among each other is the
A/A floor: a difference between two conditions counts only beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

LEAST = 6
"""So few values have an interval of the median at 95 %."""


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


def floor(sides: Sequence[Spread]) -> float:
    """The A/A floor as a ratio: the largest spread within a side, at least 1."""
    return max((s.most / s.least for s in sides if s.least > 0), default=1.0)


def no_faster(offloaded: Sequence[float], base: Sequence[float]) -> str | None:
    """One sentence when an offloaded cell's speed lies within the floor of the 0-layer cell's, or below it; None
    when it is faster, or when there is nothing to compare."""
    ours, theirs = spread(offloaded), spread(base)
    if ours is None or theirs is None or theirs.median <= 0:
        return None
    ratio, limit = ours.median / theirs.median, floor((ours, theirs))
    if ratio > limit:
        return None
    return (
        f"{ours.median:.3g} tokens/s against {theirs.median:.3g} with no layer offloaded: no faster than the CPU "
        f"(trials of one condition differ by {100 * (limit - 1):.0f} %)"
    )
