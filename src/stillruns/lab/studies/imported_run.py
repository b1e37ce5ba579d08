"""One run of the store that is made of foreign files: a run folder of a worklog, or a log that came alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

from stillruns.lab.runs import verdict_digest
from stillruns.lab.studies import studying
from stillruns.lab.studies.worklog_form import FORM
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.evidence import Evidence
from stillruns.model.trial import TrialRecord
from stillruns.store.journal import Writer
from stillruns.store.store import Store
from stillruns.store.view import encode_trial

NO_CORE = Absence(AbsenceReason.NOT_COLLECTED, "imported: no core file is part of it")


def known(store: Store) -> dict[str, str]:
    """Digest of a run's files -> the run that holds them whole."""
    ended = {summary.run for summary in store.runs() if summary.ended}
    return {
        str(record.body["spec_sha256"]): record.run
        for record in store.records(kind="run_started")
        if record.body.get("form") == FORM and record.run in ended
    }


def write(
    store: Store,
    writer: Writer,
    run: str,
    files: Sequence[Evidence],
    about: Mapping[str, object],
    trials: Sequence[TrialRecord],
) -> None:
    """The run's records: `run_started` with every file and what `about` adds, each trial, `run_ended` with the
    digest of its verdicts."""
    listed = [{"id": e.id, "kind": e.kind, "sha256": e.sha256, "bytes": e.bytes, "source": e.source} for e in files]
    writer.append("run_started", run, {"form": FORM, **about, "files": listed})
    for trial in trials:
        writer.append("trial_ended", run, {"trial": trial.trial, "record": encode_trial(trial)})
    verdicts = verdict_digest.of_study(studying.judge(store, str(about["study"]), [run]))
    writer.append("run_ended", run, {"imported": True, **verdict_digest.record(verdicts)})


def moment(local: str, zone: str) -> datetime:
    """A local time with the offset that is known of it; the beginning of 1970 where none was written."""
    text = local or "1970-01-01T00:00:00"
    found = datetime.fromisoformat(text[:19])
    if text[19:20] == ".":
        found = found.replace(microsecond=int("".join(c for c in text[20:26] if c.isdigit()).ljust(6, "0")))
    if zone:
        return datetime.fromisoformat(f"{found.isoformat()}{zone}")
    return found.replace(tzinfo=timezone.utc)
