"""An imported study's requests as the cells that hypotheses look at, one model after the other.

Nobody fixed these numbers of trials against looking, but a script wrote them down before they ran: each run folder
tries a list of values once, whatever comes out. They count as fixed; that the order was not drawn, and that several
requests share a server, is said with each claim.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from stillruns.judge.cells import drivers
from stillruns.lab.studies import observing_logs, studying
from stillruns.lab.studies.observing_logs import LogTrial
from stillruns.model.backend import Backend, Runtime
from stillruns.model.evidence import Ref, line_of, parse_ref
from stillruns.model.observed import Circumstances, ObservedCell, ObservedTrial
from stillruns.model.outcome import OutcomeKind
from stillruns.model.server_log import LogDevice, Runner
from stillruns.model.worklog import StudyRequest
from stillruns.normalise.logs import ollama_model
from stillruns.normalise.logs.reader import lines, visible
from stillruns.store.store import Store

_FREE = re.compile(r"(\d+(?:\.\d+)?) (MiB|GiB)")


@dataclass(frozen=True, slots=True)
class _Load:
    """The runner that served a request, the device that it used or its server has, the type of its weights, and the
    version of the kernel's driver as a probe of the run names it."""

    runner: Runner | None = None
    device: LogDevice | None = None
    file_type: str | None = None
    death_text: str = ""
    kernel: str = ""


def models(store: Store, runs: Sequence[str]) -> dict[str, tuple[ObservedCell, ...]]:
    """Model -> its cells over all these runs, in the order of the requests. Raises UsageError for another run."""
    groups: dict[str, dict[tuple[object, ...], list[tuple[StudyRequest, str, int, _Load]]]] = {}
    logs: list[LogTrial] = []
    for run in runs:
        requests = studying.requests_of(store, run)
        if requests and not requests[0].client:
            told = _lines(studying.log_of(store, run), {r.death.ref for r in requests if r.death})
            logs += [
                LogTrial(run, i, r, told.get(r.death.ref, "") if r.death else "") for i, r in enumerate(requests)
            ]
            continue
        kernel = studying.kernel_driver(store, run)
        loads, journal = _loads(store, run)
        told = _lines(journal, {r.death.ref for r in requests if r.death})
        for index, request in enumerate(requests):
            load = replace(loads.get(request.runner_ref or "", _Load()), kernel=kernel)
            if request.death:
                load = replace(load, death_text=told.get(request.death.ref, ""))
            key = (request.side, request.record.asked, str(request.version))
            groups.setdefault(request.model, {}).setdefault(key, []).append((request, run, index, load))
    found = {model: _with_drivers(cells.values()) for model, cells in groups.items()}
    for model, alone in observing_logs.models(logs).items():
        found[model] = (*found.get(model, ()), *alone)
    return found


def _with_drivers(groups: Collection[Sequence[tuple[StudyRequest, str, int, _Load]]]) -> tuple[ObservedCell, ...]:
    """The cells, each with the drivers of its side: a runner that loads no GPU library names none, and still stands
    beside those that do."""
    found: dict[str, set[str]] = {}
    for group in groups:
        for request, _, _, load in group:
            device = load.device.description if load.device else None
            named = drivers.of(request.side, device, {"amdgpu": load.kernel} if load.kernel else {})
            if load.runner is not None and named:
                found.setdefault(request.side.value, set()).add(named)
    cells = []
    for group in groups:
        cell = _cell(group)
        named_here = " or ".join(sorted(found.get(cell.side, ())))
        cells.append(replace(cell, factors={**cell.factors, "driver": named_here}) if named_here else cell)
    return tuple(cells)


def _loads(store: Store, run: str) -> tuple[dict[Ref, _Load], bytes]:
    servers, journal = studying.servers_of(store, run)
    types = ollama_model.file_types(journal)
    found = {}
    for server in servers:
        for runner in server.runners:
            listed = [d for d in server.devices if d.backend is not Backend.CPU]
            device = next((d for d in listed if d.name == runner.device), listed[0] if listed else None)
            start, after = line_of(runner.started), None
            for line, name in types:
                if line > start:
                    after = name
                    break
            found[runner.started] = _Load(runner, device, after)
    return found, journal


def _lines(journal: bytes, refs: set[Ref]) -> dict[Ref, str]:
    """The text of each of these lines."""
    wanted = {parse_ref(ref)[1]: ref for ref in refs}
    return {wanted[line.number]: visible(line.text) for line in lines(journal) if line.number in wanted}


def _cell(group: Sequence[tuple[StudyRequest, str, int, _Load]]) -> ObservedCell:
    first = group[0][0]
    layers = "server" if first.record.asked is None else first.record.asked
    placed = {r.applied_layers for r, _, _, _ in group if r.applied_layers is not None and not r.void}
    known = [load for _, _, _, load in group if load.runner is not None]
    side = first.side.value
    return ObservedCell(
        id=f"backend={side},num_gpu={-1 if layers == 'auto' else 'none' if layers == 'server' else layers}",
        side=side,
        factors=_factors(first, str(layers), known),
        layers=layers,
        placed=placed.pop() if len(placed) == 1 else None,
        trials=tuple(_trial(*member) for member in group),
        fixed=True,
        randomised=False,
    )


def _factors(first: StudyRequest, layers: str, loads: Sequence[_Load]) -> dict[str, str | None]:
    engines = [load.runner.engine or None for load in loads if load.runner]
    factors: dict[str, str | None] = {
        "backend": None if first.side is Backend.UNKNOWN else first.side.value,
        "layers": layers,
        "model": first.model,
        "runtime": Runtime.OLLAMA.value,
        "version": first.version.text or None,
        "engine": _agreed(engines),
        "quantisation": _agreed([load.file_type for load in loads]),
        "device": _agreed([load.device.description if load.device else None for load in loads]),
    }
    for name in ("context", "batch", "flash_attention", "threads", "parallel"):
        factors[name] = _agreed([dict(load.runner.settings).get(name) for load in loads if load.runner])
    return factors


def _agreed(values: Sequence[str | None]) -> str | None:
    """What all loads say; several values as one text; None where none says it."""
    known = sorted({v for v in values if v})
    return " or ".join(known) if known else None


def _trial(request: StudyRequest, run: str, index: int, load: _Load) -> ObservedTrial:
    death = request.death
    ended_well = request.outcome is OutcomeKind.OK
    return ObservedTrial(
        trial=f"{run}.{index + 1:04d}",
        run=run,
        applied=request.applied,
        why=request.why,
        outcome=request.outcome.value,
        phase=death.phase.value if death else "unknown",
        components=tuple(c.value for c in death.components) if death else (),
        passed=ended_well and bool(request.record.characters),
        output=None if not ended_well else "unknown",
        tokens_per_second=request.record.rate,
        seconds=request.record.seconds or 0.0,
        tokens=request.record.tokens or 0,
        text_kept=not (ended_well and request.empty),
        circumstances=Circumstances(
            server=f"{run} {request.runner_ref}" if request.runner_ref else "",
            order=_seconds(request.record.started),
            measured=_measured(request),
            service=request.server if request.server.endswith("]") else "",
        ),
        key_ref=death.ref if death else None,
        key_text=load.death_text,
        lived=death.after_load if death else None,
        waited=(death.waited or 0.0) if death else 0.0,
    )


def _measured(request: StudyRequest) -> dict[str, float]:
    """What was free on the device before the load, and whether another server's runner was alive."""
    found: dict[str, float] = {}
    free = _FREE.search(request.device_free)
    if free:
        found["free memory"] = float(free[1]) * (1024 if free[2] == "GiB" else 1)
    if request.alone is not None:
        found["other runners"] = 0.0 if request.alone else 1.0
    return found


def _seconds(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text[:26]).replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None
