"""Exact binomial intervals, in pure Python.

Clopper and Pearson, Biometrika 26 (1934): the two-sided interval at level L takes, at each end, the rate at which the
seen number of failures (or a more extreme one) has probability (1 - L) / 2. Valid only where n was fixed beforehand:
looking after each trial and stopping when it pleases is wrong with it.
"""

from __future__ import annotations

import math
from functools import lru_cache

from stillruns.model.rate import Rate

_HALVINGS = 64


def _lower_tail(failures: int, n: int, rate: float, log_choose: float) -> float:
    """P(X <= failures) for X binomial(n, rate), summed downwards from its largest term.

    Only called with `rate` above `failures / n`, where the terms fall from `failures` downwards: no cancellation, and
    the sum may end as soon as a term no longer changes it.
    """
    term = math.exp(log_choose + failures * math.log(rate) + (n - failures) * math.log1p(-rate))
    total = term
    odds = (1.0 - rate) / rate
    for i in range(failures, 0, -1):
        term *= i / (n - i + 1) * odds
        before = total
        total += term
        if total == before:
            break
    return total


@lru_cache(maxsize=4096)
def _upper_bound(failures: int, n: int, tail: float) -> float:
    """The rate at which P(X <= failures) falls to `tail`; 1 when every trial failed."""
    if failures == n:
        return 1.0
    if failures == 0:
        return -math.expm1(math.log(tail) / n)
    log_choose = math.log(math.comb(n, failures))
    low, high = failures / n, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if _lower_tail(failures, n, middle, log_choose) > tail:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _check(failures: int, n: int, level: float) -> None:
    if not 0 <= failures <= n:
        raise ValueError(f"{failures} failures out of {n} trials cannot be")
    if not 0.0 < level < 1.0:
        raise ValueError(f"a level lies between 0 and 1, not at {level}")


def clopper_pearson(failures: int, n: int, level: float = 0.95) -> Rate | None:
    """The exact two-sided interval of a failure rate with `failures` out of `n` trials; None without trials.

    Raises ValueError for counts or levels that cannot be.
    """
    _check(failures, n, level)
    if n == 0:
        return None
    tail = (1.0 - level) / 2
    return Rate(
        failures=failures,
        n=n,
        low=0.0 if failures == 0 else 1.0 - _upper_bound(n - failures, n, tail),
        high=_upper_bound(failures, n, tail),
        level=level,
    )


def upper_one_sided(failures: int, n: int, level: float = 0.95) -> float | None:
    """The rate that `failures` out of `n` rule out from above, one-sided: 20 passes of 20 show less than 0.139.

    None without trials. Raises ValueError for counts or levels that cannot be.
    """
    _check(failures, n, level)
    return None if n == 0 else _upper_bound(failures, n, 1.0 - level)
