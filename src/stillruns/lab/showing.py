"""Finds one trial in the store, and the lines of evidence that its verdict rests on."""

from __future__ import annotations

from dataclasses import dataclass

from stillruns.errors import UsageError
from stillruns.lab import once
from stillruns.lab.runs import judging, reading
from stillruns.lab.studies import studying, worklog_form
from stillruns.model.hint import hint
from stillruns.model.trial import TrialRecord
from stillruns.model.verdict import TrialVerdict
from stillruns.normalise.logs.reader import lines, visible
from stillruns.store.record import Record
from stillruns.store.store import Store
from stillruns.store.view import decode_trial

EXCERPTS = 40
"""At most so many lines are quoted."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A trial with its verdict; `excerpts` maps refs to lines, `paths` evidence ids to files in the store."""

    record: TrialRecord
    verdict: TrialVerdict
    excerpts: dict[str, str]
    paths: dict[str, str]


def find(store: Store, name: str) -> Shown:
    """The trial of that id, or of that ending (unique in the store, or in the run that `report` prints); `last` is
    the newest.

    Raises UsageError when there is none, and for a trial that was interrupted: it left nothing to show.
    """
    record = decode_trial(_find_record(store, name).body["record"])
    verdict, known = _verdict(store, record)
    refs = list(dict.fromkeys(_refs(verdict)))[:EXCERPTS]
    return Shown(
        record,
        verdict,
        reading.excerpts(store, record, refs, known),
        {e.id: str(store.blob_path(e.sha256)) for e in record.evidence},
    )


def log_text(store: Store, shown: Shown) -> str:
    """The whole log of a trial, safe to print."""
    log = reading.log_of(shown.record)
    if log is None:
        raise UsageError(f"trial {shown.record.trial} has no log")
    return "\n".join(visible(line.text) for line in lines(store.read_blob(log.sha256), log.cut))


def _find_record(store: Store, name: str) -> Record:
    found: dict[str, Record] = {}
    last: Record | None = None
    for record in store.records(kind="trial_ended"):
        trial = str(record.body["trial"])
        last = record
        if trial == name:
            return record
        if trial.endswith(name):
            found[trial] = record
    if name == "last" and last is not None:
        return last
    fitting = list(found.values())
    if len(fitting) > 1:
        matrices = [r.run for r in store.records(kind="run_started") if not r.body.get("form")]
        here = [record for record in fitting if record.run in matrices[-1:]]
        fitting = here if len(here) == 1 else fitting
    if len(fitting) == 1:
        return fitting[0]
    if found:
        few = sorted(found)[-5:]
        more = "" if len(few) == len(found) else f" and {len(found) - len(few)} older"
        raise UsageError(f"{name} is the ending of {len(found)} trials: {', '.join(few)}{more}; give more of it")
    raise UsageError(_no_trial(store, name))


def _no_trial(store: Store, name: str) -> str:
    """Why a trial cannot be shown: it was begun and has no end, or there is none of that name."""
    if name == "last":
        return f"the store {store.path} holds no trial; start one with: {hint('demo')}"
    begun = [r for r in store.records(kind="trial_started") if str(r.body["trial"]).endswith(name)]
    if not begun:
        return f"no trial {name} in {store.path}; `{hint('report', options=('--list',))}` lists the runs"
    trial = str(begun[-1].body["trial"])
    for record in store.records(kind="trial_interrupted"):
        if record.body["trial"] == trial:
            reason = record.body.get("reason") or "for an unknown reason"
            return f"trial {trial} was interrupted ({reason}) and left no evidence; there is nothing to show"
    return f"trial {trial} was started and has no end: it runs now, or its harness died; there is nothing to show yet"


def _verdict(store: Store, record: TrialRecord) -> tuple[TrialVerdict, dict[str, str]]:
    """The verdict, and the lines of evidence that were quoted on the way to it."""
    body = judging.first_record(store, record.run)
    if body.get("form") == "once":
        seen, _ = once.judged(store, record, body)
        told = seen.outcome, seen.applied, None, None, seen.tokens_per_second, seen.seconds
        return TrialVerdict(record.trial, record.cell, 0, *told), seen.excerpts
    if body.get("form") == worklog_form.FORM:
        return studying.verdict(store, record), {}
    start = judging.opening(store, record.run)
    judged = judging.Judged(store, record.run, start.plans, start.spec.backends, start.engines, only=record.trial)
    for verdict in (*judged.verdicts, *judged.warming):
        if verdict.trial == record.trial:
            return verdict, {}
    raise UsageError(f"trial {record.trial} is not part of run {record.run}")


def _refs(verdict: TrialVerdict) -> list[str]:
    refs = [verdict.outcome.key_line, *verdict.outcome.refs]
    for factor in verdict.applied.factors.values():
        refs += factor.refs
    return [ref for ref in refs if ref]
