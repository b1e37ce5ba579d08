"""`stillruns run SPEC.toml`: trials until every cell is decided, each on record before it starts."""

from __future__ import annotations

import dataclasses
import os
import time
from contextlib import ExitStack

import msgspec

from stillruns.act import orphans, sampling, trial
from stillruns.act.runtimes import adapters
from stillruns.act.runtimes.adapter import Occasion
from stillruns.errors import Interrupted, UsageError
from stillruns.judge.cells import experiment
from stillruns.lab.runs import distributions, floors, freezing, reference, verdict_digest
from stillruns.lab.runs.host import describe as describe_host
from stillruns.lab.runs.judging import Judged, judged_run, opening
from stillruns.lab.runs.pace import Pace
from stillruns.lab.runs.preparing import Prepared
from stillruns.lab.runs.progress import Progress
from stillruns.lab.runs.shelving import shelf
from stillruns.lab.runs.unchanged import Unchanged
from stillruns.model.cell_plan import CellPlan, CellState
from stillruns.model.engine import Engine
from stillruns.model.outcome import OutcomeKind
from stillruns.model.run_result import RunResult
from stillruns.model.spec import Timeouts
from stillruns.model.trial import TrialRecord
from stillruns.store.journal import Writer
from stillruns.store.store import Store
from stillruns.store.view import encode_trial


class Run:
    """One run being written: the spec, its engines, its records so far, judged."""

    def __init__(self, prepared: Prepared, store: Store, writer: Writer, identity: str, progress: Progress) -> None:
        self.prepared = prepared
        self.store = store
        self.writer = writer
        self.id = identity
        self.progress = progress
        self.judged = Judged(store, identity, prepared.plans, prepared.spec.backends, prepared.engines)
        self.began = time.monotonic()
        self.pace = Pace(prepared.plans)
        self.sampled = sampling.devices()
        self.files = Unchanged(prepared)

    @property
    def complete(self) -> bool:
        """Whether no cell is open and no trial was left without an end."""
        judged = self.judged
        return (
            not judged.left_open
            and not self._checks()
            and not any(experiment.state(plan, judged.verdicts) is CellState.OPEN for plan in self.prepared.plans)
        )

    def go_on(self) -> None:
        """Run trials until every cell is decided, given up, or the time is spent."""
        spec = self.prepared.spec
        self._warm()
        cost = self.pace.before(self.judged.verdicts)
        if cost:
            self.progress.note(cost)
        while (plan := experiment.next_trial(spec, self.prepared.plans, self.judged.verdicts)) is not None:
            if spec.stop.max_minutes and time.monotonic() - self.began > spec.stop.max_minutes * 60:
                self.progress.note(f"stopped after {spec.stop.max_minutes:g} minutes, as [stop] max_minutes asks")
                return
            left = experiment.trials_left(self.prepared.plans, self.judged.verdicts)
            done = len(self.judged.verdicts)
            self.progress.started(plan, done, done + left, self.pace.left(self.judged.verdicts))
            kept = reference.recall(self.store, plan, self.prepared)
            if kept is None:
                self._one(plan)
            else:
                self.writer.append("reference_reused", self.id, kept)
                self.judged.take_reused(kept)
        for check in self._checks():
            self.progress.note(f"checking the distributions of {check.id.removeprefix('check:')}")
            self.judged.take_check(self._execute(check, warming=False))

    def _checks(self) -> list[CellPlan]:
        """The teacher-forced checks that are left."""
        if not self.prepared.spec.check:
            return []
        twin = self.prepared.twin.path if self.prepared.twin else ""
        found = distributions.needed(
            self.prepared.spec, self.prepared.plans, self.judged.verdicts, self.judged.answers, twin
        )
        return [plan for plan in found if plan.id not in self.judged.checked]

    def _warm(self) -> None:
        """One uncounted trial a cold shader cache: compiling shaders is not what a trial measures."""
        for plan in reference.cold(self.prepared):
            self.progress.note(
                f"warming the shader cache of {plan.condition.backend_id} with one trial (not counted; it can take a "
                "minute or more)"
            )
            once = dataclasses.replace(plan.condition, epochs=1, duration=0.0)  # compiling is no load
            record = self._execute(dataclasses.replace(plan, condition=once), warming=True)
            reference.mark_warm(self.prepared, plan, record)

    def _one(self, plan: CellPlan) -> None:
        record = self._execute(plan, warming=False)
        verdict = self.judged.take(record)
        if plan.is_reference:
            reference.remember(self.store, plan, self.prepared, record, verdict)
        self.progress.ended(plan, verdict)
        cost = self.pace.took(plan, verdict.seconds, self.judged.verdicts)
        if cost:
            self.progress.note(cost)

    def _execute(self, plan: CellPlan, *, warming: bool) -> TrialRecord:
        """`started` is on disk before the child exists; `ended` after its evidence is."""
        cell = f"warming:{plan.id}" if warming else plan.id
        index = sum(v.cell == cell for v in self.judged.verdicts)
        number = len(self.judged.verdicts) + len(self.judged.warming) + 1
        while (identity := f"{self.id}.{number:04d}") in self.judged.seen:
            number += 1
        engine = self.prepared.engine_of(plan.condition)
        assert engine is not None, f"no engine for {plan.id}"
        occasion = Occasion(
            trial=identity,
            run=self.id,
            cell=cell,
            index=index,
            timeouts=patient(self.prepared.spec.timeouts) if warming else self.prepared.spec.timeouts,
            environ=os.environ,
            sample_devices=self.sampled,
        )
        planned = adapters.of(plan.condition.runtime).plan(plan.condition, engine, occasion)
        self._same_files()
        self.writer.append("trial_started", self.id, {"trial": identity, "cell": cell, "index": index})
        spool = self.store.spool(identity)
        try:
            record = trial.execute(planned, spool, shelf(self.store))
        except KeyboardInterrupt as stop:
            reason = stopped_by(stop)
            self.writer.append("trial_interrupted", self.id, {"trial": identity, "cell": cell, "reason": reason})
            raise
        self._same_files({"trial": identity, "cell": cell})
        self.writer.append("trial_ended", self.id, {"trial": identity, "record": encode_trial(record)})
        self.judged.seen.add(identity)
        if warming:
            self.judged.take(record)
        return record

    def _same_files(self, running: dict[str, object] | None = None) -> None:
        """Stop when a file that defines the run has changed; the trial that was `running` then counts for nothing."""
        changed = self.files.first_changed()
        if not changed:
            return
        if running is not None:
            reason = f"{changed} changed while it ran"
            self.writer.append("trial_interrupted", self.id, {**running, "reason": reason})
        self.writer.append("run_paused", self.id, {"reason": f"{changed} changed"})
        raise UsageError(
            f"{changed} changed while run {self.id} went on; put it back and run the same command to go on, "
            "or start a new run with what is here now: --new"
        )


def patient(asked: Timeouts) -> Timeouts:
    """Deadlines of a warming trial: never shorter than the defaults, since a driver that compiles may take a minute,
    and a warming trial that is cut off leaves the cache cold for those that count."""
    usual = msgspec.to_builtins(Timeouts())
    given = msgspec.to_builtins(asked)
    return Timeouts(**{name: max(seconds, given[name]) for name, seconds in usual.items()})


def _whole(job: Run) -> int:
    """Trials that have an end."""
    return sum(v.outcome.kind is not OutcomeKind.INTERRUPTED for v in job.judged.verdicts)


def run(prepared: Prepared, store: Store, progress: Progress, *, new: bool = False, form: str = "") -> RunResult:
    """Run a prepared spec, or go on with its unfinished run; returns the whole run, judged.

    `form` marks a run that is no experiment of the user's (`selftest`).
    A changed binary or model refuses to resume (UsageError) unless `new` starts another run. KeyboardInterrupt
    (Ctrl-C, and SIGTERM where the caller makes one of it) becomes Interrupted, with everything recorded so far kept.
    """
    with store.hold(f"of-spec-{prepared.spec.sha256.removeprefix('sha256:')[:16]}"):
        return _run(prepared, store, progress, new=new, form=form)


def _run(prepared: Prepared, store: Store, progress: Progress, *, new: bool, form: str) -> RunResult:
    """The same, while nobody else works on this spec in this store."""
    killed, left = orphans.sweep()
    for orphan in killed:
        fate = "cannot be killed" if orphan in left else "was killed"
        progress.note(f"a process left over from trial {orphan.trial} (pid {orphan.pid}) {fate}")
    identity = _unfinished(prepared, store, new=new)
    resumed = identity is not None
    with store.writer() as writer, ExitStack() as held:
        if identity is None:
            identity = held.enter_context(store.new_run(prepared.spec.sha256))
            changed = freezing.changed(store, prepared.spec)
            first = opening_record(prepared)
            known = floors.recall(store, floors.checked_models(first)) if prepared.spec.check else ()
            first |= {"changed_hypotheses": changed, "floors": msgspec.to_builtins(known)}
            first |= {"form": form} if form else {}
            writer.append("run_started", identity, first)
            if prepared.spec.hypotheses:
                writer.append(freezing.RECORD, identity, freezing.record(prepared.spec))
            for sentence in freezing.warnings({"changed_hypotheses": changed}):
                progress.note(sentence)
        else:
            held.enter_context(store.hold(identity))
        job = Run(prepared, store, writer, identity, progress)
        if resumed and job.complete:
            progress.note(f"run {identity} of this spec is complete already; --new runs it again")
            ended = any(True for _ in store.records(run=identity, kind="run_ended"))
            return judged_run(opening(store, identity), job.judged) if ended else _end(job)
        _report_interrupted(job)
        if resumed:
            progress.note(f"going on with run {identity}: {_whole(job)} trials are there already")
        try:
            job.go_on()
        except KeyboardInterrupt as stop:
            by = stopped_by(stop)
            writer.append("run_paused", identity, {"reason": by})
            raise Interrupted(_stopped(job, by, new=new, form=form), identity) from None
        return _end(job)


def stopped_by(stop: KeyboardInterrupt) -> str:
    """What stopped us, as a person calls it: a signal's name where whoever raised it told."""
    return str(stop) or "Ctrl-C"


def _stopped(job: Run, by: str, *, new: bool, form: str) -> str:
    """What the stop left behind, and what goes on with it."""
    kept = f"stopped by {by}; what ran is kept ({_whole(job)} trials)"
    again = "the same command without --new" if new else "the same command"
    return f"{kept}; the next one begins anew" if form else f"{kept}, and {again} goes on from there"


def _end(job: Run) -> RunResult:
    """Judge the run as a whole, and write down that it ended and as what."""
    result = judged_run(opening(job.store, job.id), job.judged)
    if result.floors:
        job.writer.append(floors.RECORD, job.id, {"floors": msgspec.to_builtins(result.floors)})
    body = {"trials": len(job.judged.verdicts), "complete": result.complete}
    job.writer.append("run_ended", job.id, {**body, **verdict_digest.record(verdict_digest.plain(result))})
    return result


def opening_record(prepared: Prepared) -> dict[str, object]:
    """The first record of a run: all that is needed to judge it later, on another machine."""
    body: object = msgspec.to_builtins(
        {
            "name": prepared.spec.name,
            "question": prepared.spec.question,
            "spec": prepared.spec,
            "spec_sha256": prepared.spec.sha256,
            "plans": prepared.plans,
            "engines": prepared.engines,
            "model": prepared.model,
            "models": prepared.models,
            "twin": prepared.twin,
            "lacking": prepared.lacking,
            "probes": prepared.probes,
            "host": describe_host(),
            "hypotheses": freezing.digests(prepared.spec.hypotheses),
            "design_sha256": freezing.design(prepared.spec),
        }
    )
    assert isinstance(body, dict)
    return body


def _unfinished(prepared: Prepared, store: Store, *, new: bool) -> str | None:
    """The last run of this spec, if it may be continued."""
    if new:
        return None
    runs = [r for r in store.records(kind="run_started") if r.body.get("spec_sha256") == prepared.spec.sha256]
    if not runs:
        return None
    last = runs[-1]
    before = msgspec.convert(last.body.get("engines", {}), dict[str, Engine])
    for name in sorted({*before, *prepared.engines}):
        was, here = before.get(name), prepared.engines.get(name)
        if was is None or here is None or (was.sha256, was.libraries) != (here.sha256, here.libraries):
            raise UsageError(
                f"the binary of backend {name} changed since run {last.run} of this spec; "
                "--new starts a new run with what is here now"
            )
    model = last.body.get("model")
    digest = prepared.model.sha256 if prepared.model else None
    others = last.body.get("models")
    was_files = {n: m.get("sha256") for n, m in others.items()} if isinstance(others, dict) else {}
    moved = was_files != {n: m.sha256 for n, m in prepared.models.items()}
    if moved or (isinstance(model, dict) and model.get("sha256") != digest):
        raise UsageError(f"the model changed since run {last.run} of this spec; --new starts a new run with it")
    twin, here_twin = last.body.get("twin"), prepared.twin
    if isinstance(twin, dict) and (here_twin is None or twin.get("sha256") != here_twin.sha256):
        raise UsageError(
            f"the model's twin changed since run {last.run} of this spec; --new starts a new run with it"
        )
    plans = msgspec.convert(last.body["plans"], tuple[CellPlan, ...])
    if plans != prepared.plans:
        changed = next((p.id for p, q in zip(plans, prepared.plans, strict=False) if p != q), "the number of cells")
        raise UsageError(
            f"what {changed} would ask for (its device, or the store's own folder) changed since run {last.run} of "
            "this spec; --new starts a new run"
        )
    return last.run


def _report_interrupted(job: Run) -> None:
    """A trial that was started and neither ended nor was stopped by us died with its harness."""
    for started in job.judged.left_open:
        job.writer.append("trial_interrupted", job.id, {**started, "reason": "the harness died"})
        job.progress.note(f"trial {started['trial']} ({started['cell']}) was interrupted; it is repeated")
    job.judged.left_open = ()
