"""Deciding a cell trial by trial: Wald's sequential test, a confidence sequence beside it, and futility.

The test (Wald 1945; least mean number of trials: Wald and Wolfowitz 1948) adds ln(p1/p0) for a failure and
ln((1-p1)/(1-p0)) for a pass, and stops at ln((1-e)/e) as `bad` or at its negative as `good`. `good` shows "not the
bad rate" and no more. The confidence sequence is Robbins' beta-binomial mixture with weights 1/2, 1/2 (Howard et
al., Annals of Statistics 2021): it holds at every number of trials at once, so one may look after each trial and stop
for any reason. Both are functions of the counts alone: the order of trials changes nothing.

Futility ends a cell when the rest of its trials will hardly decide it. It only turns courses that would have gone on
into undecided ones, so neither error can grow by it, whatever the bound (planning.course has the exact figures). The
trials so far foretell the rest: Jeffreys' prior gives Beta(f + 1/2, n - f + 1/2) for the rate, and each further trial
is drawn from it and learnt from (predictive power: Spiegelhalter, Freedman and Blackburn, Controlled Clinical Trials
7, 1986).
"""

from __future__ import annotations

import math
from enum import Enum
from functools import lru_cache

from stillruns.model.rate import Rate
from stillruns.model.spec import Decide, StopRule

_WEIGHT = 0.5
_HALVINGS = 200
_EDGE = 1e-300
_NEGLIGIBLE = 1e-9


class Shown(str, Enum):
    """What a sequential test has shown so far."""

    GOOD = "good"
    """Not the bad rate."""
    BAD = "bad"
    """Not the good rate."""
    UNDECIDED = "undecided"


def sequential_test(rule: Decide, failures: int, n: int) -> Shown:
    """Where the test stands after `failures` of `n` trials."""
    evidence, border = _evidence(rule, failures, n), _border(rule)
    if evidence >= border:
        return Shown.BAD
    return Shown.GOOD if evidence <= -border else Shown.UNDECIDED


def stands(stop: StopRule, failures: int, n: int) -> Shown:
    """The test under a stop rule: never decided before `min_trials`. Raises ValueError without `decide`."""
    if stop.decide is None:
        raise ValueError("this stop rule fixes the number of trials")
    return Shown.UNDECIDED if n < stop.min_trials else sequential_test(stop.decide, failures, n)


def futile(stop: StopRule, failures: int, n: int) -> bool:
    """Whether the trials that are left up to `max_trials` cannot decide any more, or will hardly: with a probability
    below `futility`, from `min_trials` on.

    Raises ValueError without `decide`.
    """
    chance = chance_to_decide(stop, failures, n)
    return chance == 0.0 or (n >= stop.min_trials and chance < stop.futility)


def chance_to_decide(stop: StopRule, failures: int, n: int) -> float:
    """The predictive probability that the test is decided within `max_trials`, 0 exactly where no course can do it.

    Raises ValueError without `decide`.
    """
    if stop.decide is None:
        raise ValueError("this stop rule fixes the number of trials")
    return _chance(stop.decide, stop.min_trials, stop.max_trials, failures, n)


@lru_cache(maxsize=8192)
def _chance(rule: Decide, least: int, most: int, failures: int, n: int) -> float:
    """Forwards over the failures of the courses that are still undecided: a narrow band."""
    alive = {failures: 1.0}
    decided = 0.0
    while alive and n < most:
        following: dict[int, float] = {}
        for failed, weight in alive.items():
            fails = (failed + _WEIGHT) / (n + 2 * _WEIGHT)
            following[failed] = following.get(failed, 0.0) + weight * (1 - fails)
            following[failed + 1] = following.get(failed + 1, 0.0) + weight * fails
        n += 1
        alive = {}
        for failed, weight in following.items():
            if n >= least and sequential_test(rule, failed, n) is not Shown.UNDECIDED:
                decided += weight
            else:
                alive[failed] = weight
        if decided and math.fsum(alive.values()) < _NEGLIGIBLE:
            break
    return decided


def sentence(rule: Decide, shown: Shown) -> str:
    """What was shown, and no more."""
    low, high, error = (_percent(x) for x in (rule.fail_below, rule.fail_above, rule.error))
    if shown is Shown.GOOD:
        return f"does not fail {high} of the time (against {low}, errors {error}); rates between are not ruled out"
    if shown is Shown.BAD:
        return f"fails more often than {low} of the time (against {high}, errors {error})"
    return f"not decided between {low} and {high} failures"


def confidence_sequence(failures: int, n: int, level: float = 0.95) -> Rate | None:
    """All rates that the mixture has not ruled out after `failures` of `n` trials; None without trials.

    Raises ValueError for counts or levels that cannot be.
    """
    if not 0 <= failures <= n or not 0.0 < level < 1.0:
        raise ValueError(f"{failures} failures out of {n} at level {level} cannot be")
    if n == 0:
        return None
    passes = n - failures
    limit = _log_beta(_WEIGHT + failures, _WEIGHT + passes) - _log_beta(_WEIGHT, _WEIGHT) + math.log(1 - level)

    def inside(rate: float) -> bool:
        # log1p(-rate) of a rate next to 1 would be minus infinity
        likelihood = failures * math.log(max(rate, _EDGE)) if failures else 0.0
        likelihood += passes * (math.log1p(-rate) if rate < 1.0 else math.log(_EDGE)) if passes else 0.0
        return likelihood > limit

    best = failures / n
    low = 0.0 if failures == 0 else _border_between(inside, 0.0, best)
    high = 1.0 if passes == 0 else _border_between(inside, 1.0, best)
    return Rate(failures=failures, n=n, low=low, high=high, level=level, method="sequential")


def _border_between(inside: object, outer: float, inner: float) -> float:
    """The border of the set between a rate outside it and one inside; the outer neighbour is given."""
    assert callable(inside)
    for _ in range(_HALVINGS):
        middle = (outer + inner) / 2
        if middle in (outer, inner):
            break
        if inside(middle):
            inner = middle
        else:
            outer = middle
    return outer


def _evidence(rule: Decide, failures: int, n: int) -> float:
    """Log-likelihood ratio of the bad rate to the good one."""
    return failures * math.log(rule.fail_above / rule.fail_below) + (n - failures) * math.log(
        (1 - rule.fail_above) / (1 - rule.fail_below)
    )


def _border(rule: Decide) -> float:
    return math.log((1 - rule.error) / rule.error)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _percent(share: float) -> str:
    return f"{100 * share:g} %"
