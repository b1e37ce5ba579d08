"""Teacher-forced checks: one trial a cell, of its own kind and in no rate, on the F16 twin of the model where there
is one, since quantised activations hide damage.

The reference's tokens are fed to every cell, one request a position, and the distributions are compared. The floor is
the same check on the reference's second healthy path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from stillruns.judge import applied, divergence
from stillruns.lab import reading
from stillruns.model.agreement import OutputVerdict
from stillruns.model.applied import Answer
from stillruns.model.cell_plan import CellPlan
from stillruns.model.divergence import Check, Divergence
from stillruns.model.engine import Engine
from stillruns.model.exchange import Answered, TokenProb
from stillruns.model.trial import TrialRecord
from stillruns.model.verdict import TrialVerdict
from stillruns.normalise import answer
from stillruns.store.store import Store

PREFIX = "check:"
POSITIONS = 32
"""Positions of one check at most: each is a request."""


@dataclass(frozen=True, slots=True)
class Checked:
    """One check trial, read: the distribution at each position, and whether the condition was applied."""

    trial: str
    positions: tuple[TokenProb, ...]
    status: Answer
    why: str


def needed(
    plans: Sequence[CellPlan], verdicts: Sequence[TrialVerdict], answers: Mapping[str, Answered], twin: str
) -> Iterator[CellPlan]:
    """The checks of a run: both paths of each reference that answered, then every offloaded cell that passed.

    `twin` is the path of the twin's file, or empty: then the model itself is checked.
    """
    for plan in plans:
        given = answers.get(plan.reference or plan.id)
        if given is None or not given.tokens:
            continue
        offloads = plan.condition.gpu_layers not in (0, "none", "server")
        passed = any(v.cell == plan.id and v.passed for v in verdicts)
        if passed and (plan.is_reference or offloads):
            condition = replace(
                plan.condition, model=twin or plan.condition.model, forced=given.tokens[:POSITIONS], epochs=1
            )
            yield replace(plan, id=PREFIX + plan.id, condition=condition)


def read(store: Store, record: TrialRecord, plan: CellPlan | None, engine: Engine | None) -> Checked:
    """A check trial's evidence."""
    evidence = {e.id: e for e in record.evidence}
    positions = []
    for exchange in record.exchanges:
        body = evidence.get(exchange.evidence or "")
        told = answer.read(exchange.status, store.read_blob(body.sha256)) if body else None
        if not isinstance(told, Answered) or not told.probs:
            break
        positions.append(told.probs[0])
    status, why = Answer.UNKNOWN, "its cell is not known"
    if plan is not None:
        proof, _ = applied.judge(plan.condition, engine, reading.read(store, record).facts, record)
        status, why = proof.status, proof.why
    return Checked(record.trial, tuple(positions), status, why)


def judge(
    plans: Sequence[CellPlan], checked: Mapping[str, Checked], answers: Mapping[str, Answered], model: str
) -> tuple[Check, ...]:
    """Every checked cell beside its reference, in the order of the plans. `model` names what was checked."""
    found = []
    for plan in plans:
        mine, base = checked.get(PREFIX + plan.id), checked.get(PREFIX + plan.reference)
        if mine is None or plan.is_reference:
            continue
        given = answers.get(plan.reference)
        tokens = given.tokens if given else ()
        if base is None:
            found.append(_open(plan, mine, model, "the reference was not checked"))
            continue
        if mine.status is not Answer.YES:
            found.append(_open(plan, mine, model, f"the check did not run under its condition: {mine.why}"))
            continue
        floor = _floor(plan, plans, checked, base, tokens)
        seen = divergence.measure(mine.positions, base.positions, tokens)
        verdict, why = divergence.verdict(seen, floor)
        found.append(Check(plan.id, mine.trial, model, verdict, why, seen, floor))
    return tuple(found)


def note(model: str, quantisation: str | None, *, checked: bool, twin: bool) -> str:
    """What the comparison of outputs could not see, in one sentence, or nothing."""
    if twin or quantisation in ("F16", "BF16", "F32", None):
        return ""
    advice = (
        "give its F16 twin (twin = ...)" if checked else "check = true compares distributions, best on an F16 twin"
    )
    return f"outputs of {model} were compared on {quantisation} weights, which hide small damage: {advice}"


def _floor(
    plan: CellPlan,
    plans: Sequence[CellPlan],
    checked: Mapping[str, Checked],
    base: Checked,
    tokens: Sequence[int],
) -> Divergence | None:
    other = next((p for p in plans if p.is_floor and p.reference == plan.reference), None)
    second = checked.get(PREFIX + other.id) if other else None
    return divergence.measure(second.positions, base.positions, tokens) if second else None


def _open(plan: CellPlan, mine: Checked, model: str, why: str) -> Check:
    return Check(plan.id, mine.trial, model, OutputVerdict.UNKNOWN, why, None, None)
