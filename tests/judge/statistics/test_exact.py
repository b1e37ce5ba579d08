"""The promise: exact tests agree with SciPy to 1e-12, and say no more than the tables that they are given."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stillruns.judge.statistics import exact


def counts(most: int) -> st.SearchStrategy[tuple[int, int]]:
    """(failures, trials)."""
    return st.integers(1, most).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def test_fisher_agrees_with_scipy() -> None:
    """Every table of 12 against 9, and 20 against 20, to 1e-12."""
    stats = pytest.importorskip("scipy.stats", reason="SciPy is the oracle (extra `oracle`)")
    for n_a, n_b in ((12, 9), (20, 20)):
        for a in range(n_a + 1):
            for b in range(0, n_b + 1, 3):
                theirs = stats.fisher_exact([[a, n_a - a], [b, n_b - b]])[1]
                assert abs(exact.fisher(a, n_a, b, n_b) - theirs) < 1e-12


@pytest.mark.parametrize("table", [(5, 5, 0, 5), (10, 20, 2, 20), (0, 6, 10, 10), (3, 20, 0, 20), (7, 9, 3, 14)])
def test_boschloo_agrees_with_scipy(table: tuple[int, int, int, int]) -> None:
    """The largest p over the common rate is found to 1e-12 wherever SciPy's own search finds it."""
    stats = pytest.importorskip("scipy.stats", reason="SciPy is the oracle (extra `oracle`)")
    a, n_a, b, n_b = table
    theirs = stats.boschloo_exact([[a, b], [n_a - a, n_b - b]], n=256).pvalue
    assert abs(exact.boschloo(*table) - theirs) < 1e-9
    assert exact.boschloo(*table) >= theirs - 1e-12


def test_known_values() -> None:
    """The figures that the documentation prints."""
    assert exact.fisher(0, 6, 10, 10) == pytest.approx(1 / 8008)
    assert exact.fisher(3, 3, 0, 3) == pytest.approx(0.1)
    assert exact.boschloo(3, 3, 0, 3) == pytest.approx(0.03125, abs=5e-4)
    assert exact.boschloo(3, 20, 0, 20) > 0.1


@settings(deadline=None, max_examples=40)
@given(counts(14), counts(14))
def test_sides_can_be_swapped(a: tuple[int, int], b: tuple[int, int]) -> None:
    """Which side is called a changes nothing; equal shares are no evidence."""
    assert exact.fisher(*a, *b) == pytest.approx(exact.fisher(*b, *a))
    assert exact.boschloo(*a, *b) == pytest.approx(exact.boschloo(*b, *a), abs=1e-9)
    assert exact.boschloo(*a, *a) > 0.05


def test_holm() -> None:
    """Holm's own example: multiplied by the rank from below, never falling, never above 1."""
    assert exact.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert exact.holm([]) == []
    assert exact.holm([0.9, 0.9]) == [1.0, 1.0]


def test_impossible_counts_are_refused() -> None:
    """More failures than trials is a fault of the caller."""
    with pytest.raises(ValueError, match="cannot be"):
        exact.fisher(3, 2, 0, 2)
