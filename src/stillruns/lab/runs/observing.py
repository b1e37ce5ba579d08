"""A run's judged trials as the cells that hypotheses look at: every factor by name, and what each trial met."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from stillruns.judge.answers import heard
from stillruns.judge.cells import counting, drivers
from stillruns.model.absence import Absence
from stillruns.model.agreement import WORST_FIRST
from stillruns.model.backend import Backend
from stillruns.model.cell_plan import CellPlan
from stillruns.model.condition import Condition
from stillruns.model.engine import Engine
from stillruns.model.observed import Circumstances, ObservedCell, ObservedTrial
from stillruns.model.server_facts import Offload, SeenDevice, ServerFacts
from stillruns.model.trial import TrialRecord
from stillruns.model.verdict import TrialVerdict
from stillruns.normalise import system_info
from stillruns.store.store import Store

_TYPE = re.compile(r"(?<![A-Za-z0-9])(I?Q\d(?:_[A-Z0-9]+)*|BF16|F16|F32|MXFP4)(?![A-Za-z0-9])", re.IGNORECASE)


_LOAD = {"epochs": 1, "duration": 0.0, "concurrency": 1, "prompt_tokens": 0}
"""Factors that a condition has only where it asks for them."""


@dataclass(frozen=True, slots=True)
class Met:
    """What a trial's record tells besides its verdict."""

    circumstances: Circumstances
    tokens: int
    served: float = 0.0
    """Seconds from the first request to the end of the last."""
    ended_at: float | None = None
    """Seconds from the start of the process to its end; None for a server that was not ours to start."""


@dataclass(frozen=True, slots=True)
class Where:
    """What all cells of a run share: the machine's CPU and the model as the spec names it, and its digest."""

    host: str
    model: str
    model_sha256: str
    models: Mapping[str, str] = field(default_factory=dict)
    """Digests of a model axis's files by name."""
    drivers: Mapping[str, str] | None = None
    """The kernel drivers that were loaded, with their versions; None for a run that did not record them."""


def met(store: Store, record: TrialRecord) -> Met:
    """Circumstances from the record and from its device samples."""
    return Met(
        Circumstances(
            server=record.trial if record.argv else record.run,  # each spawned trial has a process of its own
            boot=record.boot_id,
            order=_seconds(record.started),
            measured=_first_sample(store, record),
        ),
        sum(exchange.tokens_seen for exchange in record.exchanges) + record.unkept_tokens,
        heard.seconds(record),
        record.sighting.ended_at if record.argv else None,
    )


def computed_on(facts: ServerFacts | Absence, backend: Backend) -> SeenDevice | None:
    """The device that layers were on: the one that the log says was used, else the first of the backend; None where
    no layer was on one."""
    if isinstance(facts, Absence) or (isinstance(facts.offload, Offload) and facts.offload.offloaded == 0):
        return None
    used = next((d for d in facts.devices if d.used), None)
    return used or next((d for d in facts.devices if d.backend is backend), None)


def cells(
    plans: Sequence[CellPlan],
    verdicts: Sequence[TrialVerdict],
    seen: Mapping[str, Met],
    engines: Mapping[str, Engine],
    where: Where,
    run: str,
) -> tuple[ObservedCell, ...]:
    """One a counted cell, in the order of the plans; references enter no rate and no hypothesis."""
    return tuple(
        _cell(
            plan, [v for v in verdicts if v.cell == plan.id], seen, engines.get(plan.condition.backend_id), where, run
        )
        for plan in plans
        if not plan.is_reference
    )


def merged(cells: Sequence[ObservedCell]) -> tuple[ObservedCell, ...]:
    """Cells of several runs that are equal in every factor as one, with the trials of all. The number of a cell's
    trials was fixed beforehand only where one run made them: a further run may have been made for what the first
    showed."""
    groups: dict[object, list[ObservedCell]] = {}
    for cell in cells:
        key = (cell.id, cell.side, tuple(sorted(cell.factors.items(), key=str)), str(cell.layers))
        groups.setdefault(key, []).append(cell)
    return tuple(
        replace(
            same[0],
            trials=tuple(t for c in same for t in c.trials),
            fixed=all(c.fixed for c in same if c.applied) and sum(bool(c.applied) for c in same) < 2,
            randomised=None if any(c.randomised is None for c in same) else all(c.randomised for c in same),
            shows_asked=all(c.shows_asked for c in same),
            checked=_worst(c.checked for c in same),
        )
        for same in groups.values()
    )


def _worst(verdicts: Iterable[str | None]) -> str | None:
    known = {v for v in verdicts if v is not None}
    return next((v.value for v in WORST_FIRST if v.value in known), None)


def quantisation(name: str) -> str | None:
    """The type of the weights as a model's name gives it (`Q8_0`, `F16`); None when it gives none."""
    found = _TYPE.search(name.replace("type=", " "))
    return found[1].upper() if found else None


def family(name: str) -> str:
    """A model's name without its folder, ending and type of weights."""
    if not name.startswith("synth:"):
        name = name.rsplit("/", 1)[-1].removesuffix(".gguf")
    plain = _TYPE.sub("", name.replace("type=", "")).replace("&&", "&").replace("?&", "?")
    return plain.strip("-_.&? ") or name


def _cell(
    plan: CellPlan,
    verdicts: Sequence[TrialVerdict],
    seen: Mapping[str, Met],
    engine: Engine | None,
    where: Where,
    run: str,
) -> ObservedCell:
    condition = plan.condition
    seen_at = {v.placement for v in verdicts if v.placement is not None and v.counts}
    placement = seen_at.pop() if len(seen_at) == 1 else None
    factors = _factors(condition, engine, where)
    if placement is not None:
        shown = " and output" if placement.output else ""
        factors["placement"] = f"{placement.repeating} repeating{shown} of {placement.total}"
    return ObservedCell(
        id=plan.id,
        side=condition.backend_id,
        factors=factors,
        layers=condition.gpu_layers,
        placed=placement.offloaded if placement is not None else None,
        trials=tuple(_trial(v, seen.get(v.trial), run) for v in verdicts),
        fixed=counting.fixed(plan, sum(v.counts for v in verdicts)),
        randomised=True,
        args=condition.args,
        axes=dict(condition.axes),
        model=str(condition.axes.get("model", "")) or where.model,
    )


def _factors(condition: Condition, engine: Engine | None, where: Where) -> dict[str, str | None]:
    named = str(condition.axes.get("model", ""))
    model = named or where.model
    factors: dict[str, str | None] = {
        "backend": condition.backend.value,
        "layers": str(condition.gpu_layers),
        "model": family(model),
        "runtime": condition.runtime.value,
        "version": (engine.version or None) if engine else None,
        "side": condition.backend_id,
        "device": _device(condition, engine),
        "build": _digest([engine.sha256, sorted(engine.libraries.items())]) if engine else None,
        "model_file": where.models.get(named) if named else where.model_sha256,
        "host": where.host,
        "cpu path": system_info.cpu_path(engine.system_info) if engine else None,
        "prompt": _digest(condition.prompt),
        "flash_attention": condition.flash_attention,
        "prefix": " ".join(condition.prefix) or "none",
        "args": " ".join(condition.args) or "none",
    }
    driver = drivers.of(condition.backend, factors["device"], where.drivers) if where.drivers is not None else None
    if driver is not None and condition.backend is not Backend.CPU:
        factors["driver"] = driver
    kind = quantisation(model)
    if kind is not None:
        factors["quantisation"] = kind
    for name in ("context", "batch", "ubatch", "threads", "predict", "seed"):
        factors[name] = str(getattr(condition, name))
    for name, nothing in _LOAD.items():
        if getattr(condition, name) != nothing:
            factors[name] = f"{getattr(condition, name):g}"
    factors |= {f"env.{name}": value for name, value in condition.env.items()}
    factors |= {name: str(value) for name, value in condition.axes.items() if name not in factors}
    if any(name.startswith("arg.") for name in condition.axes):
        factors.pop("args")  # each is a factor of its own
    return factors


def _device(condition: Condition, engine: Engine | None) -> str | None:
    """The card's own description where the binary lists it, else the name that the runtime gives it."""
    if engine is not None and not isinstance(engine.devices, Absence):
        for device in engine.devices:
            if device.name == condition.device:
                return device.description or device.name
    return condition.device or None


def _trial(verdict: TrialVerdict, seen: Met | None, run: str) -> ObservedTrial:
    outcome = verdict.outcome
    return ObservedTrial(
        trial=verdict.trial,
        run=run,
        applied=verdict.applied.status,
        why=verdict.applied.why,
        outcome=outcome.kind.value,
        phase=outcome.phase.value,
        components=tuple(c.value for c in outcome.components),
        passed=verdict.passed,
        output=verdict.agreement.verdict.value if verdict.agreement else None,
        tokens_per_second=verdict.tokens_per_second,
        seconds=verdict.seconds,
        tokens=seen.tokens if seen else 0,
        served=seen.served if seen else 0.0,
        circumstances=seen.circumstances if seen else Circumstances(),
        key_ref=outcome.key_line,
        key_text=outcome.key_text,
        lived=seen.ended_at if seen else None,
    )


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def _seconds(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def _first_sample(store: Store, record: TrialRecord) -> dict[str, float]:
    """Temperature and used memory of the devices when the trial began: later the trial itself makes them."""
    samples = next((e for e in record.evidence if e.kind == "samples"), None)
    if samples is None:
        return {}
    found: dict[str, float] = {}
    first: set[str] = set()
    for line in store.read_blob(samples.sha256).splitlines():
        try:
            sample = json.loads(line)
        except ValueError:
            continue
        if not isinstance(sample, dict) or str(sample.get("device")) in first:
            continue
        first.add(str(sample.get("device")))
        listed = sample.get("devices")
        for place, card in enumerate(listed if isinstance(listed, list) else [sample]):
            if isinstance(card, dict):
                name = str(card.get("bus") or card.get("device") or place)
                found |= _nuisances(name, card)
    return found


def _nuisances(name: str, card: Mapping[str, object]) -> dict[str, float]:
    found = {}
    degrees = card.get("temperature_c")
    if isinstance(degrees, dict):
        numbers = [float(v) for v in degrees.values() if isinstance(v, (int, float))]
        degrees = max(numbers) if numbers else None
    for key, value in (("temperature", degrees), ("used memory", card.get("memory_used_mib"))):
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            found[f"{key} of {name}"] = float(value)
    return found
