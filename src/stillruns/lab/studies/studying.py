"""An imported worklog, judged from the store: what was asked beside what the journals show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stillruns.errors import UsageError
from stillruns.judge.incidents import incident
from stillruns.judge.studies import conditions as study_conditions
from stillruns.judge.studies import findings as study_findings
from stillruns.judge.studies import log_findings, worklog
from stillruns.judge.studies import study as judge_study
from stillruns.lab import autopsy
from stillruns.lab.studies import noted_names, observing_logs, study_logs, worklog_form
from stillruns.lab.studies.observing_logs import LogTrial
from stillruns.model.absence import Absence
from stillruns.model.applied import Answer, Applied, FactorApplied
from stillruns.model.backend import Backend, Runtime
from stillruns.model.evidence import Ref, line_ref
from stillruns.model.hint import hint
from stillruns.model.outcome import Outcome
from stillruns.model.phase import Phase
from stillruns.model.server_log import Ending, Runner, ServerLog
from stillruns.model.trial import TrialRecord
from stillruns.model.verdict import TrialVerdict
from stillruns.model.worklog import ClientRun, Noted, RequestDeath, ServerProbe, Study, StudyRequest
from stillruns.normalise import worklog as files
from stillruns.normalise.logs.slog import local_seconds
from stillruns.store.store import Store


def names(store: Store) -> dict[str, list[str]]:
    """Study -> its runs in the store, oldest first; those without a time as they came."""
    found: dict[str, list[str]] = {}
    for record in store.records(kind="run_started"):
        if record.body.get("form") == worklog_form.FORM:
            found.setdefault(str(record.body.get("study", "")), []).append(record.run)
    return {study: sorted(dict.fromkeys(runs), key=lambda run: run[:_TIME]) for study, runs in found.items()}


def folders(store: Store) -> dict[str, str]:
    """Name of a run folder -> its run in the store; of two imports of one name, the last."""
    return {
        str(record.body["name"]): record.run
        for record in store.records(kind="run_started")
        if record.body.get("form") == worklog_form.FORM
    }


def newest(store: Store) -> str:
    """The study that was imported last, when no other run was recorded after it; else empty."""
    last = ""
    for record in store.records(kind="run_started"):
        imported = record.body.get("form") == worklog_form.FORM
        if imported or not record.body.get("form"):
            last = str(record.body.get("study", "")) if imported else ""
    return last


def judge(store: Store, name: str, runs: Sequence[str]) -> Study:
    """Judge these runs as one study. Raises UsageError when one of them is no imported run."""
    requests: list[StudyRequest] = []
    silent: list[StudyRequest] = []
    logs: list[LogTrial] = []
    shown: list[tuple[str, str, bool]] = []
    noted: list[Noted] = []
    for run in runs:
        folder = _Folder(store, run)
        found = folder.requests()
        requests += found
        logs += [LogTrial(run, index, request) for index, request in enumerate(found) if not request.client]
        silent += folder.silent_ps(found)
        if not folder.alone:
            noted.append(folder.noted())
        shown.append((folder.name, run, folder.alone or folder.has(worklog_form.JOURNAL)))
    alone = [trial.request for trial in logs]
    asked = [request for request in requests if request.client]
    conditions = study_conditions.Conditions(asked, noted, noted_names.unread(noted))
    return Study(
        name=name,
        runs=tuple(shown),
        requests=tuple(requests),
        cells=judge_study.cells(requests),
        findings=(
            *study_findings.findings(asked, silent),
            *study_conditions.findings(conditions),
            *log_findings.findings([c for cells in observing_logs.models(logs).values() for c in cells], alone),
        ),
    )


def verdict(store: Store, record: TrialRecord) -> TrialVerdict:
    """One imported request, judged as a trial is. Raises UsageError when its run has no such request any more."""
    requests = _Folder(store, record.run).requests()
    if record.index >= len(requests):
        raise UsageError(f"{record.trial}: its run shows no request {record.index + 1} any more")
    found = requests[record.index]
    if not found.client:
        return _of_log(record, found)
    got = f"{found.applied_layers}/{found.total_layers}" if found.applied_layers is not None else None
    asked = "-1" if found.record.asked == "auto" else str(found.record.asked)
    factor = FactorApplied(found.applied, asked, got, found.why, found.refs)
    why = "the client asks an address, not a backend; this is what the server's own lines say"
    refs = (found.runner_ref,) if found.runner_ref else ()
    factors = {"num_gpu": factor, "backend": _backend(found, "not named in the request", why, refs)}
    return _verdict(record, found, factors)


def _of_log(record: TrialRecord, found: StudyRequest) -> TrialVerdict:
    """A trial of a log that came alone: what was asked is in no client's record."""
    got = f"{found.applied_layers}/{found.total_layers}" if found.applied_layers is not None else None
    asked = "not shown in the log" if found.record.asked is None else str(found.record.asked)
    factors = {
        "gpu_layers": FactorApplied(found.applied, asked, got, found.why, found.refs),
        "backend": _backend(found, "not shown in the log", "what its own device and buffer lines say", found.refs),
    }
    return _verdict(record, found, factors)


def _backend(found: StudyRequest, asked: str, why: str, refs: tuple[Ref, ...]) -> FactorApplied:
    return FactorApplied(
        Answer.UNKNOWN if found.backend is Backend.UNKNOWN else Answer.YES,
        asked,
        None if found.backend is Backend.UNKNOWN else found.backend.value,
        why,
        refs,
    )


def _verdict(record: TrialRecord, found: StudyRequest, factors: dict[str, FactorApplied]) -> TrialVerdict:
    death = found.death
    return TrialVerdict(
        trial=record.trial,
        cell=record.cell,
        index=record.index,
        outcome=Outcome(
            kind=found.outcome,
            phase=death.phase if death else Phase.UNKNOWN,
            signal=death.signal if death else None,
            detail=found.record.error or ("tokens, but no text was stored: output unknown" if found.empty else ""),
            components=death.components if death else (),
            key_line=death.ref if death else None,
            refs=found.refs,
        ),
        applied=Applied(found.applied, found.why, factors),
        placement=None,
        agreement=None,
        tokens_per_second=found.record.rate,
        seconds=found.record.seconds or 0.0,
    )


DEATHS = ("signal", "exit", "terminate", "assert", "panic", "eof")
"""Kinds of endings that a runner does not survive."""


_TIME = len("20260502T090000Z")
LOG = "log"
"""How the one file of a log that came alone is called here."""


class _Folder:
    """One run folder, or one log that came alone, as the store holds it."""

    def __init__(self, store: Store, run: str) -> None:
        body: Mapping[str, object] | None = None
        for record in store.records(run=run, kind="run_started"):
            body = record.body
        if body is None or body.get("form") != worklog_form.FORM:
            raise UsageError(
                f"{run} is no imported run; `{hint('report', options=('--list',))}` lists what the store holds"
            )
        self.store, self.run, self.name = store, run, str(body["name"])
        self.zone = str(body.get("zone", ""))
        listed = body["files"]
        assert isinstance(listed, list)
        self.alone = body.get("alone") is True
        self.files = {
            LOG if self.alone else str(f["source"]).split("/", 1)[1]: (str(f["id"]), str(f["sha256"])) for f in listed
        }

    def has(self, name: str) -> bool:
        """Whether the folder holds this file."""
        return name in self.files

    def bytes(self, name: str) -> bytes:
        """A file's bytes; none where it is not there."""
        return self.store.read_blob(self.files[name][1]) if name in self.files else b""

    def client(self) -> ClientRun:
        """What its client wrote down. Raises UsageError when that cannot be read any more."""
        client = files.read(self.name, self.bytes("result.json"), self.bytes(worklog_form.META), self.zone)
        if isinstance(client, Absence):
            raise UsageError(f"{self.run}: {client.detail}")
        return client

    def noted(self) -> Noted:
        """What it noted beside the requests, with the lines."""
        version, line = files.version(self.bytes(worklog_form.VERSION))
        config = files.server_environment(self.bytes(worklog_form.JOURNAL))
        return Noted(
            run=self.name,
            journal=self.has(worklog_form.JOURNAL),
            environment=tuple((n, self._ref(worklog_form.META, at)) for n, at in self.client().noted if at),
            server_environment=self._ref(worklog_form.JOURNAL, config) if config else None,
            version=version,
            version_ref=self._ref(worklog_form.VERSION, line) if line else None,
        )

    def _ref(self, name: str, line: int) -> Ref:
        return line_ref(self.files[name][0], line)

    def requests(self) -> tuple[StudyRequest, ...]:
        """Every request of the run, judged."""
        if self.alone:
            return study_logs.trials(self.name, self.bytes(LOG), self.files[LOG][0])
        client = self.client()
        probe = ServerProbe()
        if self.has(worklog_form.PROBE):
            probe = files.probe(self.bytes(worklog_form.PROBE), self.files[worklog_form.PROBE][0])
        journal = self.has(worklog_form.JOURNAL)
        servers = self.servers() if journal else ()
        return worklog.requests(client, servers, journal, _deaths(servers), probe)

    def servers(self) -> tuple[ServerLog, ...]:
        """The servers of its journal."""
        found = study_logs.servers(self.bytes(worklog_form.JOURNAL), self.files[worklog_form.JOURNAL][0])
        return tuple(s for s in found if s.runtime is Runtime.OLLAMA)

    def silent_ps(self, requests: Sequence[StudyRequest]) -> list[StudyRequest]:
        """Answered requests after which the client's `ollama ps` listed no model."""
        found = []
        for request in requests:
            name = request.record.ps_after_file
            asked = request.client and request.record.status == "ok" and request.access_ref and self.has(name)
            if asked and files.lists_a_model(self.bytes(name)) is False:
                found.append(request)
        return found


def _deaths(servers: tuple[ServerLog, ...]) -> dict[Ref, RequestDeath]:
    """Every death that is one of its own, by its line, as the incident that `stillruns autopsy` makes of it."""
    incidents, _ = incident.judge(servers, (), autopsy.knowledge(servers))
    found: dict[Ref, RequestDeath] = {}
    for server in servers:
        for ending in server.endings:
            if ending.secondary or ending.kind not in DEATHS:
                continue
            judged = next((i for i in incidents if i.server == server.id and i.request == ending.request), None)
            if judged is not None:
                runner = server.runner(ending.runner)
                found[ending.ref] = RequestDeath(
                    ref=ending.ref,
                    signal=judged.signal,
                    phase=judged.phase,
                    signature=judged.signature,
                    components=judged.components,
                    batch=ending.detail,
                    after_load=_after_load(server, ending, runner),
                    waited=runner.waited if runner else None,
                )
    return found


def _after_load(server: ServerLog, ending: Ending, runner: Runner | None) -> float | None:
    """Seconds from the runner's start to the server's first line after its death."""
    if runner is None:
        return None
    echo = next((e for e in server.endings if e.secondary and e.runner == ending.runner and e.kind == "eof"), None)
    start, end = local_seconds(runner.at), local_seconds(echo.at) if echo else None
    return round(end - start, 3) if start is not None and end is not None else None


def requests_of(store: Store, run: str) -> tuple[StudyRequest, ...]:
    """Every request of one imported run, judged. Raises UsageError when the run is none."""
    return _Folder(store, run).requests()


def kernel_driver(store: Store, run: str) -> str:
    """The version of the GPU's kernel driver that a probe of this imported run shows; empty where none does."""
    return files.kernel_driver(_Folder(store, run).bytes(worklog_form.PROBE))


def servers_of(store: Store, run: str) -> tuple[tuple[ServerLog, ...], bytes]:
    """The servers of an imported run's journal, and the journal itself; nothing where it has none."""
    folder = _Folder(store, run)
    return (folder.servers(), folder.bytes(worklog_form.JOURNAL)) if folder.has(worklog_form.JOURNAL) else ((), b"")


def log_of(store: Store, run: str) -> bytes:
    """The bytes of a log that came alone."""
    return _Folder(store, run).bytes(LOG)
