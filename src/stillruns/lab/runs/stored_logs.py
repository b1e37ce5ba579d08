"""Logs of our own trials, for `stillruns autopsy`: of a store's newest run, of a run, or of one trial.

The harness saw how a process ended even where its log does not say so. That is evidence as well: the trial's record
becomes a source of its own, and a death that only it tells is an ending of the server whose log ends there.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec.structs import replace

from stillruns.collect.logs import LogInput
from stillruns.errors import UsageError
from stillruns.judge.trials import outcome, user_command
from stillruns.lab.runs import reading
from stillruns.model.backend import Runtime
from stillruns.model.evidence import Ref
from stillruns.model.hint import hint
from stillruns.model.outcome import Outcome, OutcomeKind
from stillruns.model.server_log import Ending, Note, ServerLog
from stillruns.model.trial import TrialRecord
from stillruns.normalise.logs.llama_cpp_summary import applied_answer
from stillruns.store.opening import open_store
from stillruns.store.store import Store
from stillruns.store.view import encode_trial, trials

MAX_TRIALS = 500
_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}(?P<trial>\.\d{4,})?\Z")
_KINDS = {
    OutcomeKind.CRASH: "signal",
    OutcomeKind.ABORT: "signal",
    OutcomeKind.HANG: "timeout",
    OutcomeKind.OOM: "signal",
    OutcomeKind.DEVICE_LOST: "signal",
    OutcomeKind.ERROR: "exit",
    OutcomeKind.NOT_READY: "exit",
}


@dataclass(frozen=True, slots=True)
class StoredLog:
    """One log, the record of the trial that it is of (None: a server that ran before, seen by several trials), and
    how the harness saw it end."""

    entry: LogInput
    record: TrialRecord | None
    ended: Outcome | None

    def name(self) -> str:
        """The trial, or empty."""
        return self.record.trial if self.record else ""

    def record_bytes(self) -> bytes | None:
        """The record as one line of JSON: a source like any other."""
        if self.record is None:
            return None
        return msgspec.json.encode(encode_trial(self.record), order="deterministic") + b"\n"

    def with_ending(
        self, servers: tuple[ServerLog, ...], last: tuple[Ref, str] | None, ref: Ref, id: str
    ) -> tuple[ServerLog, ...]:
        """The servers of one trial's log, with what the command asked, and the last of them with the end that the
        harness saw, or a note of it where they are several. `last` is the log's last line (None for an empty log),
        `ref` the record's, `id` for a server that left no line."""
        if self.record is None or self.ended is None:
            return servers
        return _with_ending(servers, self.record, self.ended, last, ref, id)


def opener(store_dir: Path | None) -> Callable[[str], tuple[list[StoredLog], list[Note]]]:
    """Opens what a path names: a store's folder itself, a run or a trial in the store at `store_dir`."""
    return lambda path: inputs(path, store_dir)


def is_id(path: str) -> bool:
    """Whether it is the id of a run or of a trial, and no folder."""
    return _ID.match(path) is not None


def inputs(path: str, store_dir: Path | None) -> tuple[list[StoredLog], list[Note]]:
    """(the logs, what was left out). Raises UsageError where the run or trial is not there, StoreError where the
    store is not."""
    found = _ID.match(path)
    store = open_store(store_dir if found else Path(path), create=False)
    run = path.split(".", 1)[0] if found else _newest(store, path)
    records = [r for r in trials(store, run) if not found or not found["trial"] or r.trial == path]
    if not records:
        raise UsageError(
            f"no trial of {path} has ended in {store.path}; `{hint('report', options=('--list',))}` lists its runs."
        )
    notes = []
    if not found and len(store.runs()) > 1:
        others = len(store.runs()) - 1
        notes.append(Note("input", f"{path} is a store: its newest run {run} is read; name one of {others} others"))
    if len(records) > MAX_TRIALS:
        notes.append(Note("input", f"the last {MAX_TRIALS} of {len(records)} trials of {run} are read"))
    return list(_logs(store, records[-MAX_TRIALS:])), notes


def _newest(store: Store, path: str) -> str:
    runs = [summary.run for summary in store.runs() if summary.trials]
    if not runs:
        raise UsageError(f"the store {path} holds no trial yet; start one with: {hint('demo')}")
    return runs[-1]


def _logs(store: Store, records: list[TrialRecord]) -> Iterator[StoredLog]:
    seen: set[str] = set()
    for record in records:
        log = reading.log_of(record)
        own = bool(record.argv)
        if log is None or (log.sha256 in seen and not own):
            continue
        seen.add(log.sha256)
        entry = LogInput(f"{record.trial} {log.kind}", io.BytesIO(store.read_blob(log.sha256)))
        if log.cut:
            entry.note = f"{log.cut.dropped} bytes were not kept after the first {log.cut.head}"
        if not own:
            yield StoredLog(entry, None, None)
            continue
        read = reading.read(store, record)
        yield StoredLog(entry, record, outcome.judge(record, read.facts, read.answered))


def _as_asked(server: ServerLog, record: TrialRecord) -> ServerLog:
    """The layers that the command line asks for, where the log does not repeat it."""
    asked = user_command.read(record.argv, {}).layers
    if asked is None:
        return server
    runners = tuple(
        r if r.requested_layers is not None else replace(r, requested_layers=asked) for r in server.runners
    )
    by_id = {runner.id: runner for runner in runners}
    requests = []
    for request in server.requests:
        runner = by_id.get(request.runner or "")
        if runner is not None and request.requested_layers is None:
            answer, why = applied_answer(runner)
            request = replace(request, requested_layers=asked, applied=answer, why=why)
        requests.append(request)
    return replace(server, runners=runners, requests=tuple(requests))


def _with_ending(
    servers: tuple[ServerLog, ...],
    record: TrialRecord,
    ended: Outcome,
    last: tuple[Ref, str] | None,
    ref: Ref,
    id: str,
) -> tuple[ServerLog, ...]:
    program = record.argv[0].rsplit("/", 1)[-1]
    servers = servers or (ServerLog(id, "", Runtime.UNKNOWN, program=program),)
    servers = tuple(replace(s, name=s.name or record.trial, program=s.program or program) for s in servers)
    servers = tuple(_as_asked(s, record) for s in servers)
    kind = _KINDS.get(ended.kind)
    if kind is None:
        return servers
    server = servers[-1]
    if record.cell == "once" and [s.runtime for s in servers].count(Runtime.LLAMA_CPP) > 1:
        left = ended.kind.value if ended.exit_status is None else f"exit status {ended.exit_status}"
        status = ended.signal or left
        whose = "is that of the command which started these servers, and of none of them for certain"
        note = Note("harness", f"the end by {status} {whose}")
        return (*servers[:-1], replace(server, notes=(*server.notes, note)))
    said = f"the harness's record: {ended.detail}"
    end = Ending(
        kind="signal" if ended.signal else kind,
        ref=last[0] if last else ref,
        text=last[1] if last else said,
        signal=ended.signal,
        exit_status=ended.exit_status,
        phase=ended.phase,
        at=record.ended,
        secondary=bool(server.endings),
        refs=(ref,),
        detail=ended.detail,
    )
    endings = tuple(e for e in server.endings if e.kind != "cut")
    texts = (*server.texts, (ref, said), *((last,) if last else ()))
    return (*servers[:-1], replace(server, endings=(*endings, end), texts=texts))
