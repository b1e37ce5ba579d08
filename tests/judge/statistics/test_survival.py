"""The promise: a run that ends healthy is censored, and curves and tests are those of the textbooks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claim_samples import cell, trial
from stillruns.judge.statistics import survival

SIX_MP = [6, 6, 6, 7, 10, 13, 16, 22, 23]
SIX_MP_CENSORED = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
PLACEBO = [1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23]
TREATED = [(float(t), True) for t in SIX_MP] + [(float(t), False) for t in SIX_MP_CENSORED]
UNTREATED = [(float(t), True) for t in PLACEBO]


def test_the_textbook_curve() -> None:
    """Freireich's remissions (Blood 21, 1963): 0.857 after 6 weeks, 0.448 after 23."""
    steps = survival.curve(TREATED)
    assert [s.at for s in steps] == [6, 7, 10, 13, 16, 22, 23]
    assert (steps[0].at_risk, steps[0].died, steps[0].survival) == (21, 3, pytest.approx(0.857, abs=1e-3))
    assert steps[-1].survival == pytest.approx(0.448, abs=1e-3)


def test_the_textbook_test() -> None:
    """The same data: chi-squared 16.79."""
    found = survival.log_rank(TREATED, UNTREATED)
    assert found
    assert found[0] == pytest.approx(16.79, abs=0.01)
    assert found[1] == pytest.approx(4.17e-5, rel=0.01)


def test_agrees_with_scipy() -> None:
    """SciPy's log-rank test on the same data."""
    stats = pytest.importorskip("scipy.stats", reason="SciPy is the oracle (extra `oracle`)")
    treated = stats.CensoredData(uncensored=SIX_MP, right=SIX_MP_CENSORED)
    theirs = stats.logrank(treated, stats.CensoredData(uncensored=PLACEBO))
    found = survival.log_rank(TREATED, UNTREATED)
    assert found
    assert found[1] == pytest.approx(theirs.pvalue, rel=1e-9)


def test_healthy_runs_are_censored() -> None:
    """Nothing dies: no curve, no test; a healthy run shows survival up to its end only."""
    assert survival.of_cells([cell(passed=3)]) == ((), ())
    assert survival.log_rank([(5.0, False)], [(7.0, False)]) is None
    dying = cell("vulkan", trials=(trial("crash", tokens=10), trial("crash", tokens=20), trial(tokens=32)))
    curves, tests = survival.of_cells([dying, cell("rocm", passed=4)])
    assert [(c.deaths, c.censored, c.longest) for c in curves] == [(2, 1, 32.0), (0, 4, 32.0)]
    assert (tests[0].left, tests[0].deaths) == ("backend=vulkan,gpu_layers=2", 2)


def test_deaths_before_the_first_token_are_no_lives() -> None:
    """A server that never answers has a failure rate; its time is its loading."""
    assert survival.of_cells([cell(trials=(trial("crash", tokens=0),))]) == ((), ())


@given(st.lists(st.tuples(st.floats(0, 100), st.booleans()), min_size=1, max_size=30))
def test_curves_fall(lives: list[tuple[float, bool]]) -> None:
    """Survival starts at most at 1, never rises, never falls below 0."""
    shares = [1.0, *(s.survival for s in survival.curve(lives))]
    assert all(a >= b >= -1e-12 for a, b in pairwise(shares))
