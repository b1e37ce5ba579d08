"""Teacher-forced checks: one trial a cell, of its own kind and in no rate, on the F16 twin of the model where there
is one, since quantised activations hide damage.

The reference's tokens, and fixed texts, are fed to every cell, one request a position, and the distributions are
compared: on the prompt path, and on the decode path. The floor is the same check on the reference's second healthy
path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from stillruns.judge.answers import divergence
from stillruns.judge.answers import floors as rules
from stillruns.judge.trials import applied
from stillruns.lab.runs import floors, forced, reading
from stillruns.model.agreement import WORST_FIRST, OutputVerdict
from stillruns.model.applied import Answer
from stillruns.model.cell_plan import CellPlan
from stillruns.model.divergence import Check, Divergence, Path
from stillruns.model.engine import Engine
from stillruns.model.exchange import Answered, TokenProb
from stillruns.model.known_floor import KnownFloor
from stillruns.model.spec import Spec
from stillruns.model.trial import TrialRecord
from stillruns.model.verdict import TrialVerdict
from stillruns.store.store import Store

PREFIX = "check:"


@dataclass(frozen=True, slots=True)
class Checked:
    """One check trial, read: its chains of positions, whether the condition was applied, and what the first request
    got at first and again at the end."""

    trial: str
    chains: tuple[forced.Chain, ...]
    status: Answer
    why: str
    again: tuple[TokenProb, TokenProb] | None = None

    def of(self, path: Path) -> tuple[forced.Chain, ...]:
        """The chains of one path: the reference's answer first, then the texts."""
        return tuple(c for c in self.chains if c.path is path)


def needed(
    spec: Spec,
    plans: Sequence[CellPlan],
    verdicts: Sequence[TrialVerdict],
    answers: Mapping[str, Answered],
    twin: str,
) -> Iterator[CellPlan]:
    """The checks of a run: both paths of each reference that answered, then every cell that passed, those of other
    CPU builds among them.

    `twin` is the path of the twin's file, or empty: then the model itself is checked.
    """
    for plan in plans:
        given = answers.get(plan.reference or plan.id)
        if given is None or not given.tokens:
            continue
        wanted = plan.condition.gpu_layers not in (0, "server") and not plan.condition.url
        passed = any(v.cell == plan.id and v.passed for v in verdicts)
        if passed and (plan.is_reference or wanted):
            condition = replace(
                plan.condition,
                model=twin or plan.condition.model,
                forced=given.tokens[: spec.check_positions],
                forced_texts=spec.check_texts,
                forced_positions=spec.check_positions,
                epochs=1,
                duration=0.0,
                concurrency=1,
            )
            yield replace(plan, id=PREFIX + plan.id, condition=condition)


def read(store: Store, record: TrialRecord, plan: CellPlan | None, engine: Engine | None) -> Checked:
    """A check trial's evidence."""
    told = reading.read(store, record)
    status, why = Answer.UNKNOWN, "its cell is not known"
    if plan is not None:
        proof, _ = applied.judge(plan.condition, engine, told.facts, record)
        status, why = proof.status, proof.why
    chains, again = forced.told(store, told)
    return Checked(record.trial, chains, status, why, again)


@dataclass(frozen=True, slots=True)
class Ground:
    """What checks are judged on besides their evidence: the run, what was checked, the engine of each plan by its id,
    and the floors that the run's first record froze."""

    run: str
    models: floors.CheckedModels
    engines: Mapping[str, Engine | None]
    known: tuple[KnownFloor, ...] = ()
    twin: str = ""
    """The name of the twin that was checked in place of every cell's model; empty where there was none."""

    def model_of(self, plan: CellPlan) -> str:
        """What a plan's check was made on, as the spec names it."""
        return self.twin or str(plan.condition.axes.get("model", "")) or self.models.alone.name


def judge(
    plans: Sequence[CellPlan], checked: Mapping[str, Checked], answers: Mapping[str, Answered], ground: Ground
) -> tuple[tuple[Check, ...], tuple[KnownFloor, ...]]:
    """Every checked cell beside its reference, in the order of the plans, and the floors that the run measured: by
    these, too, each cell is judged, its own apart."""
    alone = _checks(plans, checked, answers, ground, ())
    measured = _measured(plans, checked, answers, alone, ground)
    return _checks(plans, checked, answers, ground, (*ground.known, *measured)), measured


def _measured(
    plans: Sequence[CellPlan],
    checked: Mapping[str, Checked],
    answers: Mapping[str, Answered],
    checks: Sequence[Check],
    ground: Ground,
) -> tuple[KnownFloor, ...]:
    found: list[KnownFloor] = []
    for check in checks:
        plan = next(p for p in plans if p.id == check.cell)
        sides = _sides(plan, plans, checked, answers, ground)
        if sides is None or check.seen is None:
            continue
        own = {path: sides.floor(path) for path in Path}
        what = ground.models.of(plan)
        device = floors.device_of(plan, ground.engines.get(plan.id))
        if sides.second is not None and not any(f.trial == sides.second.trial for f in found):
            base = _base(plan, plans)
            theirs = floors.device_of(base, ground.engines.get(base.id))
            found += floors.of_reference(sides.second.trial, theirs, what, ground.run, own)
        if device != floors.device_of(_base(plan, plans), ground.engines.get(plan.reference)):
            found += floors.of_check(check, plan, ground.engines.get(plan.id), what, ground.run, own)
    return tuple(found)


def _base(plan: CellPlan, plans: Sequence[CellPlan]) -> CellPlan:
    return next((p for p in plans if p.id == plan.reference), plan)


def _sides(
    plan: CellPlan,
    plans: Sequence[CellPlan],
    checked: Mapping[str, Checked],
    answers: Mapping[str, Answered],
    ground: Ground,
) -> _Sides | None:
    mine, base = checked.get(PREFIX + plan.id), checked.get(PREFIX + plan.reference)
    if mine is None or base is None:
        return None
    other = next((p for p in plans if p.is_floor and p.reference == plan.reference), None)
    given = answers.get(plan.reference)
    second = checked.get(PREFIX + other.id) if other else None
    return _Sides(mine, base, second, given.tokens if given else (), ground.models.of(plan).quantisation)


def _checks(
    plans: Sequence[CellPlan],
    checked: Mapping[str, Checked],
    answers: Mapping[str, Answered],
    ground: Ground,
    known: Sequence[KnownFloor],
) -> tuple[Check, ...]:
    found = []
    for plan in plans:
        model = ground.model_of(plan)
        mine, base = checked.get(PREFIX + plan.id), checked.get(PREFIX + plan.reference)
        if mine is None or plan.is_reference:
            continue
        sides = _sides(plan, plans, checked, answers, ground)
        if base is None or sides is None:
            found.append(_open(plan, mine, model, "the reference was not checked"))
            continue
        if mine.status is not Answer.YES:
            found.append(_open(plan, mine, model, f"the check did not run under its condition: {mine.why}"))
            continue
        device = floors.device_of(plan, ground.engines.get(plan.id))
        kind = ground.models.of(plan)
        fit = {p: rules.fitting(known, kind.architecture, kind.quantisation, p, device) for p in Path}
        found.append(_compared(plan, model, sides, fit))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Sides:
    """A cell's check, its reference's, and that of the reference's second healthy path; `tokens` are the reference's
    answer, for requests that do not tell what comes next; `weights` is the type of what was checked (`F16`)."""

    mine: Checked
    base: Checked
    second: Checked | None
    tokens: Sequence[int]
    weights: str

    def seen(self, path: Path, first: int = 0) -> Divergence | None:
        """The cell against the reference, from the chain with this number on."""
        return self._measured(self.mine, path, first)

    def floor(self, path: Path) -> Divergence | None:
        """The reference's second path against its first."""
        return self._measured(self.second, path, 0) if self.second else None

    def _measured(self, ours: Checked, path: Path, first: int) -> Divergence | None:
        positions: list[TokenProb] = []
        theirs: list[TokenProb] = []
        tokens: list[int | None] = []
        for number, (a, b) in enumerate(zip(ours.of(path), self.base.of(path), strict=False)):
            if number < first:
                continue
            shared = min(len(a.positions), len(b.positions))
            positions += a.positions[:shared]
            theirs += b.positions[:shared]
            known = self.tokens if number == 0 else ()
            tokens += [
                token if token is not None or place >= len(known) else known[place]
                for place, token in enumerate(b.tokens[:shared])
            ]
        return divergence.measure(positions, theirs, tokens)

    def missed(self) -> str:
        """Why the decode path was not reached, or may not have been; empty where each position took one token."""
        most = [chain.recomputed for side in (self.mine, self.base) for chain in side.of(Path.DECODE)]
        again = max((n for n in most if n is not None), default=0)
        if again > 1:
            return f"decode path not reached: {again} tokens were evaluated anew"
        return "decode path not shown: the log does not tell how many tokens were evaluated" if None in most else ""


def _compared(plan: CellPlan, model: str, sides: _Sides, known: Mapping[Path, Sequence[KnownFloor]]) -> Check:
    seen, text = sides.seen(Path.PROMPT), sides.seen(Path.PROMPT, first=1)
    floor, basis = rules.widened(sides.floor(Path.PROMPT), known[Path.PROMPT])
    verdicts = [_said(seen, floor, basis, sides.weights)]
    decode = decode_floor = None
    if sides.mine.of(Path.DECODE):
        missed = sides.missed()
        if missed:
            verdicts.append((OutputVerdict.UNKNOWN, missed))
        else:
            decode = sides.seen(Path.DECODE)
            decode_floor, basis = rules.widened(sides.floor(Path.DECODE), known[Path.DECODE])
            verdict, why = _said(decode, decode_floor, basis, sides.weights)
            verdicts.append((verdict, f"one token at a time: {why}"))
    if text is not None:
        verdicts.append(divergence.perplexity(text))
    again = _repeated(sides.mine)
    if again is not None:
        verdicts += _said_again(again, floor, sides)
    # what could not be measured on one path leaves what the other shows
    measured = [v for v, _ in verdicts if v is not OutputVerdict.UNKNOWN]
    worst = min(measured, key=WORST_FIRST.index, default=OutputVerdict.UNKNOWN)
    why = "; ".join(why for _, why in verdicts)
    return Check(plan.id, sides.mine.trial, model, worst, why, seen, floor, decode, decode_floor, text, again)


def _repeated(checked: Checked) -> Divergence | None:
    """How far the first request's second answer is from its first."""
    return divergence.measure(checked.again[1:], checked.again[:1], ()) if checked.again else None


def _said_again(again: Divergence, floor: Divergence | None, sides: _Sides) -> list[tuple[OutputVerdict, str]]:
    """Nothing where the request got the same again, as far as rounding goes; else that it depends on what was asked
    before, unless the reference's does too."""
    verdict, _ = divergence.verdict(again, floor, sides.weights)
    if verdict in (OutputVerdict.SAME, OutputVerdict.FLOOR_OK):
        return []
    text = f"the first request, asked again at the end, got another answer ({again.kl_mean:.2g} nats)"
    theirs = _repeated(sides.base)
    if theirs is not None and divergence.verdict(theirs, floor, sides.weights)[0] is not OutputVerdict.SAME:
        return [(OutputVerdict.UNKNOWN, f"{text}, and so did the reference's")]
    return [(verdict, f"{text}: what is computed depends on earlier requests")]


def _said(seen: Divergence | None, floor: Divergence | None, basis: str, weights: str) -> tuple[OutputVerdict, str]:
    verdict, why = divergence.verdict(seen, floor, weights)
    return verdict, f"{why} (floor of the {basis})" if basis and verdict is not OutputVerdict.SAME else why


def note(model: str, quantisation: str | None, *, checked: bool, twin: bool) -> str:
    """What the comparison of outputs could not see, in one sentence, or nothing."""
    if twin or quantisation in ("F16", "BF16", "F32", None):
        return ""
    advice = (
        "no F16 twin was there to check instead (twin = FILE)"
        if checked
        else "check = true compares distributions, best on an F16 twin"
    )
    return f"outputs of {model} were compared on {quantisation} weights, which hide small damage: {advice}"


def _open(plan: CellPlan, mine: Checked, model: str, why: str) -> Check:
    return Check(plan.id, mine.trial, model, OutputVerdict.UNKNOWN, why, None, None)
