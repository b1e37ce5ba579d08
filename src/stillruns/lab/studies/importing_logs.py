"""Server logs that came alone into the store: each is one run of the form `worklog`, with a trial for each request.

What a log holds is judged from its bytes, at import only to count its trials and to leave out what no model server
wrote. A log whose bytes are in the store already is passed over, whatever its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timezone
from pathlib import Path

from stillruns.collect import loose_logs
from stillruns.errors import UsageError
from stillruns.lab.studies import study_logs
from stillruns.lab.studies.imported_run import NO_CORE, known, moment, write
from stillruns.model.evidence import Evidence
from stillruns.model.imported import Import, Imported
from stillruns.model.trial import Sighting, TrialRecord
from stillruns.model.worklog import StudyRequest
from stillruns.store.ids import digest, run_id
from stillruns.store.journal import Writer
from stillruns.store.store import Store

SOURCE = "s0"
"""The evidence id of the log in its run."""
NO_SERVER = "no line of a model server"


def run(paths: Sequence[Path], store: Store, study: str) -> Import:
    """Import every server log among these files and folders. Raises UsageError when there is none."""
    found, left_out = loose_logs.find(paths)
    taken: list[tuple[str, bytes, tuple[StudyRequest, ...]]] = []
    passed = list(left_out)
    for log in found:
        data = loose_logs.read(log)
        requests = study_logs.trials(log.name, data, SOURCE) if isinstance(data, bytes) else ()
        if isinstance(data, bytes) and requests:
            taken.append((log.name, data, requests))
        else:
            passed.append(f"{log.name}: {data if isinstance(data, str) else NO_SERVER}")
    if not taken:
        where = ", ".join(str(path) for path in paths)
        raise UsageError(
            f"no folder with a result.json and no server's log at or below {where}; there is nothing to import"
        )
    before = known(store)
    with store.writer() as writer:
        runs = tuple(_one(name, data, requests, store, writer, study, before) for name, data, requests in taken)
    return Import(study, runs, tuple(passed))


def _one(
    name: str,
    data: bytes,
    requests: Sequence[StudyRequest],
    store: Store,
    writer: Writer,
    study: str,
    before: dict[str, str],
) -> Imported:
    blob = store.put_bytes(data)
    sha256 = digest({"log": blob.sha256})
    if sha256 in before:
        return Imported(name, before[sha256], len(requests), 1, before=True)
    log = Evidence(SOURCE, "log", blob.sha256, blob.bytes, name)
    identity = run_id(moment(requests[0].record.started, ""), sha256)
    about = {
        "name": name,
        "study": study,
        "alone": True,
        "spec_sha256": sha256,
        "model": requests[0].model,
        "left_out": [],
        "zone": "",
        "zone_from": "none: taken as UTC",
    }
    trials = [_trial(identity, r, i, log) for i, r in enumerate(requests)]
    write(store, writer, identity, (log,), about, trials)
    before[sha256] = identity
    return Imported(name, identity, len(requests), 1)


def _trial(run: str, request: StudyRequest, index: int, log: Evidence) -> TrialRecord:
    started = request.record.started
    return TrialRecord(
        trial=f"{run}.{index + 1:04d}",
        run=run,
        cell="log",
        index=index,
        started=moment(started, "").astimezone(timezone.utc).isoformat() if started else "",
        ended="",
        argv=(),
        env={},
        sighting=Sighting(None, None, request.record.seconds or 0.0),
        end=None,
        exchange=None,
        core=NO_CORE,
        evidence=(log,),
        notes=(f"imported from the log {log.source}, which came alone",),
    )
