"""A run's records, judged again from their evidence: for a run that goes on, for `report`, `show` and `replay`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from stillruns.catalogue.load import known_issues
from stillruns.errors import UsageError
from stillruns.judge.answers import agreement, heard
from stillruns.judge.cells import counting, experiment
from stillruns.judge.cells.matrix import covering_note
from stillruns.judge.claims import hypotheses, quoting
from stillruns.judge.statistics import blocks, pace, survival
from stillruns.judge.trials import verdict
from stillruns.lab.runs import distributions, engines, floors, freezing, observing, reading
from stillruns.model.applied import Answer, Applied
from stillruns.model.cell import Cell
from stillruns.model.cell_plan import CellPlan, CellState
from stillruns.model.divergence import Check
from stillruns.model.engine import Engine
from stillruns.model.exchange import Answered
from stillruns.model.floor import Floor
from stillruns.model.hint import hint
from stillruns.model.known_floor import KnownFloor
from stillruns.model.observed import ObservedCell
from stillruns.model.outcome import Outcome, OutcomeKind
from stillruns.model.phase import Phase
from stillruns.model.run_result import RunResult, RunWarning
from stillruns.model.server_facts import SeenDevice
from stillruns.model.spec import BackendSpec, Spec
from stillruns.model.trial import TrialRecord
from stillruns.model.verdict import TrialVerdict
from stillruns.store.store import Store
from stillruns.store.view import decode_trial


@dataclass(slots=True)
class Judged:
    """All trials of a run, in the order in which they ran, and what they are compared with."""

    store: Store
    run: str
    plans: Sequence[CellPlan]
    backends: Sequence[BackendSpec]
    engines: Mapping[str, Engine]
    verdicts: list[TrialVerdict] = field(default_factory=list)
    warming: list[TrialVerdict] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    left_open: tuple[dict[str, str], ...] = ()
    faults: list[str] = field(default_factory=list)
    twin: str = ""
    checked: dict[str, distributions.Checked] = field(default_factory=dict)
    met: dict[str, observing.Met] = field(default_factory=dict)
    devices: dict[str, SeenDevice] = field(default_factory=dict)
    """The device that a trial's layers were on, by trial; none for one whose log shows none."""
    only: str = ""
    """A trial's id: then no other is judged but the references. Judging reads each trial's whole log."""
    answers: dict[str, Answered] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read what is on record already."""
        started: dict[str, dict[str, str]] = {}
        for record in self.store.records(run=self.run):
            body = record.body
            if record.kind == "run_started":
                twin = body.get("twin")
                self.twin = str(twin.get("path", "")) if isinstance(twin, dict) else ""
            elif record.kind == "trial_started":
                started[str(body["trial"])] = {"trial": str(body["trial"]), "cell": str(body["cell"])}
                self.seen.add(str(body["trial"]))
            elif record.kind == "trial_ended":
                started.pop(str(body["trial"]), None)
                ended = decode_trial(body["record"])
                if ended.cell.startswith(distributions.PREFIX):
                    self.take_check(ended)
                elif self._wanted(ended):
                    self.take(ended)
            elif record.kind == "trial_interrupted":
                started.pop(str(body["trial"]), None)
                self._interrupted(str(body["trial"]), str(body["cell"]), str(body.get("reason", "")))
            elif record.kind == "reference_reused":
                self.take_reused(body)
        self.left_open = tuple(started.values())

    def _wanted(self, record: TrialRecord) -> bool:
        """Whether a trial is to be judged: all, or the one asked for and the references that it is compared with."""
        if not self.only or record.trial == self.only:
            return True
        plan = self.plan_of(record.cell)
        return plan is not None and plan.is_reference

    def plan_of(self, cell: str) -> CellPlan | None:
        """The plan of a cell id; None for a cell that the spec does not have."""
        return next((p for p in self.plans if p.id == cell), None)

    def take_check(self, record: TrialRecord) -> None:
        """Read a check: it has no verdict of its own."""
        self.seen.add(record.trial)
        plan = self.plan_of(record.cell.removeprefix(distributions.PREFIX))
        engine = engines.choose(plan.condition, self.backends, self.engines) if plan else None
        if plan is not None and self.twin:
            plan = dataclasses.replace(plan, condition=dataclasses.replace(plan.condition, model=self.twin))
        self.checked[record.cell] = distributions.read(self.store, record, plan, engine)

    def take(self, record: TrialRecord) -> TrialVerdict:
        """Judge one more trial and add it."""
        self.seen.add(record.trial)
        if record.cell.startswith("warming:"):
            judged = self._judge(record, record.cell.removeprefix("warming:"))
            self.warming.append(judged)
        else:
            judged = self._judge(record, record.cell)
            self.verdicts.append(judged)
        return judged

    def take_reused(self, body: Mapping[str, object]) -> TrialVerdict:
        """A reference that an earlier run measured counts here as well."""
        record = decode_trial(body["record"])
        judged = self._judge(record, str(body["cell"]))
        self.verdicts.append(judged)
        return judged

    def interrupted(self, trial: str, cell: str, reason: str) -> None:
        """A trial that was started and has no end."""
        self._interrupted(trial, cell, reason)

    def _judge(self, record: TrialRecord, cell: str) -> TrialVerdict:
        plan = self.plan_of(cell)
        if plan is None:
            raise UsageError(f"run {self.run} has a trial of the cell {cell}, which its spec does not have")
        read = reading.read(self.store, record)
        self.faults += read.faults
        compared = experiment.reference_plan(plan, self.plans)
        judged = verdict.trial(
            plan.condition,
            engines.choose(plan.condition, self.backends, self.engines),
            read.facts,
            record,
            read.answered,
            self.answers.get(compared.id) if compared else None,
            self.floor(plan),
            read.others,
            read.weights,
        )
        judged = dataclasses.replace(judged, cell=cell)
        self.met[record.trial] = observing.met(self.store, record)
        device = observing.computed_on(read.facts, plan.condition.backend)
        if device is not None:
            self.devices[record.trial] = device
        if plan.is_reference and isinstance(read.answered, Answered) and judged.passed:
            self.answers[plan.id] = read.answered
        return judged

    def floor(self, plan: CellPlan) -> Floor | None:
        """The rounding between the reference's two healthy paths; None before both have answered."""
        other = experiment.floor_plan(plan, self.plans)
        if other is None or other.id == plan.id:
            return None
        first, second = self.answers.get(other.reference), self.answers.get(other.id)
        return agreement.measure_floor(first, second) if first and second else None

    def _interrupted(self, trial: str, cell: str, reason: str) -> None:
        self.seen.add(trial)
        if cell.startswith(("warming:", distributions.PREFIX)):
            return
        self.verdicts.append(
            TrialVerdict(
                trial=trial,
                cell=cell,
                index=sum(v.cell == cell for v in self.verdicts),
                outcome=Outcome(OutcomeKind.INTERRUPTED, Phase.UNKNOWN, detail=reason),
                applied=Applied(Answer.UNKNOWN, "the trial was interrupted", {}),
                placement=None,
                agreement=None,
                tokens_per_second=None,
                seconds=0.0,
            )
        )


@dataclass(frozen=True, slots=True)
class Opening:
    """The first record of a run."""

    spec: Spec
    plans: tuple[CellPlan, ...]
    engines: dict[str, Engine]
    lacking: dict[str, str]
    body: Mapping[str, object]


def first_record(store: Store, run: str) -> Mapping[str, object]:
    """The body of `run_started`. Raises UsageError when the store has no such run."""
    for record in store.records(run=run, kind="run_started"):
        return record.body
    known = [r.run for r in store.runs()]
    raise UsageError(f"no run {run} in {store.path}; " + (f"the newest is {known[-1]}" if known else "it holds none"))


def opening(store: Store, run: str) -> Opening:
    """What a matrix was started with. Raises UsageError when the run is none, or is not there."""
    body = first_record(store, run)
    if body.get("form") == "worklog":
        raise UsageError(f"{run} was imported; see it with: {hint('report', str(body.get('study', run)))}")
    if body.get("form") == "once":
        raise UsageError(
            f"{run} is a single supervised command, not a matrix; see it with: {hint('show', f'{run}.0001')}"
        )
    return Opening(
        msgspec.convert(body["spec"], Spec),
        msgspec.convert(body["plans"], tuple[CellPlan, ...]),
        msgspec.convert(body["engines"], dict[str, Engine]),
        msgspec.convert(body.get("lacking", {}), dict[str, str]),
        body,
    )


def judge_run(store: Store, run: str) -> RunResult:
    """The whole run from its evidence: cells, verdicts, warnings."""
    start = opening(store, run)
    judged = Judged(store, run, start.plans, start.spec.backends, start.engines)
    for left in judged.left_open:
        judged.interrupted(left["trial"], left["cell"], "no end on record: running now, or its harness died")
    return judged_run(start, judged)


def judged_run(start: Opening, judged: Judged) -> RunResult:
    """The result of a run whose trials are judged already."""
    boots = {trial: met.circumstances.boot for trial, met in judged.met.items()}
    cells = counting.table(start.plans, judged.verdicts, boots=boots)
    checks, measured = _checks(start, judged)
    seen = _observed(start, judged, checks)
    posed = freezing.posed(judged.store, judged.run, start.spec)
    curves, ranks = survival.of_cells(seen)
    states = [experiment.state(p, judged.verdicts) for p in start.plans]
    return RunResult(
        run=judged.run,
        spec_sha256=start.spec.sha256,
        name=start.spec.name,
        question=start.spec.question,
        cells=cells,
        verdicts=tuple(judged.verdicts),
        warnings=tuple(_warnings(start, judged, seen)),
        claims=hypotheses.judge(posed, seen, known_issues()),
        checks=checks,
        floors=measured,
        survival=curves,
        log_rank=ranks,
        met={trial: met.circumstances for trial, met in judged.met.items()},
        complete=CellState.OPEN not in states,
        undecided=tuple(p.id for p, s in zip(start.plans, states, strict=True) if s is CellState.UNDECIDED),
        shared=_later_warnings(cells, seen, judged.verdicts),
    )


def _later_warnings(
    cells: Sequence[Cell], seen: Sequence[ObservedCell], verdicts: Sequence[TrialVerdict]
) -> tuple[RunWarning, ...]:
    """Those that came after the first runs were recorded: in no digest."""
    repeats = (text for v in verdicts if (text := heard.not_repeated(v)))
    return (
        *(RunWarning("rate", text) for text in counting.without_failure(cells)),
        *(RunWarning("block", text) for text in blocks.sentences(seen)),
        *(RunWarning("speed", text) for text in quoting.against_cpu(seen)),
        *(RunWarning("pace", text) for text in (pace.changed(seen),) if text),
        *(RunWarning("repeat", text) for text in repeats),
    )


def observed(start: Opening, judged: Judged) -> tuple[ObservedCell, ...]:
    """The run's counted cells as hypotheses see them."""
    return _observed(start, judged, _checks(start, judged)[0])


def _checks(start: Opening, judged: Judged) -> tuple[tuple[Check, ...], tuple[KnownFloor, ...]]:
    return distributions.judge(start.plans, judged.checked, judged.answers, _ground(start, judged.run))


def _observed(start: Opening, judged: Judged, checks: Sequence[Check]) -> tuple[ObservedCell, ...]:
    host, model, others = (start.body.get(name) for name in ("host", "model", "models"))
    where = observing.Where(
        host=str(host.get("cpu", "")) if isinstance(host, dict) else "",
        model=start.spec.model,
        model_sha256=str(model.get("sha256", "")) if isinstance(model, dict) else "",
        models={n: str(m.get("sha256")) for n, m in others.items()} if isinstance(others, dict) else {},
        drivers=_drivers(host, judged),
    )
    engines_of = {p.condition.backend_id: e for p in start.plans if (e := _engine_of(start, p)) is not None}
    found = observing.cells(start.plans, judged.verdicts, judged.met, engines_of, where, judged.run)
    verdicts = {check.cell: check.verdict.value for check in checks}
    return tuple(dataclasses.replace(cell, checked=verdicts.get(cell.id)) for cell in found)


def _drivers(host: object, judged: Judged) -> dict[str, str] | None:
    """The kernel drivers that were loaded when the run began; None where they were not recorded, or where trials were
    made in another boot, which may have brought others."""
    loaded = host.get("drivers") if isinstance(host, dict) else None
    if not isinstance(host, dict) or not isinstance(loaded, dict):
        return None
    boots = {met.circumstances.boot for met in judged.met.values()}
    return {str(k): str(v) for k, v in loaded.items()} if boots <= {str(host.get("boot_id"))} else None


def _ground(start: Opening, run: str) -> distributions.Ground:
    models = floors.checked_models(start.body)
    twin = start.body.get("twin")
    name = str(twin.get("name")) if isinstance(twin, dict) else start.spec.model
    return distributions.Ground(
        run,
        msgspec.structs.replace(models, alone=msgspec.structs.replace(models.alone, name=name)),
        {p.id: _engine_of(start, p) for p in start.plans},
        floors.frozen(start.body),
        name if isinstance(twin, dict) else "",
    )


def _engine_of(start: Opening, plan: CellPlan) -> Engine | None:
    return engines.choose(plan.condition, start.spec.backends, start.engines)


def _warnings(start: Opening, judged: Judged, cells: Sequence[ObservedCell]) -> list[RunWarning]:
    found = [RunWarning("not tested", f"{name}: {why}") for name, why in start.lacking.items()]
    for warmed in judged.warming:
        if warmed.outcome.kind is not OutcomeKind.OK:
            found.append(
                RunWarning(
                    "warming",
                    f"the warming trial {warmed.trial} of {warmed.cell} ended as {warmed.outcome.kind.value} in "
                    f"{warmed.outcome.phase.value} (not counted: its shader cache was cold)",
                )
            )
    for plan in start.plans:
        floor = judged.floor(plan) if plan.is_reference and not plan.is_floor else None
        sentence = agreement.floor_warning(floor) if floor else None
        if sentence:
            found.append(RunWarning("floor", f"{plan.id}: {sentence}"))
    if any(v.agreement is not None and v.counts for v in judged.verdicts):
        told = distributions.note(
            start.spec.model,
            observing.quantisation(start.spec.model),
            checked=start.spec.check,
            twin=isinstance(start.body.get("twin"), dict),
        )
        found += [RunWarning("output", told)] if told else []
    covered = covering_note(start.spec, start.plans)
    found += [RunWarning("covering", covered)] if covered else []
    found += [RunWarning("speed", text) for text in quoting.speeds(cells)]
    found += [RunWarning("block", text) for text in quoting.blocks(cells)]
    found += [RunWarning("hypotheses", text) for text in freezing.warnings(start.body)]
    found += [RunWarning("parser", fault.strip().splitlines()[-1]) for fault in judged.faults]
    return found


def resolve_run(store: Store, name: str) -> str:
    """A run's id from itself, a unique beginning or ending of it, or `last`. Raises UsageError when none fits."""
    known = [summary.run for summary in store.runs()]
    if name in known:
        return name
    if name == "last" and known:
        return known[-1]
    found = [run for run in known if run.startswith(name) or run.endswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{name} fits {len(found)} runs: {', '.join(found[-5:])}; give more of the id")
    if name.rpartition(".")[0] in known:
        raise UsageError(f"{name} names a trial of a run; see it with: {hint('show', name)}")
    raise UsageError(f"no run {name} in {store.path}; `{hint('report', options=('--list',))}` lists them")


def newest_matrix(store: Store) -> str:
    """The newest experiment: a matrix of trials, no single command and no selftest. Raises UsageError when there is
    none."""
    newest = ""
    for record in store.records(kind="run_started"):
        if not record.body.get("form"):
            newest = record.run
    if not newest:
        raise UsageError(
            f"the store {store.path} holds no experiment; start one with `{hint('demo')}`; "
            f"`{hint('report', options=('--list',))}` lists what it holds"
        )
    return newest
