"""`stillruns selftest`: each kind of fault really injected in each phase, and how it was judged."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from stillruns.act import orphans
from stillruns.act.shim import build, faults, preloading
from stillruns.act.shim.faults import Fault
from stillruns.errors import EnvironmentLacks, Interrupted, UsageError
from stillruns.lab import demo, running
from stillruns.lab.runs import engines, judging
from stillruns.lab.runs.preparing import Prepared, prepare
from stillruns.lab.runs.progress import Progress
from stillruns.lab.specs import spec_file
from stillruns.model.backend import Backend
from stillruns.model.cell_plan import CellPlan
from stillruns.model.outcome import OutcomeKind
from stillruns.model.phase import Phase
from stillruns.model.selftest import FaultResult, SelftestResult
from stillruns.model.spec import DEFAULT_PROMPT, BackendSpec, Spec, StopRule, Timeouts
from stillruns.model.trial import TrialRecord
from stillruns.model.verdict import TrialVerdict
from stillruns.store.store import Store
from stillruns.store.view import decode_trial

FORM = "selftest"
"""How its runs are marked in the store: `report` and `claims` without a name are about experiments."""
AXIS = "fault"
"""What its rows differ in: `decode:segv`, a column of the table that `report` prints."""
TIMEOUTS = Timeouts(load=12.0, first_token=8.0, token=6.0, teardown=4.0)
"""Short, since a hang is waited for."""
DEVICE_TIMEOUTS = Timeouts(load=30.0, first_token=20.0, token=15.0, teardown=8.0)
"""Long enough for a software Vulkan driver with warm shaders on a machine that has other work."""


def run(
    store: Store,
    progress: Progress,
    *,
    backend: Backend = Backend.CPU,
    kinds: Sequence[str] = (),
    phases: Sequence[str] = (),
    environ: Mapping[str, str] = os.environ,
) -> SelftestResult:
    """Inject every fault that makes sense on `backend` (of the named kinds and phases; all when empty).

    Stopped by Ctrl-C it returns what had ended. Raises UsageError for a kind or phase that is none, EnvironmentLacks
    without a llama-server, a C compiler, or the backend, Interrupted before the first fault ended.
    """
    chosen = _chosen(backend, kinds, phases)
    shim = build.build(None, store.cache_dir("shim"))
    side = _side(store, progress, backend, environ)
    skipped = _skipped(backend, kinds, phases)
    base = prepare(_spec(side), store, progress, environ)
    logs = store.cache_dir("fault-logs")
    stopped = None
    with preloading.reachable(shim) as path:
        prepared = _with_faults(base, chosen, path, logs, side.backend)
        try:
            result = running.run(prepared, store, progress, new=True, form=FORM)
        except Interrupted as error:
            stopped, result = error, judging.judge_run(store, error.run)
    records = {str(r.body["trial"]): r.body["record"] for r in store.records(run=result.run, kind="trial_ended")}
    verdicts = {v.cell: v for v in result.verdicts if v.trial in records}
    if stopped and not any(fault.id in verdicts for fault in chosen):
        raise stopped
    left = {o.trial for o in orphans.find()}
    skipped += _control(prepared, verdicts)
    engine = base.engines[side.id]
    judged = []
    for fault in chosen:
        verdict = verdicts.get(fault.id)
        if verdict is None:
            skipped.append(f"{fault.id}: the selftest was stopped before its trial ended")
            continue
        record = decode_trial(records[verdict.trial])
        judged.append(_check(fault, backend, verdict, record, _log(logs, fault), verdict.trial in left))
    what = engine.binary, engine.version, engine.sha256
    return SelftestResult(result.run, tuple(judged), tuple(skipped), *what, str(stopped or ""))


def _matching(kinds: Sequence[str], phases: Sequence[str]) -> list[Fault]:
    return [f for f in faults.FAULTS if (not kinds or f.kind in kinds) and (not phases or f.phase.value in phases)]


def _chosen(backend: Backend, kinds: Sequence[str], phases: Sequence[str]) -> list[Fault]:
    """What is to be injected; never nothing, since nothing wrong of nothing would look like success."""
    for name, given, known in (
        ("kind", kinds, {f.kind for f in faults.FAULTS}),
        ("phase", phases, {f.phase.value for f in faults.FAULTS}),
    ):
        if set(given) - known:
            raise UsageError(
                f"--{name} knows {', '.join(sorted(known))}; not {', '.join(sorted(set(given) - known))}"
            )
    chosen = [f for f in _matching(kinds, phases) if f.needs in ("any", backend.value)]
    if not chosen:
        others = _devices(_matching(kinds, phases))
        hint = f"; try --backend {others}" if others else ", since that kind makes no sense in that phase"
        raise UsageError(f"no such fault can be injected with --backend {backend.value}{hint}")
    return chosen


def _skipped(backend: Backend, kinds: Sequence[str], phases: Sequence[str]) -> list[str]:
    done = {f.id for f in _chosen(backend, kinds, phases)}
    lacking = [f for f in _matching(kinds, phases) if f.id not in done]
    if not lacking:
        return []
    names = ", ".join(dict.fromkeys(f.id for f in lacking))
    return [f"{names} (--backend {_devices(lacking)} injects them)"]


def _devices(lacking: Sequence[Fault]) -> str:
    """`vulkan, cuda or rocm`: the devices that the faults need; empty for none."""
    *most, last = dict.fromkeys(f.needs for f in lacking) or [""]
    return f"{', '.join(most)} or {last}" if most else last


def _side(store: Store, progress: Progress, backend: Backend, environ: Mapping[str, str]) -> BackendSpec:
    if backend is Backend.CPU:
        return BackendSpec(id="cpu", backend=Backend.CPU)
    plain = BackendSpec(id=backend.value, backend=backend)
    if engines.question(plain, store, environ).backend.device:
        return plain
    if backend is Backend.VULKAN:
        software = demo.software_vulkan(store, environ, progress)
        if software is not None:
            return software
    raise EnvironmentLacks(f"no {backend.value} device is listed here, so no fault can be injected into one")


def _spec(side: BackendSpec) -> Spec:
    return spec_file.freeze(
        Spec(
            name=f"selftest {side.id}",
            question="Is each kind of fault in each phase recognised for what it is?",
            model=demo.MODEL,
            prompt=DEFAULT_PROMPT,
            backends=(side,),
            gpu_layers=("all",),
            predict=24,
            context=512,
            stop=StopRule(trials=1, max_voids=1),
            timeouts=TIMEOUTS if side.backend is Backend.CPU else DEVICE_TIMEOUTS,
        )
    )


def _with_faults(
    base: Prepared, chosen: Sequence[Fault], shim: Path, logs: Path, backend: Backend | None
) -> Prepared:
    """The reference stays clean, and so does the first cell, a control, which therefore is the one that warms the
    shader cache; each fault is a cell of its own."""
    references = [p for p in base.plans if p.is_reference]
    healthy = next(p for p in base.plans if not p.is_reference)
    plans: list[CellPlan] = [*references, healthy]
    for fault in chosen:
        log = _log(logs, fault)
        log.unlink(missing_ok=True)
        device = backend in (Backend.CUDA, Backend.ROCM)
        env = {**healthy.condition.env, **faults.environment(fault.id, shim, log=log, device=device)}
        condition = dataclasses.replace(healthy.condition, env=env, axes={AXIS: fault.id})
        plans.append(dataclasses.replace(healthy, id=fault.id, condition=condition))
    return dataclasses.replace(base, plans=tuple(plans))


def _control(prepared: Prepared, verdicts: Mapping[str, TrialVerdict]) -> list[str]:
    """A sentence when even the server without a fault did not pass: then the faults say little."""
    healthy = next(p for p in prepared.plans if not p.is_reference)
    verdict = verdicts.get(healthy.id)
    if verdict is None or verdict.passed:
        return []
    ended = _text(verdict.outcome.kind, verdict.outcome.phase)
    return [f"{healthy.id}: the server without any fault ended as {ended}, applied {verdict.applied.status.value}"]


def _log(logs: Path, fault: Fault) -> Path:
    return logs / f"{fault.phase.value}-{fault.kind}.txt"


def _check(
    fault: Fault, backend: Backend, verdict: TrialVerdict, record: TrialRecord, log: Path, left: bool
) -> FaultResult:
    fired = log.is_file() and bool(log.read_bytes().strip())
    faulty: list[str] = []
    outcome = verdict.outcome
    if not fired:
        faulty.append("the fault did not strike")
    if outcome.kind not in (fault.outcome, fault.also):
        faulty.append(f"judged {outcome.kind.value}")
    elif fault.outcome is not OutcomeKind.OK and outcome.phase is not fault.visible_phase(record):
        faulty.append(f"phase judged {outcome.phase.value}")
    if fault.signal and outcome.signal != fault.signal:
        faulty.append(f"signal judged {outcome.signal}")
    killed = record.end.orphans_killed if record.end else 0
    if killed < fault.orphans:
        faulty.append(f"{killed} of {fault.orphans} processes left behind were found")
    if left:
        faulty.append("something of the trial is still alive")
    return FaultResult(
        fault=fault.id,
        phase=fault.phase.value,
        kind=fault.kind,
        backend=backend.value,
        does=fault.does,
        expected=_text(fault.outcome, fault.judged_phase),
        judged=_text(outcome.kind, outcome.phase),
        detail=outcome.detail,
        fired=fired,
        right=not faulty,
        wrong="; ".join(faulty),
        trial=verdict.trial,
        seconds=verdict.seconds,
    )


def _text(kind: OutcomeKind, phase: Phase) -> str:
    return kind.value if kind is OutcomeKind.OK else f"{kind.value} in {phase.value}"
