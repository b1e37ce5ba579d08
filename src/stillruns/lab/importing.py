"""`stillruns import DIR`: the run folders of a foreign worklog into the store, byte for byte.

One run folder becomes one run of the form `worklog`: `run_started` names every file with its digest, each request
of the client is a trial whose evidence they are, `run_ended` closes it. Nothing is judged here; `studying` does that
from the store, again each time. A folder whose bytes are in the store already is passed over.
"""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from stillruns.collect import worklog as folders
from stillruns.collect.worklog import RunFolder
from stillruns.errors import UsageError
from stillruns.lab import studying, verdict_digest
from stillruns.lab.worklog_form import FORM, JOURNAL, META, PROBE
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.evidence import Evidence
from stillruns.model.exchange import Exchange
from stillruns.model.imported import Import, Imported
from stillruns.model.trial import Sighting, TrialRecord
from stillruns.model.worklog import ClientRun
from stillruns.normalise import worklog
from stillruns.store.ids import digest, run_id
from stillruns.store.journal import Writer
from stillruns.store.store import Store
from stillruns.store.view import encode_trial

NOT_OURS = Absence(AbsenceReason.NOT_COLLECTED, "imported: no core file is part of the worklog")


def run(root: Path, store: Store, name: str = "") -> Import:
    """Import every run folder at or below `root`. Raises UsageError when there is none."""
    if not root.is_dir():
        raise UsageError(f"{root} is no folder; name the folder that holds the run folders (each with a result.json)")
    found = folders.find(root)
    if not found:
        raise UsageError(
            f"no folder with a {folders.RESULT} at or below {root}; this is no worklog that import can read"
        )
    study = name or root.resolve().name
    read = [(folder, _read(folder)) for folder in found]
    zones = {client.zone for _, client in read if isinstance(client, ClientRun) and client.zone}
    common = next(iter(zones)) if len(zones) == 1 else ""
    known = _known(store)
    with store.writer() as writer:
        runs = tuple(_one(folder, client, store, writer, study, common, known) for folder, client in read)
    return Import(study, runs)


def _known(store: Store) -> dict[str, str]:
    """Digest of a folder's files -> the run that holds them whole."""
    ended = {summary.run for summary in store.runs() if summary.ended}
    return {
        str(record.body["spec_sha256"]): record.run
        for record in store.records(kind="run_started")
        if record.body.get("form") == FORM and record.run in ended
    }


def _bytes(folder: RunFolder, name: str) -> bytes:
    path = next((path for shown, path in folder.files if shown == name), None)
    return path.read_bytes() if path else b""


def _read(folder: RunFolder) -> ClientRun | Absence:
    zone = ""
    for name in (JOURNAL, PROBE):
        zone = zone or worklog.zone(_bytes(folder, name))
    return worklog.read(folder.name, _bytes(folder, folders.RESULT), _bytes(folder, META), zone)


def _one(
    folder: RunFolder,
    client: ClientRun | Absence,
    store: Store,
    writer: Writer,
    study: str,
    common: str,
    known: dict[str, str],
) -> Imported:
    if isinstance(client, Absence):
        return Imported(folder.name, why=client.detail)
    blobs = [(name, store.put_bytes(path.read_bytes())) for name, path in folder.files]
    sha256 = digest({"folder": folder.name, "files": {name: blob.sha256 for name, blob in blobs}})
    if sha256 in known:
        return Imported(folder.name, known[sha256], len(client.records), len(blobs), before=True)
    files = tuple(
        Evidence(f"s{number}", _kind(name), blob.sha256, blob.bytes, f"{folder.name}/{name}")
        for number, (name, blob) in enumerate(blobs)
    )
    zone = client.zone or common
    identity = run_id(_moment(client.started, zone), sha256)
    body: dict[str, object] = {
        "form": FORM,
        "name": folder.name,
        "study": study,
        "spec_sha256": sha256,
        "model": client.model,
        "files": [
            {"id": e.id, "kind": e.kind, "sha256": e.sha256, "bytes": e.bytes, "source": e.source} for e in files
        ],
        "left_out": list(folder.left_out),
        "zone": zone,
        "zone_from": "its own files"
        if client.zone
        else "the worklog's other runs"
        if common
        else "none: taken as UTC",
    }
    writer.append("run_started", identity, body)
    for index in range(len(client.records)):
        trial = _trial(identity, client, index, files, zone)
        writer.append("trial_ended", identity, {"trial": trial.trial, "record": encode_trial(trial)})
    verdicts = verdict_digest.of_study(studying.judge(store, study, [identity]))
    writer.append("run_ended", identity, {"imported": True, **verdict_digest.record(verdicts)})
    return Imported(folder.name, identity, len(client.records), len(blobs), left_out=folder.left_out)


def _kind(name: str) -> str:
    """What a file of a run folder is, for the kinds of evidence."""
    if name == JOURNAL:
        return "log"
    if name.startswith("responses/"):
        return "response"
    if name in (folders.RESULT, META):
        return "file"
    return "probe"


def _moment(local: str, zone: str) -> datetime:
    """A local time with the offset that is known of it; the beginning of 1970 where the client wrote none."""
    text = local or "1970-01-01T00:00:00"
    moment = datetime.fromisoformat(text[:19])
    if text[19:20] == ".":
        moment = moment.replace(microsecond=int(text[20:26].ljust(6, "0")))
    if zone:
        return datetime.fromisoformat(f"{moment.isoformat()}{zone}")
    return moment.replace(tzinfo=timezone.utc)


def _trial(run: str, client: ClientRun, index: int, files: tuple[Evidence, ...], zone: str) -> TrialRecord:
    """One request of the client as a trial: of the run's files, those that belong to it or to the whole run."""
    record = client.records[index]
    response = f"{client.name}/responses/{record.response_file}" if record.response_file else ""
    body = next((e.id for e in files if e.source == response), None)
    seconds = record.seconds or 0.0
    status = record.http_status or (200 if record.status == "ok" else None)
    return TrialRecord(
        trial=f"{run}.{index + 1:04d}",
        run=run,
        cell=f"num_gpu={'-1' if record.asked == 'auto' else record.asked}",
        index=index,
        started=_moment(record.started, zone).astimezone(timezone.utc).isoformat() if record.started else "",
        ended="",
        argv=(),
        env={},
        sighting=Sighting(None, None, seconds),
        end=None,
        exchange=Exchange(0.0, None, seconds, status, record.error, "", body, record.tokens or 0),
        core=NOT_OURS,
        evidence=tuple(e for e in files if _belongs(e.source, record.epoch, response)),
        notes=("imported from a foreign worklog",),
    )


def _belongs(source: str, epoch: int, response: str) -> bool:
    """Whether a file is the request's own, or the run's as a whole."""
    if source == response or f"epoch_{epoch:03d}_" in source:
        return True
    return "/epoch_" not in source and "_epoch_" not in source
