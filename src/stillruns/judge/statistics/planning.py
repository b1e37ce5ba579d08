"""How many trials a question needs, before any is run: exact, for fixed numbers and for the sequential test."""

from __future__ import annotations

import math
from dataclasses import dataclass

from stillruns.judge.statistics.sequential import Shown, futile, sequential_test
from stillruns.model.spec import Decide, StopRule

_NEGLIGIBLE = 1e-12
_LONGEST = 20_000
_OFTEN = 0.005
"""Undecided courses that are rarer are not worth a word."""


@dataclass(frozen=True, slots=True)
class FixedDesign:
    """`trials` in all; the cell is good when at most `allowed` fail. The two error probabilities are exact."""

    trials: int
    allowed: int
    false_bad: float
    false_good: float


@dataclass(frozen=True, slots=True)
class Course:
    """What the sequential test does at one true failure rate, exactly.

    `mean` trials, `within` which 95 % of its courses end, and the probabilities of its answers (`undecided` only
    where `most` trials were allowed, or futility ends a cell).
    """

    rate: float
    good: float
    bad: float
    undecided: float
    mean: float
    within: int


def fixed_design(rule: Decide) -> FixedDesign:
    """The least fixed number of trials that keeps both errors at `rule.error`. Raises ValueError beyond 20,000."""
    for trials in range(1, _LONGEST + 1):
        allowed = _quantile(trials, rule.fail_below, 1 - rule.error)
        false_good = _cdf(allowed, trials, rule.fail_above)
        if false_good <= rule.error:
            return FixedDesign(trials, allowed, 1 - _cdf(allowed, trials, rule.fail_below), false_good)
    raise ValueError(f"more than {_LONGEST} trials: {rule.fail_below:g} and {rule.fail_above:g} are too close")


def course(rule: Decide, rate: float, *, least: int = 1, most: int = _LONGEST, futility: float = 0.0) -> Course:
    """The sequential test at a true failure rate, by dynamic programming over the number of failures.

    With `futility`, courses that it gives up end as undecided.
    """
    stop = StopRule(decide=rule, min_trials=least, max_trials=most, futility=futility)
    alive: dict[int, float] = {0: 1.0}
    good = bad = mean = given_up = 0.0
    within, n = 0, 0
    while alive and n < most:
        n += 1
        following: dict[int, float] = {}
        for failures, weight in alive.items():
            for step, chance in ((0, 1.0 - rate), (1, rate)):
                if chance:
                    following[failures + step] = following.get(failures + step, 0.0) + weight * chance
        alive = {}
        for failures, weight in following.items():
            shown = Shown.UNDECIDED if n < least else sequential_test(rule, failures, n)
            if shown is Shown.UNDECIDED and futility and futile(stop, failures, n):
                given_up += weight
            elif shown is Shown.UNDECIDED:
                alive[failures] = weight
                continue
            mean += n * weight
            good += weight if shown is Shown.GOOD else 0.0
            bad += weight if shown is Shown.BAD else 0.0
        rest = math.fsum(alive.values())
        if not within and rest <= 0.05:
            within = n
        if rest < _NEGLIGIBLE:
            alive = {}
    rest = math.fsum(alive.values())
    return Course(rate, good, bad, rest + given_up, mean + n * rest, within or n)


def wald_mean(rule: Decide, rate: float) -> float:
    """Wald's approximation of the mean number of trials at one of the two hypotheses (no overshoot)."""
    border = math.log((1 - rule.error) / rule.error)
    fail = math.log(rule.fail_above / rule.fail_below)
    ok = math.log((1 - rule.fail_above) / (1 - rule.fail_below))
    bad = rule.error if rate <= rule.fail_below else 1 - rule.error
    return (bad * border - (1 - bad) * border) / (rate * fail + (1 - rate) * ok)


def courses(rule: Decide, stop: StopRule | None = None) -> tuple[Course, Course]:
    """The test at both rates; under the bounds of `stop` (least and most trials, futility) where it is given."""
    if stop is None:
        return course(rule, rule.fail_below), course(rule, rule.fail_above)
    least, most, bound = stop.min_trials, stop.max_trials, stop.futility
    low, high = (
        course(rule, rate, least=least, most=most, futility=bound) for rate in (rule.fail_below, rule.fail_above)
    )
    return low, high


def sentence(rule: Decide, stop: StopRule | None = None) -> str:
    """`to tell 5 % from 50 % failures at 5 % errors you need 11 trials, fixed; ...`, and how often the most trials
    that `stop` allows leave it undecided."""
    fixed = fixed_design(rule)
    low, high = courses(rule, stop)
    rates = f"{100 * rule.fail_below:g} % from {100 * rule.fail_above:g} %"
    text = (
        f"to tell {rates} failures at {100 * rule.error:g} % errors you need at most {fixed.trials} trials of a cell "
        f"with a fixed number; the sequential test takes {low.mean:.1f} on average where it is good and "
        f"{high.mean:.1f} where it is bad, and 95 % of its courses end within {max(low.within, high.within)}"
    )
    if stop is None or max(low.undecided, high.undecided) < _OFTEN:
        return text
    good, bad = (f"{100 * at.undecided:.2g} %" for at in (low, high))
    limit = (
        f"{stop.max_trials} trials at most leave {good} of them undecided where it is good and {bad} where it is bad"
    )
    return f"{text}; {limit}"


def _cdf(failures: int, n: int, rate: float) -> float:
    return math.fsum(_mass(i, n, rate) for i in range(failures + 1))


def _mass(failures: int, n: int, rate: float) -> float:
    if rate in (0.0, 1.0):
        return float(failures == n * rate)
    return math.exp(
        math.lgamma(n + 1)
        - math.lgamma(failures + 1)
        - math.lgamma(n - failures + 1)
        + failures * math.log(rate)
        + (n - failures) * math.log1p(-rate)
    )


def _quantile(n: int, rate: float, level: float) -> int:
    """The least number of failures with P(X <= it) >= level."""
    total = 0.0
    for failures in range(n + 1):
        total += _mass(failures, n, rate)
        if total >= level:
            return failures
    return n
