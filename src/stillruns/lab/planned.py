"""`stillruns run SPEC --plan`: what a spec would run and what that could show, without starting anything."""

from __future__ import annotations

from stillruns.errors import UsageError
from stillruns.judge.cells import experiment
from stillruns.judge.cells.matrix import covering_note
from stillruns.judge.statistics import planning
from stillruns.judge.statistics.binomial import clopper_pearson
from stillruns.lab.runs.pace import Pace, duration
from stillruns.model.run_plan import Question, RunPlan
from stillruns.model.spec import Decide, Spec, StopRule

CLOSEST = 0.005
"""Rates nearer to each other need thousands of trials, and minutes to plan."""


def plan(spec: Spec) -> RunPlan:
    """The cells, the trials, and the sentence that says what they decide."""
    plans = experiment.cells(spec)
    counted = [p for p in plans if not p.is_reference]
    least = sum(p.stop.trials * p.condition.duration for p in counted if p.stop.decide is None)
    least += sum(p.stop.min_trials * p.condition.duration for p in counted if p.stop.decide is not None)
    cost = Pace(plans).before(())
    if least:
        cost += f"; the durations alone take {duration(least)} at least"
    note = covering_note(spec, plans)
    decide = spec.stop.decide
    return RunPlan(
        name=spec.name,
        cells=tuple(p.id for p in counted),
        references=tuple(p.id for p in plans if p.is_reference),
        trials=experiment.trials_left(plans, ()),
        at_most=decide is not None,
        least_seconds=least,
        cost=cost,
        question=question(decide, spec.stop) if decide else None,
        shows="" if decide else _shows(spec.stop.trials),
        notes=(note,) if note else (),
    )


def question(rule: Decide, stop: StopRule | None = None) -> Question:
    """What it takes to tell two rates apart, within the bounds of `stop` where it is given.

    Raises UsageError for rates that are too close to plan.
    """
    if rule.fail_above - rule.fail_below < CLOSEST:
        raise UsageError(
            f"{rule.fail_below:g} and {rule.fail_above:g} are closer than {CLOSEST:g}: no run here could tell them "
            "apart"
        )
    fixed = planning.fixed_design(rule)
    low, high = planning.courses(rule, stop)
    return Question(
        rule,
        fixed.trials,
        fixed.allowed,
        low.mean,
        high.mean,
        max(low.within, high.within),
        planning.sentence(rule, stop),
    )


def rates(text: str) -> Decide:
    """`5%,50%` or `0.05,0.5,0.01` (the third is the error, 5 % when it is left out). Raises UsageError."""
    words = [word.strip() for word in text.split(",")]
    try:
        numbers = [float(w[:-1]) / 100 if w.endswith("%") else float(w) for w in words]
    except ValueError:
        numbers = []
    if len(numbers) == 2:
        numbers.append(0.05)
    if len(numbers) != 3 or not 0 < numbers[0] < numbers[1] < 1 or not 0 < numbers[2] < 0.5:
        raise UsageError(
            f"--trials-for {text}: give two failure rates, the lower first, and the errors if not 5 %: 5%,50%,1%"
        )
    return Decide(*numbers)


def _shows(trials: int) -> str:
    best = clopper_pearson(0, trials)
    assert best is not None
    return (
        f"{trials} trials a cell, fixed beforehand: without a failure they would show a failure rate below "
        f"{100 * best.high:.3g} % (two-sided 95 %), and no less"
    )
