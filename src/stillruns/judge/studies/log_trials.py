"""Logs that came alone, with no client's record beside them: each request of each server as a trial.

Its condition is what the log's own lines tell. Where they show what was asked, that must be what was applied; where
they do not (few logs hold a command line), nothing is known to have been refused, and the condition is the one that
the lines show: these layers on this backend. A load whose lines are hidden has no known condition.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from stillruns.judge.studies import worklog
from stillruns.model.applied import Answer
from stillruns.model.autopsy import Incident
from stillruns.model.backend import Backend, Runtime, backend_of_device
from stillruns.model.evidence import Ref
from stillruns.model.layers import compare
from stillruns.model.outcome import OutcomeKind
from stillruns.model.server_facts import Timing
from stillruns.model.server_log import LogRequest, Runner, ServerLog
from stillruns.model.worklog import ClientRecord, RequestDeath, StudyRequest

UNKNOWN_MODEL = "unknown model"


def requests(
    label: str,
    servers: Sequence[ServerLog],
    incidents: Sequence[Incident],
    told: Mapping[Ref, Mapping[str, str]],
    timings: Sequence[Timing] = (),
) -> tuple[StudyRequest, ...]:
    """Every trial of one log, in the order of its lines. `label` is the file's name, which decides nothing; `told`
    maps the first line of a load to what `normalise.logs.told` read for it; `timings` are those of a program that
    takes no requests (llama-cli)."""
    found: list[StudyRequest] = []
    for server in servers:
        own = [i for i in incidents if i.server == server.id]
        for request in server.requests or _unasked(server, timings):
            runner = server.runner(request.runner)
            incident = next((i for i in own if i.request == request.id), None)
            if incident is None and request.id == (server.requests or (request,))[-1].id:
                incident = next((i for i in own if i.request is None), None)
            values = dict(told.get(runner.started, {})) if runner else {}
            found.append(_trial(label, len(found) + 1, server, request, runner, incident, values))
    return tuple(found)


def _unasked(server: ServerLog, timings: Sequence[Timing]) -> tuple[LogRequest, ...]:
    """A process without requests is one trial all the same: it died before any, was only loaded, or takes none."""
    if not (server.runners or server.devices or server.endings or server.troubles or server.phases):
        return ()
    runner = server.runners[-1] if server.runners else None
    first = runner.started if runner else server.phases[0].first if server.phases else None
    first = first or next(iter([*(e.ref for e in server.endings), *(t.ref for t in server.troubles)]), None)
    first = first or server.devices[0].ref
    timing = next((t for t in reversed(timings) if t.predicted_ms and t.predicted_tokens), None)
    request = LogRequest("", first, first, runner=runner.id if runner else None, refs=runner.refs if runner else ())
    if runner is not None:
        request = replace(
            request,
            started=runner.at,
            requested_layers=runner.requested_layers,
            applied_layers=runner.applied_layers,
            total_layers=runner.total_layers,
        )
    if timing is None or timing.predicted_ms is None or timing.predicted_tokens is None:
        return (request,)
    spent = (timing.prompt_ms or 0.0) + timing.predicted_ms
    rate = round(timing.predicted_tokens / timing.predicted_ms * 1e3, 6)
    return (replace(request, last=timing.ref, seconds=spent / 1e3, tokens=timing.predicted_tokens, rate=rate),)


def _trial(
    label: str,
    number: int,
    server: ServerLog,
    request: LogRequest,
    runner: Runner | None,
    incident: Incident | None,
    told: dict[str, str],
) -> StudyRequest:
    side = side_of(server, runner)
    applied, why = _applied(request, runner, side)
    key = incident.key_line if incident else None
    shown = next((d.ref for d in server.devices if runner and d.name == runner.device), None)
    outcome, said = _outcome(request, incident)
    version = server.version.low or "unknown version"
    model = told.pop("model", "") or (runner.model or "" if runner else "").rsplit("/", 1)[-1] or request.model or ""
    record = ClientRecord(
        epoch=number,
        asked=request.requested_layers,
        status=outcome.value,
        started=request.started,
        seconds=request.seconds,
        tokens=request.tokens,
        rate=request.rate,
        prompt_tokens=request.prompt_tokens,
        prompt_rate=request.prompt_rate,
        http_status=request.status,
        error=said,
    )
    return dataclasses.replace(
        StudyRequest.shown(label, record, model or UNKNOWN_MODEL, server, request, runner),
        server=server.name or f"{server.runtime.value} {version}",
        side=side,
        applied=applied,
        why=why,
        outcome=outcome,
        death=_death(incident) if incident and incident.outcome is not None else None,
        refs=tuple(dict.fromkeys(ref for ref in (*request.refs, shown, key.ref if key else None) if ref)),
        client=False,
        told=tuple(sorted({**told, **_settings(server, runner)}.items())),
    )


def side_of(server: ServerLog, runner: Runner | None) -> Backend:
    """The backend that this process computed on: the one that holds layers, else that of the device in use, else the
    only GPU backend that it loads or lists.

    A llama.cpp load that put no layer anywhere and names no device in use may or may not have used one that it lists;
    it ran on the CPU where it lists none.
    """
    if runner is not None and runner.backend not in (Backend.CPU, Backend.UNKNOWN):
        return runner.backend
    if runner is not None and runner.device and backend_of_device(runner.device) is not Backend.UNKNOWN:
        return backend_of_device(runner.device)
    loaded = worklog.side(server)
    idle = runner is not None and runner.applied_layers == 0 and server.runtime is Runtime.LLAMA_CPP
    if idle and (loaded is not Backend.UNKNOWN or any(d.backend is not Backend.CPU for d in server.devices)):
        return Backend.UNKNOWN
    if loaded is not Backend.UNKNOWN:
        return loaded
    named = {*(d.backend for d in server.devices), *(b.backend for b in server.backends_loaded)}
    gpus = named - {Backend.CPU, Backend.UNKNOWN}
    if len(gpus) == 1:
        return next(iter(gpus))
    return Backend.CPU if not gpus and runner is not None and runner.backend is Backend.CPU else Backend.UNKNOWN


def _applied(request: LogRequest, runner: Runner | None, side: Backend) -> tuple[Answer, str]:
    if request.applied is Answer.NO:
        return Answer.NO, request.why
    if side is Backend.UNKNOWN:
        return Answer.UNKNOWN, "no line of the log tells the backend that it ran on"
    if request.applied_layers is None or runner is None:
        return Answer.UNKNOWN, "the log does not show how many layers were offloaded"
    if request.applied is Answer.YES:
        return Answer.YES, request.why
    shown = f"{request.applied_layers}/{request.total_layers} layers on {side.value}"
    if request.requested_layers is not None and runner.overflowing:
        return Answer.NO, f"{runner.overflowing} layers did not fit and lie partly on the host"
    if request.requested_layers is not None:
        return compare(request.requested_layers, request.applied_layers, request.total_layers)
    return Answer.YES, f"the log does not show what was asked; its condition is what it shows: {shown}"


def _outcome(request: LogRequest, incident: Incident | None) -> tuple[OutcomeKind, str]:
    """The incident's, else how the log says that the request ended. One without an end is no failure and no pass."""
    if incident is not None:
        return incident.outcome or OutcomeKind.INTERRUPTED, incident.detail
    if request.status is not None and request.status >= 400:
        return OutcomeKind.ERROR, f"answered with HTTP {request.status}"
    if request.tokens:
        return OutcomeKind.OK, ""
    if request.status is not None and request.tokens is None and request.runner:
        return OutcomeKind.OK, ""
    return OutcomeKind.INTERRUPTED, "the log shows no answer and no fault: how it ended is not known"


def _death(incident: Incident) -> RequestDeath | None:
    line = incident.key_line
    if line is None:
        return None
    return RequestDeath(
        ref=line.ref,
        signal=incident.signal,
        phase=incident.phase,
        signature=incident.signature,
        components=incident.components,
        batch="",
        after_load=None,
    )


def _settings(server: ServerLog, runner: Runner | None) -> dict[str, str]:
    """Devices, libraries and settings that the lines name."""
    found: dict[str, str] = {} if server.runtime is Runtime.UNKNOWN else {"runtime": server.runtime.value}
    if runner is None:
        return found
    wanted = ("context", "batch", "ubatch", "flash_attention", "threads", "parallel")
    found |= {k: v for k, v in runner.settings if k in wanted and v}
    others = [d for d in server.devices if d.backend is not Backend.CPU]
    used = next((d for d in others if d.name == runner.device), others[0] if len(others) == 1 else None)
    host = next((d.description for d in server.devices if d.backend is Backend.CPU and d.description), "")
    found |= {"host": host} if host else {}
    if used is not None:
        found |= {"device": used.description} if used.description else {}
        found |= {"driver": used.driver} if used.driver else {}
    libraries = sorted(
        {b.library.rsplit("/", 1)[-1] for b in server.backends_loaded if b.backend is Backend.CPU and b.library}
    )
    return found | ({"cpu library": " ".join(libraries)} if libraries else {})
