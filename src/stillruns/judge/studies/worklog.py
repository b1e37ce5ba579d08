"""A client's requests beside the server's: which access line is whose, and whether what was asked was applied.

A client's record and an access line are the same request when their durations differ by less than a quarter of a
second (the client's own overhead) and their ends by less than three; the address that the client asked plays no part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from stillruns.model.applied import Answer
from stillruns.model.backend import Backend
from stillruns.model.evidence import Ref
from stillruns.model.layers import compare
from stillruns.model.outcome import OutcomeKind
from stillruns.model.server_log import Ending, Layers, LogRequest, Runner, ServerLog
from stillruns.model.worklog import ClientRecord, ClientRun, RequestDeath, ServerProbe, StudyRequest

OVERHEAD = 0.25
"""Seconds that a client may measure more (or less) than its server."""
SLACK = 3.0
"""Seconds between the ends as the two wrote them: access lines show whole seconds, the client computes its own."""

NO_JOURNAL = "the run has no server log: what was applied, and on which backend, is not known"


def requests(
    run: ClientRun,
    servers: Sequence[ServerLog],
    journal: bool,
    deaths: Mapping[Ref, RequestDeath],
    probe: ServerProbe,
) -> tuple[StudyRequest, ...]:
    """Every record of the run, judged. `deaths` maps the line of an ending to how it was judged."""
    taken: set[tuple[str, str]] = set()
    found = []
    for record in run.records:
        match = _match(record, servers, taken) if journal else None
        if match is None:
            found.append(_alone(run, record, journal))
        else:
            server, request = match
            taken.add((server.id, request.id))
            found.append(_beside(run, record, server, request, deaths, probe))
    return tuple(found)


def _match(
    record: ClientRecord, servers: Sequence[ServerLog], taken: set[tuple[str, str]]
) -> tuple[ServerLog, LogRequest] | None:
    """The one access line that fits; None when none does, or when two fit equally well."""
    if record.seconds is None or not record.started:
        return None
    ended = _moment(record.started) + timedelta(seconds=record.seconds)
    fits = []
    for server in servers:
        for request in server.requests:
            if (server.id, request.id) in taken or request.seconds is None or not request.ended:
                continue
            apart = abs((_moment(request.ended) - ended).total_seconds())
            differ = abs(request.seconds - record.seconds)
            if differ <= OVERHEAD and apart <= SLACK:
                fits.append((differ, apart, server, request))
    fits.sort(key=lambda fit: fit[:2])
    if len(fits) > 1 and fits[0][0] == fits[1][0]:
        return None
    return (fits[0][2], fits[0][3]) if fits else None


def _moment(text: str) -> datetime:
    """A time as it was written; Python 3.10 itself reads fractions of 3 or 6 digits only."""
    fraction = float("0" + text[19:26]) if text[19:20] == "." else 0.0
    return datetime.fromisoformat(text[:19]) + timedelta(seconds=fraction)


def _alone(run: ClientRun, record: ClientRecord, journal: bool) -> StudyRequest:
    why = NO_JOURNAL
    if journal:
        why = "no access line in the journal fits this request: it lies outside the excerpt, or another log holds it"
    return StudyRequest(
        run=run.name,
        record=record,
        model=run.model,
        label=run.label,
        why=why,
        outcome=_client_outcome(record),
    )


def _client_outcome(record: ClientRecord) -> OutcomeKind:
    """Without a log only the client's word is left: an error says nothing about its cause."""
    if record.status == "ok" and record.tokens != 0:
        return OutcomeKind.OK
    return OutcomeKind.ERROR


def _beside(
    run: ClientRun,
    record: ClientRecord,
    server: ServerLog,
    request: LogRequest,
    deaths: Mapping[Ref, RequestDeath],
    probe: ServerProbe,
) -> StudyRequest:
    runner = server.runner(request.runner)
    ending = next(
        (e for e in server.endings if e.request == request.id and not e.secondary and e.kind != "http"), None
    )
    death = deaths.get(ending.ref) if ending else None
    applied, why = _applied(record, request, runner)
    pid = server.pids[0] if server.pids else None
    alive = [r for r in probe.runners if r.parent != pid]
    return replace(
        StudyRequest.shown(run.name, record, run.model, server, request, runner),
        label=run.label,
        side=side(server),
        applied=applied,
        why=why,
        outcome=_outcome(record, request, ending, death),
        death=death,
        device_free=dict(runner.settings).get("device_free", "") if runner and not request.reused else "",
        refs=tuple(dict.fromkeys([*request.refs, *([ending.ref] if ending else [])])),
        alone=None if pid is None or not probe.servers else not alive,
        flash_attention=_flash_attention(runner),
        libraries=runner.libraries if runner else (),
        layout=runner.layout if runner else None,
    )


def _flash_attention(runner: Runner | None) -> str:
    """What it was set to, after what was asked where the two lines differ."""
    if runner is None:
        return ""
    used, asked = dict(runner.settings).get("flash_attention", ""), runner.asked_flash_attention
    return f"{asked}, then {used}" if asked and asked.lower() != used.lower() else used


def side(server: ServerLog) -> Backend:
    """The GPU backend that this server's processes say they loaded; UNKNOWN when they name none, or several."""
    found = {b.backend for b in server.backends_loaded if b.backend not in (Backend.CPU, Backend.UNKNOWN)}
    return next(iter(found)) if len(found) == 1 else Backend.UNKNOWN


def _applied(record: ClientRecord, request: LogRequest, runner: Runner | None) -> tuple[Answer, str]:
    """The client knows what it asked, the server what it did."""
    if runner is None:
        return Answer.UNKNOWN, request.why
    got, total = request.applied_layers, request.total_layers
    if record.asked is None:
        return Answer.UNKNOWN, f"the client set no num_gpu; {got}/{total} layers were offloaded"
    if not request.reused:
        if request.requested_layers is not None and request.requested_layers != record.asked:
            server = _shown(request.requested_layers)
            return Answer.NO, f"the client asked num_gpu={_shown(record.asked)}, the server was asked {server}"
        return (
            (request.applied, request.why)
            if request.requested_layers is not None
            else compare(record.asked, got, total)
        )
    if runner.requested_layers == record.asked:
        status, why = compare(record.asked, got, total)
        return status, f"{why}, on the runner that an equal request had loaded at {runner.started}"
    if runner.requested_layers is None:
        return Answer.UNKNOWN, request.why
    return (
        Answer.NO,
        f"asked num_gpu={_shown(record.asked)}, but no load was started: the runner loaded for "
        f"num_gpu={_shown(runner.requested_layers)} at {runner.started}, with {got}/{total} layers, served it",
    )


def _shown(asked: Layers) -> str:
    """num_gpu as it is written: a negative number leaves it to the server."""
    return "-1" if asked == "auto" else str(asked)


def _outcome(
    record: ClientRecord, request: LogRequest, ending: Ending | None, death: RequestDeath | None
) -> OutcomeKind:
    if death is not None:
        return OutcomeKind.ABORT if death.signal == "SIGABRT" else OutcomeKind.CRASH
    if ending is not None:
        return OutcomeKind.HANG if ending.kind == "timeout" else OutcomeKind.ERROR
    if request.status is not None and request.status >= 400:
        return OutcomeKind.ERROR
    return _client_outcome(record)
