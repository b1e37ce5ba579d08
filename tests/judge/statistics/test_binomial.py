"""Tests of judge/statistics/binomial.py."""

from __future__ import annotations

import pytest

from stillruns.judge.statistics.binomial import clopper_pearson, upper_one_sided


def test_against_scipy() -> None:
    """The exact interval is exact: equal to scipy's to 1e-10 for every n that matters."""
    stats = pytest.importorskip("scipy.stats", reason="scipy, the oracle, is not installed (extra `oracle`)")
    for n in (1, 2, 3, 5, 20, 59, 400, 2000):
        for failures in sorted({0, 1, 2, n // 3, n // 2, n - 1, n} & set(range(n + 1))):
            for level in (0.8, 0.95, 0.99):
                oracle = stats.binomtest(failures, n).proportion_ci(level, "exact")
                ours = clopper_pearson(failures, n, level)
                assert ours is not None
                assert ours.low == pytest.approx(oracle.low, abs=1e-10)
                assert ours.high == pytest.approx(oracle.high, abs=1e-10)


def test_known_values() -> None:
    """The numbers that DESIGN and the issue print: 0/6, 6/6, 0/5, and 20/20 OK below 13.9 %."""
    none, every, five = clopper_pearson(0, 6), clopper_pearson(6, 6), clopper_pearson(0, 5)
    assert none is not None and every is not None and five is not None
    assert (none.low, round(none.high, 2)) == (0.0, 0.46)
    assert (round(every.low, 2), every.high) == (0.54, 1.0)
    assert round(five.high, 2) == 0.52
    assert (none.method, none.level, none.failures, none.n) == ("fixed-n", 0.95, 0, 6)
    upper = upper_one_sided(0, 20)
    assert upper is not None and round(upper, 3) == 0.139


def test_no_trials_no_interval() -> None:
    """Without trials there is no rate, not a rate from 0 to 1."""
    assert clopper_pearson(0, 0) is None
    assert upper_one_sided(0, 0) is None


@pytest.mark.parametrize(("failures", "n", "level"), [(-1, 3, 0.95), (4, 3, 0.95), (1, 3, 1.0), (1, 3, 0.0)])
def test_nonsense_is_refused(failures: int, n: int, level: float) -> None:
    """Counts and levels that cannot be raise, rather than giving a number."""
    with pytest.raises(ValueError):
        clopper_pearson(failures, n, level)


def test_the_interval_holds_the_estimate_and_mirrors() -> None:
    """low <= x/n <= high, and swapping failures and passes mirrors the interval."""
    for n in (1, 4, 17):
        for failures in range(n + 1):
            rate, mirror = clopper_pearson(failures, n), clopper_pearson(n - failures, n)
            assert rate is not None and mirror is not None
            assert rate.low <= failures / n <= rate.high
            assert rate.low == pytest.approx(1 - mirror.high, abs=1e-12)
