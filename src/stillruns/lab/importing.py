"""`stillruns import`: the run folders of a foreign worklog into the store, byte for byte, or logs that came alone.

One run folder becomes one run of the form `worklog`: `run_started` names every file with its digest, each request
of the client is a trial whose evidence they are, `run_ended` closes it. Nothing is judged here; `studying` does that
from the store, again each time. A folder whose bytes are in the store already is passed over.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import timezone
from pathlib import Path

from stillruns.collect import worklog as folders
from stillruns.collect.worklog import RunFolder
from stillruns.errors import UsageError
from stillruns.lab.studies import importing_logs, studying
from stillruns.lab.studies.imported_run import NO_CORE, known, moment, write
from stillruns.lab.studies.worklog_form import JOURNAL, META, PROBE
from stillruns.model.absence import Absence
from stillruns.model.evidence import Evidence
from stillruns.model.exchange import Exchange
from stillruns.model.imported import Import, Imported
from stillruns.model.trial import Sighting, TrialRecord
from stillruns.model.worklog import ClientRun
from stillruns.normalise import worklog
from stillruns.store.ids import digest, run_id
from stillruns.store.journal import Writer
from stillruns.store.store import Store


def run(where: Path | Sequence[Path], store: Store, name: str = "") -> Import:
    """Import every run folder at or below a folder; where there is none, every server log. Several paths, and single
    files, are logs. Raises UsageError when there is neither."""
    return _known_as(_taken(where, store, name), store)


def _known_as(result: Import, store: Store) -> Import:
    """What was there already, all of it, is known by the name that it got then."""
    taken = {entry.run for entry in result.runs if entry.run}
    if not taken or not all(entry.before for entry in result.runs if entry.run):
        return result
    names = [study for study, members in studying.names(store).items() if taken & set(members)]
    return result if result.study in names or not names else dataclasses.replace(result, study=names[0])


def _taken(where: Path | Sequence[Path], store: Store, name: str) -> Import:
    paths = [where] if isinstance(where, Path) else list(where)
    root = paths[0]
    if len(paths) > 1 or root.is_file():
        here = root if root.is_dir() else root.resolve().parent
        return importing_logs.run(paths, store, name or here.resolve().name)
    if not root.is_dir():
        raise UsageError(f"{root} is no folder and no file; name the folder that holds run folders or logs, or a log")
    found = folders.find(root)
    study = name or root.resolve().name
    if not found:
        return importing_logs.run([root], store, study)
    read = [(folder, _read(folder)) for folder in found]
    zones = {client.zone for _, client in read if isinstance(client, ClientRun) and client.zone}
    common = next(iter(zones)) if len(zones) == 1 else ""
    before = known(store)
    with store.writer() as writer:
        runs = tuple(_one(folder, client, store, writer, study, common, before) for folder, client in read)
    return Import(study, runs)


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
    before: dict[str, str],
) -> Imported:
    if isinstance(client, Absence):
        return Imported(folder.name, why=client.detail)
    blobs = [(name, store.put_bytes(path.read_bytes())) for name, path in folder.files]
    sha256 = digest({"folder": folder.name, "files": {name: blob.sha256 for name, blob in blobs}})
    if sha256 in before:
        return Imported(folder.name, before[sha256], len(client.records), len(blobs), before=True)
    files = tuple(
        Evidence(f"s{number}", _kind(name), blob.sha256, blob.bytes, f"{folder.name}/{name}")
        for number, (name, blob) in enumerate(blobs)
    )
    zone = client.zone or common
    identity = run_id(moment(client.started, zone), sha256)
    about = {
        "name": folder.name,
        "study": study,
        "spec_sha256": sha256,
        "model": client.model,
        "left_out": list(folder.left_out),
        "zone": zone,
        "zone_from": "its own files"
        if client.zone
        else "the worklog's other runs"
        if common
        else "none: taken as UTC",
    }
    trials = [_trial(identity, client, index, files, zone) for index in range(len(client.records))]
    write(store, writer, identity, files, about, trials)
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
        started=moment(record.started, zone).astimezone(timezone.utc).isoformat() if record.started else "",
        ended="",
        argv=(),
        env={},
        sighting=Sighting(None, None, seconds),
        end=None,
        exchange=Exchange(0.0, None, seconds, status, record.error, "", body, record.tokens or 0),
        core=NO_CORE,
        evidence=tuple(e for e in files if _belongs(e.source, record.epoch, response)),
        notes=("imported from a foreign worklog",),
    )


def _belongs(source: str, epoch: int, response: str) -> bool:
    """Whether a file is the request's own, or the run's as a whole."""
    if source == response or f"epoch_{epoch:03d}_" in source:
        return True
    return "/epoch_" not in source and "_epoch_" not in source
