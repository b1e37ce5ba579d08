"""Exact tests of two failure rates, in pure Python: Fisher, Boschloo, and Holm's correction for a family of them.

Valid between cells whose numbers of trials were fixed beforehand. Fisher 1935 conditions on the total of failures;
Boschloo (Statistica Neerlandica 24, 1970) takes Fisher's one-sided p as the statistic and the worst common rate, and
is never less powerful. Holm: Scandinavian Journal of Statistics 6 (1979). They agree with SciPy to 1e-12
(tests/judge/statistics/test_exact.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

LARGEST_BOSCHLOO = 40_000
"""Beyond so many possible tables (200 against 200) Boschloo's test costs seconds; Fisher's is used there."""

_GRID = 256
_STEPS = 90


def fisher(failed_a: int, n_a: int, failed_b: int, n_b: int) -> float:
    """Two-sided p: the probability of all tables with these totals that are no likelier than the one seen.

    Computed in whole numbers, so ties are ties. Raises ValueError for counts that cannot be.
    """
    return within(((failed_a, n_a, failed_b, n_b),))


def boschloo(failed_a: int, n_a: int, failed_b: int, n_b: int) -> float:
    """Two-sided p, twice the smaller one-sided p as in SciPy; 1 at most. Raises ValueError for impossible counts."""
    _check(failed_a, n_a, failed_b, n_b)
    if not n_a or not n_b:
        return 1.0
    less = _boschloo_less(failed_a, n_a, failed_b, n_b)
    greater = _boschloo_less(failed_b, n_b, failed_a, n_a)
    return min(1.0, 2.0 * min(less, greater))


def compare(failed_a: int, n_a: int, failed_b: int, n_b: int) -> tuple[float, str]:
    """(p, name of the test): Boschloo's where it can be computed in reasonable time, else Fisher's.

    Which one is used depends on the numbers of trials alone, never on what they showed.
    """
    if (n_a + 1) * (n_b + 1) <= LARGEST_BOSCHLOO:
        return boschloo(failed_a, n_a, failed_b, n_b), "Boschloo"
    return fisher(failed_a, n_a, failed_b, n_b), "Fisher"


def within(strata: Sequence[tuple[int, int, int, int]]) -> float:
    """Two-sided p of (failed a, n a, failed b, n b) in several strata (boots), by dealing the failures of each
    stratum among its own trials: Fisher's test for one stratum, for several the exact conditional test of a common
    odds ratio (Agresti, Categorical Data Analysis, 2nd ed., 6.6). The probability of all sums that are no likelier
    than the one seen, in whole numbers. Raises ValueError for counts that cannot be."""
    ways, seen = {0: 1}, 0
    for failed_a, n_a, failed_b, n_b in strata:
        _check(failed_a, n_a, failed_b, n_b)
        seen += failed_a
        own = _deals(n_a, n_b, failed_a + failed_b)
        summed: dict[int, int] = {}
        for total, before in ways.items():
            for x, more in own:
                summed[total + x] = summed.get(total + x, 0) + before * more
        ways = summed
    return sum(w for w in ways.values() if w <= ways[seen]) / sum(ways.values())


def _deals(n_a: int, n_b: int, failed: int) -> list[tuple[int, int]]:
    """(x, in how many ways x of the failures fall to a), each from the one before: the division leaves nothing."""
    least, most = max(0, failed - n_b), min(n_a, failed)
    number = math.comb(n_a, least) * math.comb(n_b, failed - least)
    found = [(least, number)]
    for x in range(least, most):
        number = number * (n_a - x) * (failed - x) // ((x + 1) * (n_b - failed + x + 1))
        found.append((x + 1, number))
    return found


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values adjusted for being a family, in the order given: reject what is below the error level."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [0.0] * len(p_values)
    worst = 0.0
    for rank, place in enumerate(order):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = worst
    return adjusted


@lru_cache(maxsize=256)
def _fisher_less(n_a: int, n_b: int) -> tuple[tuple[float, ...], ...]:
    """One-sided p (a fails less often) of every table of two numbers of trials, by [failed a][failed b]."""
    table = [[0.0] * (n_b + 1) for _ in range(n_a + 1)]
    for failed in range(n_a + n_b + 1):
        below, total = 0, math.comb(n_a + n_b, failed)
        for x in range(max(0, failed - n_b), min(n_a, failed) + 1):
            below += math.comb(n_a, x) * math.comb(n_b, failed - x)
            table[x][failed - x] = below / total
    return tuple(tuple(row) for row in table)


def _boschloo_less(failed_a: int, n_a: int, failed_b: int, n_b: int) -> float:
    table = _fisher_less(n_a, n_b)
    limit = table[failed_a][failed_b] * (1 + 1e-13)
    region = [(x, sum(1 for p in table[x] if p <= limit)) for x in range(n_a + 1)]
    # a row's p falls as b fails more: the region of a row is its last `count` tables
    trials = n_a + n_b
    counted = [0] * (trials + 1)  # tables with equal totals are equally likely: how many ways there are to each total
    for x, count in region:
        for y in range(n_b + 1 - count, n_b + 1):
            counted[x + y] += math.comb(n_a, x) * math.comb(n_b, y)
    ways = [(failed, math.log(number)) for failed, number in enumerate(counted) if number]

    def probability(rate: float) -> float:
        log_fail, log_pass = math.log(rate), math.log1p(-rate)
        return math.fsum(math.exp(w + failed * log_fail + (trials - failed) * log_pass) for failed, w in ways)

    grid = [(i + 0.5) / _GRID for i in range(_GRID)]
    heights = [probability(rate) for rate in grid]
    # the curve can have several hills: climb the highest grid points
    best = 0.0
    for place in sorted(range(_GRID), key=lambda i: -heights[i])[:3]:
        low, high = max(1e-12, grid[place] - 1 / _GRID), min(1 - 1e-12, grid[place] + 1 / _GRID)
        best = max(best, _climb(probability, low, high))
    return min(1.0, best)


def _climb(curve: object, low: float, high: float) -> float:
    """The largest value of a one-hilled curve between two places (golden section)."""
    assert callable(curve)
    ratio = (math.sqrt(5.0) - 1) / 2
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    at_a, at_b = curve(a), curve(b)
    for _ in range(_STEPS):
        if high - low < 1e-9:
            break
        if at_a < at_b:
            low, a, at_a = a, b, at_b
            b = low + ratio * (high - low)
            at_b = curve(b)
        else:
            high, b, at_b = b, a, at_a
            a = high - ratio * (high - low)
            at_a = curve(a)
    return float(max(at_a, at_b))


def _check(failed_a: int, n_a: int, failed_b: int, n_b: int) -> None:
    if not (0 <= failed_a <= n_a and 0 <= failed_b <= n_b):
        raise ValueError(f"{failed_a} of {n_a} against {failed_b} of {n_b} cannot be")
