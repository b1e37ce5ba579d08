"""Which trial comes next, and how far a cell is.

The order is a pure function of the spec's seed and of the trials that are already on record, so that a run resumed
after a reboot goes on exactly where it would have gone on. Trials run in blocks: a block runs each open cell once, in
an order drawn anew for each block (randomised block design), so that drift of temperature or load meets all cells
alike. The reference comes first, because everything else is compared with it; it enters no rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stillruns.judge.cells.matrix import cells
from stillruns.judge.statistics import splitmix
from stillruns.judge.statistics.sequential import Shown, futile, stands
from stillruns.model.applied import Answer
from stillruns.model.cell_plan import CellPlan, CellState
from stillruns.model.outcome import OutcomeKind
from stillruns.model.spec import Spec
from stillruns.model.verdict import TrialVerdict

__all__ = [
    "cells",
    "decided",
    "floor_plan",
    "next_trial",
    "reference_plan",
    "state",
    "trials_left",
    "void_factor",
]


def next_trial(
    spec: Spec, plans: Sequence[CellPlan], verdicts: Sequence[TrialVerdict], seed: int | None = None
) -> CellPlan | None:
    """The cell to run now, or None when no cell is open.

    `verdicts` are all trials on record, in the order in which they ran; interrupted ones are repeated. `seed` is the
    spec's `order_seed` unless given.
    """
    by_cell = _by_cell(verdicts)
    opened = [p for p in plans if state(p, by_cell.get(p.id, ())) is CellState.OPEN]
    for plan in opened:
        if plan.is_reference:
            return plan
    if not opened:
        return None
    done = {p.id: sum(not _interrupted(v) for v in by_cell.get(p.id, ())) for p in opened}
    block = min(done.values())
    names = _shuffled([p.id for p in plans if not p.is_reference], spec.order_seed if seed is None else seed, block)
    turn = {name: place for place, name in enumerate(names)}
    return min((p for p in opened if done[p.id] == block), key=lambda p: turn[p.id])


def state(plan: CellPlan, verdicts: Iterable[TrialVerdict]) -> CellState:
    """How far a cell is; `verdicts` of other cells are ignored.

    Decided after `trials` applied trials, or as soon as the sequential test of `decide` is; undecided when its
    `max_trials` are spent or no course of the rest could decide. Given up as void after `max_voids` void trials in a
    row for one reason (the same factor not applied), or, when the reasons alternate, after `trials + max_voids` void
    trials in all; as unknown after `trials` unknown ones.
    """
    mine = [v for v in verdicts if v.cell == plan.id and not _interrupted(v)]
    voids = [v for v in mine if v.void]
    unknown = sum(v.applied.status is Answer.UNKNOWN for v in mine)
    applied = [v for v in mine if v.counts]
    if plan.stop.decide is None:
        if len(applied) >= plan.stop.trials:
            return CellState.DECIDED
    else:
        failures = sum(not v.passed for v in applied)
        if stands(plan.stop, failures, len(applied)) is not Shown.UNDECIDED:
            return CellState.DECIDED
        if futile(plan.stop, failures, len(applied)):
            return CellState.UNDECIDED
    if plan.stop.max_voids > 0:
        last = mine[-plan.stop.max_voids :]
        if len(last) == plan.stop.max_voids and all(v.void for v in last) and len(set(map(void_factor, last))) == 1:
            return CellState.VOID
        if len(voids) >= plan.stop.trials + plan.stop.max_voids:
            return CellState.VOID
    return CellState.UNKNOWN if unknown >= plan.stop.trials else CellState.OPEN


def decided(plan: CellPlan, verdicts: Iterable[TrialVerdict]) -> bool:
    """Whether the cell's applied trials are as many as were asked for, or have decided its test."""
    return state(plan, verdicts) is CellState.DECIDED


def trials_left(plans: Iterable[CellPlan], verdicts: Sequence[TrialVerdict]) -> int:
    """How many trials are still to be run if every one of them is applied: what a run costs, at most where a
    sequential test may end it earlier."""
    by_cell = _by_cell(verdicts)
    left = 0
    for plan in plans:
        mine = by_cell.get(plan.id, ())
        if state(plan, mine) is CellState.OPEN:
            known = plan.stop.most - sum(v.counts for v in mine)
            unknown = sum(v.applied.status is Answer.UNKNOWN and not _interrupted(v) for v in mine)
            left += min(known, plan.stop.trials - unknown) if unknown else known
    return left


def void_factor(verdict: TrialVerdict) -> str:
    """The name of the factor that made a trial void, or empty."""
    for name, factor in verdict.applied.factors.items():
        if factor.status is Answer.NO:
            return name
    return ""


def reference_plan(plan: CellPlan, plans: Iterable[CellPlan]) -> CellPlan | None:
    """The plan whose output `plan`'s is compared with; None for the reference itself, and without one."""
    return next((p for p in plans if p.id == plan.reference), None) if plan.reference else None


def floor_plan(plan: CellPlan, plans: Iterable[CellPlan]) -> CellPlan | None:
    """The plan that measures the rounding floor for `plan`; None without a reference."""
    reference = plan.id if plan.is_reference and not plan.is_floor else plan.reference
    return next((p for p in plans if p.is_floor and p.reference == reference), None) if reference else None


def _by_cell(verdicts: Iterable[TrialVerdict]) -> dict[str, list[TrialVerdict]]:
    grouped: dict[str, list[TrialVerdict]] = {}
    for verdict in verdicts:
        grouped.setdefault(verdict.cell, []).append(verdict)
    return grouped


def _interrupted(verdict: TrialVerdict) -> bool:
    return verdict.outcome.kind is OutcomeKind.INTERRUPTED


def _shuffled(names: list[str], seed: int, block: int) -> list[str]:
    """Fisher-Yates, with words that are the same everywhere."""
    names = list(names)
    drawn = splitmix.words((seed * splitmix.GOLDEN + block + 1) & splitmix.MASK)
    for last in range(len(names) - 1, 0, -1):
        other = next(drawn) % (last + 1)
        names[last], names[other] = names[other], names[last]
    return names
