"""Tests of judge/cells/experiment.py: which trial comes next."""

from __future__ import annotations

from collections import Counter

import msgspec
from test_matrix import spec

from judge_samples import verdict
from stillruns.judge.cells.experiment import cells, decided, next_trial, state, trials_left
from stillruns.model.applied import Answer
from stillruns.model.cell_plan import CellState
from stillruns.model.outcome import OutcomeKind
from stillruns.model.spec import Spec, StopRule
from stillruns.model.verdict import TrialVerdict


def play(s: Spec, history: list[TrialVerdict] | None = None, limit: int = 200) -> list[TrialVerdict]:
    """Run the whole experiment with trials that all pass."""
    plans, verdicts = cells(s), list(history or [])
    while (plan := next_trial(s, plans, verdicts)) is not None:
        verdicts.append(verdict(cell=plan.id))
        assert len(verdicts) < limit
    return verdicts


def test_blocks() -> None:
    """Reference first; then blocks that hold each cell once, in an order that changes from block to block."""
    s = spec(stop=StopRule(trials=6))
    order = [v.cell for v in play(s)]
    assert order[:2] == ["reference=cpu", "reference=cpu,floor"]
    blocks = [tuple(order[2 + 3 * i : 5 + 3 * i]) for i in range(6)]
    assert len(order) == 2 + 18
    assert all(len(set(block)) == 3 for block in blocks)
    assert len(set(blocks)) > 1


def test_the_order_is_fixed_for_good() -> None:
    """A seed gives the same order on every machine and Python: these names were written down once."""
    s = spec(stop=StopRule(trials=2), reference="none", order_seed=7)
    assert [v.cell.rsplit("=")[-1] for v in play(s)] == ORDER_OF_SEED_7
    assert [v.cell for v in play(msgspec.structs.replace(s, order_seed=8))] != [v.cell for v in play(s)]


ORDER_OF_SEED_7 = ["2", "all", "0", "0", "2", "all"]


def test_resuming_goes_on_in_the_same_order() -> None:
    """Whatever the moment of the interruption, the resumed run continues the same sequence."""
    s = spec(stop=StopRule(trials=4))
    whole = play(s)
    for stop in range(len(whole)):
        assert [v.cell for v in play(s, whole[:stop])] == [v.cell for v in whole]


def test_interrupted_trials_are_repeated() -> None:
    """An interrupted trial does not use up its place: the same cell comes again at once."""
    s = spec(stop=StopRule(trials=2))
    plans, history = cells(s), play(s)[:4]
    first = next_trial(s, plans, history)
    assert first is not None
    history.append(verdict(OutcomeKind.INTERRUPTED, cell=first.id))
    again = next_trial(s, plans, history)
    assert again is not None and again.id == first.id


def test_voids_in_a_row_end_a_cell() -> None:
    """Three voids in a row for one reason end a cell as void; a void of another reason starts the row anew."""
    s = spec(gpu_layers=(2,), reference="none", stop=StopRule(trials=6, max_voids=3))
    (plan,) = cells(s)
    void = verdict(status=Answer.NO, cell=plan.id)
    other = verdict(status=Answer.NO, cell=plan.id, factor="context")
    good = verdict(cell=plan.id)
    assert state(plan, [void] * 3) is CellState.VOID
    assert state(plan, [void, void, good, void]) is CellState.OPEN
    assert state(plan, [void, void, other]) is CellState.OPEN
    assert state(plan, [void, other] * 5) is CellState.VOID
    assert next_trial(s, (plan,), [void] * 3) is None
    assert not decided(plan, [void] * 3)


def test_voids_do_not_count_as_applied() -> None:
    """A cell goes on until it has its applied trials, voids apart."""
    s = spec(gpu_layers=(2,), reference="none", stop=StopRule(trials=3, max_voids=3))
    (plan,) = cells(s)
    history = [verdict(status=Answer.NO, cell=plan.id), *[verdict(OutcomeKind.CRASH, cell=plan.id)] * 2]
    assert state(plan, history) is CellState.OPEN
    assert decided(plan, [*history, verdict(cell=plan.id)])


def test_unknown_trials_are_bounded() -> None:
    """An attached server without a log runs its trials and then ends as unknown, not for ever."""
    s = spec(gpu_layers=(2,), reference="none", stop=StopRule(trials=3))
    (plan,) = cells(s)
    assert state(plan, [verdict(status=Answer.UNKNOWN, cell=plan.id)] * 2) is CellState.OPEN
    assert state(plan, [verdict(status=Answer.UNKNOWN, cell=plan.id)] * 3) is CellState.UNKNOWN


def test_a_void_cell_does_not_hold_up_the_others() -> None:
    """When one cell is void, the others still get all their trials."""
    s = spec(stop=StopRule(trials=4, max_voids=2), reference="none")
    plans, verdicts = cells(s), []
    while (plan := next_trial(s, plans, verdicts)) is not None:
        bad = plan.condition.gpu_layers == "all"
        verdicts.append(verdict(status=Answer.NO if bad else Answer.YES, cell=plan.id))
    assert Counter(v.cell.rsplit("=")[-1] for v in verdicts) == {"0": 4, "2": 4, "all": 2}


def test_trials_left() -> None:
    """The estimate starts at all trials and ends at none."""
    s = spec(stop=StopRule(trials=4))
    plans, whole = cells(s), play(s)
    assert trials_left(plans, []) == 2 + 12 == len(whole)
    assert trials_left(plans, whole[:5]) == len(whole) - 5
    assert trials_left(plans, whole) == 0
