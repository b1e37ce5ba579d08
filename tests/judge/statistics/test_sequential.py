"""The promise: a sequential answer is valid at any look, and its sentence claims no more than it shows."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_samples import condition, verdict
from stillruns.judge.cells import counting, experiment
from stillruns.judge.statistics import planning, sequential
from stillruns.judge.statistics.sequential import Shown
from stillruns.model.applied import Answer
from stillruns.model.cell_plan import CellPlan, CellState
from stillruns.model.outcome import OutcomeKind
from stillruns.model.spec import Decide, StopRule

RULE = Decide(0.05, 0.5, 0.05)
STOP = StopRule(decide=RULE)
PLAN = CellPlan("backend=vulkan,gpu_layers=2", condition(), STOP)
GOOD, BAD = verdict(), verdict(OutcomeKind.CRASH)


def test_the_card_of_5_against_50() -> None:
    """Good after 5 passes in a row; one failure needs 9 passes; two failures with at most 2 passes are bad."""
    assert sequential.sequential_test(RULE, 0, 4) is Shown.UNDECIDED
    assert sequential.sequential_test(RULE, 0, 5) is Shown.GOOD
    assert sequential.sequential_test(RULE, 1, 9) is Shown.UNDECIDED
    assert sequential.sequential_test(RULE, 1, 10) is Shown.GOOD
    assert sequential.sequential_test(RULE, 2, 4) is Shown.BAD
    assert sequential.sequential_test(RULE, 2, 5) is Shown.UNDECIDED


def test_good_says_no_more_than_not_bad() -> None:
    """A true 20 % failer is called good 61 % of the time, so the sentence leaves that rate open."""
    assert planning.course(RULE, 0.2).good == pytest.approx(0.607, abs=0.001)
    assert "rates between are not ruled out" in sequential.sentence(RULE, Shown.GOOD)


def test_confidence_sequence_known_values() -> None:
    """0 of 20 leaves rates below 0.224, 10 of 20 those from 0.193 to 0.807; 116 passes show less than 5 %."""
    none = sequential.confidence_sequence(0, 20)
    half = sequential.confidence_sequence(10, 20)
    assert none and half
    assert (none.low, none.high, none.method) == (0.0, pytest.approx(0.224, abs=5e-4), "sequential")
    assert (half.low, half.high) == (pytest.approx(0.193, abs=5e-4), pytest.approx(0.807, abs=5e-4))
    before, after = sequential.confidence_sequence(0, 115), sequential.confidence_sequence(0, 116)
    assert before and after
    assert before.high > 0.05 > after.high
    assert sequential.confidence_sequence(0, 0) is None


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_confidence_sequence_holds_the_seen_rate(seen: tuple[int, int]) -> None:
    """The seen share lies inside, the bounds are rates, and swapping pass and fail mirrors them."""
    failures, n = seen
    rate, mirror = sequential.confidence_sequence(failures, n), sequential.confidence_sequence(n - failures, n)
    assert rate and mirror
    assert 0 <= rate.low <= failures / n <= rate.high <= 1
    assert rate.low == pytest.approx(1 - mirror.high, abs=1e-9)


@pytest.mark.parametrize("true", [0.01, 0.05, 0.2, 0.5])
def test_coverage_under_continuous_looking(true: float) -> None:
    """In 1,000 courses of 200 trials, looked at after each, the true rate is ever excluded in at most 5 %."""
    borders = [
        [sequential.confidence_sequence(failures, n) for failures in range(min(n, 130) + 1)] for n in range(1, 201)
    ]
    stream, excluded = random.Random(7), 0
    for _ in range(1000):
        failures = 0
        for n in range(1, 201):
            failures += stream.random() < true
            rate = borders[n - 1][failures] if failures <= 130 else None
            if rate and not rate.low <= true <= rate.high:
                excluded += 1
                break
    assert excluded <= 50 + 3 * math.sqrt(1000 * 0.05 * 0.95)


@pytest.mark.parametrize(("low", "high", "trials"), [(0.05, 0.5, 11), (0.05, 0.2, 50), (0.01, 0.05, 181)])
def test_plans(low: float, high: float, trials: int) -> None:
    """The fixed design, and exact errors and savings of the sequential one."""
    rule = Decide(low, high, 0.05)
    good, bad = planning.course(rule, low), planning.course(rule, high)
    assert planning.fixed_design(rule).trials == trials
    assert good.bad <= 0.05
    assert bad.good <= 0.05
    assert good.mean <= 0.65 * trials
    assert bad.mean <= 0.50 * trials
    assert f"at most {trials} trials" in planning.sentence(rule)


def test_a_plan_knows_its_bounds() -> None:
    """Three trials at least and few at most: what they cost, and how often they leave a cell undecided, exactly."""
    stop = StopRule(decide=RULE, min_trials=3, max_trials=20)
    low, high = planning.courses(RULE, stop)
    assert (low.mean, high.mean) == (pytest.approx(6.284, abs=0.001), pytest.approx(4.794, abs=0.001))
    assert "4.8 where it is bad" in planning.sentence(RULE, stop)
    assert "undecided" not in planning.sentence(RULE, stop)
    short = StopRule(decide=Decide(0.05, 0.2, 0.05), min_trials=3, max_trials=20, futility=0.0)
    assert planning.courses(short.decide or RULE, short)[0].undecided == pytest.approx(0.58, abs=0.01)
    assert (
        "20 trials at most leave 58 % of them undecided where it is good and 41 % where it is bad"
        in planning.sentence(short.decide or RULE, short)
    )


def test_a_cell_stops_when_decided() -> None:
    """Open until the test decides, never before min_trials; then the budget goes to other cells."""
    assert experiment.state(PLAN, [GOOD] * 4) is CellState.OPEN
    assert experiment.state(PLAN, [GOOD] * 5) is CellState.DECIDED
    assert experiment.state(PLAN, [BAD] * 2) is CellState.OPEN
    assert experiment.state(PLAN, [BAD] * 3) is CellState.DECIDED


def test_a_cell_ends_undecided() -> None:
    """When its trials are spent, or when no course of the rest could decide it."""
    short = CellPlan(PLAN.id, PLAN.condition, StopRule(decide=RULE, max_trials=6))
    assert experiment.state(short, [BAD, GOOD, GOOD]) is CellState.OPEN
    assert experiment.state(short, [BAD, GOOD, GOOD, GOOD]) is CellState.OPEN
    assert experiment.state(short, [BAD, GOOD, GOOD, GOOD, GOOD]) is CellState.UNDECIDED


@given(st.lists(st.sampled_from([GOOD, BAD]), max_size=45), st.randoms(use_true_random=False))
def test_order_of_trials_changes_nothing(trials: list[object], shuffler: random.Random) -> None:
    """Permuting trials changes no state and no rate."""
    other = list(trials)
    shuffler.shuffle(other)
    assert experiment.state(PLAN, trials) is experiment.state(PLAN, other)  # type: ignore[arg-type]
    assert counting.count(PLAN, trials) == counting.count(PLAN, other)  # type: ignore[arg-type]


@given(st.lists(st.sampled_from([GOOD, BAD]), max_size=30), st.integers(0, 2))
def test_void_trials_change_no_rate(trials: list[object], voids: int) -> None:
    """Void trials enter no rate, whatever the stop rule."""
    void = verdict(OutcomeKind.CRASH, Answer.NO)
    for plan in (PLAN, CellPlan(PLAN.id, PLAN.condition, StopRule(trials=6))):
        without = counting.count(plan, trials)  # type: ignore[arg-type]
        assert counting.count(plan, [*trials, *[void] * voids]).rate == without.rate  # type: ignore[list-item]


def test_which_interval() -> None:
    """Clopper-Pearson only where exactly the fixed number of trials ran; the JSON says which."""
    fixed = CellPlan(PLAN.id, PLAN.condition, StopRule(trials=6))
    whole, short, looked = (
        counting.count(fixed, [GOOD] * 6),
        counting.count(fixed, [GOOD] * 5),
        counting.count(PLAN, [GOOD] * 5),
    )
    assert whole.rate and short.rate and looked.rate
    assert (whole.rate.method, short.rate.method, looked.rate.method) == ("fixed-n", "sequential", "sequential")
    assert "does not fail 50 % of the time" in looked.shown


@pytest.mark.parametrize(("low", "high", "most"), [(0.05, 0.5, 40), (0.05, 0.2, 60), (0.01, 0.05, 150)])
@pytest.mark.parametrize("bound", [0.05, 0.3, 0.9])
def test_futility_makes_no_error_likelier(low: float, high: float, most: int, bound: float) -> None:
    """Whatever the bound, both errors are at most what they are without it, and nominal."""
    rule = Decide(low, high, 0.05)
    for rate in (low, (low * high) ** 0.5, high):
        free = planning.course(rule, rate, least=3, most=most)
        held = planning.course(rule, rate, least=3, most=most, futility=bound)
        assert held.good <= free.good + 1e-12
        assert held.bad <= free.bad + 1e-12
        assert held.mean <= free.mean + 1e-9
        assert held.good + held.bad + held.undecided == pytest.approx(1)
    assert planning.course(rule, low, least=3, most=most, futility=bound).bad <= 0.05


def test_the_chance_to_decide() -> None:
    """0 where nothing can decide, 1 where the next trial must; between, what an enumeration of all courses gives."""
    stop = StopRule(decide=RULE, max_trials=12, min_trials=1)
    assert sequential.chance_to_decide(StopRule(decide=RULE, max_trials=6), 1, 6) == 0.0

    def enumerated(failures: int, n: int) -> float:
        if n and sequential.sequential_test(RULE, failures, n) is not sequential.Shown.UNDECIDED:
            return 1.0
        if n == stop.max_trials:
            return 0.0
        fails = (failures + 0.5) / (n + 1)
        return fails * enumerated(failures + 1, n + 1) + (1 - fails) * enumerated(failures, n + 1)

    for failures, n in ((0, 0), (1, 3), (2, 8), (2, 11)):
        assert sequential.chance_to_decide(stop, failures, n) == pytest.approx(enumerated(failures, n), abs=1e-8)


def test_a_cell_is_given_up() -> None:
    """A cell that will hardly be decided ends undecided; the text says the probability and that no error grew."""
    stop = StopRule(decide=Decide(0.05, 0.2, 0.05), max_trials=40, futility=0.2)
    plan = CellPlan(PLAN.id, PLAN.condition, stop)
    trials = [BAD] * 4 + [GOOD] * 32
    assert not sequential.futile(StopRule(decide=stop.decide, max_trials=40), 4, 36)
    assert experiment.state(plan, trials) is CellState.UNDECIDED
    shown = counting.count(plan, trials).shown
    assert "would decide it with a probability of" in shown
    assert "no wrong answer likelier" in shown
