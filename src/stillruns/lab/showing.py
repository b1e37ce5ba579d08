"""Finds one trial in the store, and the lines of evidence that its verdict rests on."""

from __future__ import annotations

from dataclasses import dataclass

from stillruns.errors import UsageError
from stillruns.lab import importing, judging, once, reading, studying
from stillruns.model.evidence import parse_ref
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
    """The trial of that id, or of that unique ending; `last` is the newest. Raises UsageError when there is none."""
    record = decode_trial(_find_record(store, name).body["record"])
    verdict = _verdict(store, record)
    refs = list(dict.fromkeys(_refs(verdict)))[:EXCERPTS]
    return Shown(
        record,
        verdict,
        _excerpts(store, record, refs),
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
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        raise UsageError(
            f"{name} is the ending of {len(found)} trials: {', '.join(sorted(found)[-5:])}; give more of it"
        )
    raise UsageError(f"no trial {name} in {store.path}; stillruns report --trials lists them")


def _verdict(store: Store, record: TrialRecord) -> TrialVerdict:
    body = judging.first_record(store, record.run)
    if body.get("form") == "once":
        seen = once.judged(store, record, body)
        return TrialVerdict(
            record.trial, record.cell, 0, seen.outcome, seen.applied, None, None, seen.tokens_per_second, seen.seconds
        )
    if body.get("form") == importing.FORM:
        return studying.verdict(store, record)
    start = judging.opening(store, record.run)
    judged = judging.Judged(store, record.run, start.plans, start.spec.backends, start.engines)
    for verdict in (*judged.verdicts, *judged.warming):
        if verdict.trial == record.trial:
            return verdict
    raise UsageError(f"trial {record.trial} is not part of run {record.run}")


def _refs(verdict: TrialVerdict) -> list[str]:
    refs = [verdict.outcome.key_line, *verdict.outcome.refs]
    for factor in verdict.applied.factors.values():
        refs += factor.refs
    return [ref for ref in refs if ref]


def _excerpts(store: Store, record: TrialRecord, refs: list[str]) -> dict[str, str]:
    """The text of each line ref, read once a source."""
    wanted: dict[str, dict[int, str]] = {}
    for ref in refs:
        source, line, _, _ = parse_ref(ref)
        if line is not None:
            wanted.setdefault(source, {})[line] = ref
    texts: dict[str, str] = {}
    for evidence in record.evidence:
        numbers = wanted.get(evidence.id)
        if numbers:
            for found in lines(store.read_blob(evidence.sha256), evidence.cut):
                if found.number in numbers:
                    texts[numbers[found.number]] = visible(found.text)
    return {ref: texts[ref] for ref in refs if ref in texts}
