"""Every verdict of a store, recomputed from its evidence, as bytes that are the same on every machine.

A run's verdicts are its trials' verdicts, its cells and its claims in the canonical form of store/ids.py (numbers to
six digits, keys sorted). `run_ended` records their digest and this program's version; replay says whether they come
to the same today. Where they do not, a newer parser or judge reads the same evidence otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from stillruns.errors import StillrunsError
from stillruns.lab import once
from stillruns.lab.runs import judging, verdict_digest
from stillruns.lab.studies import studying
from stillruns.store.ids import canonical, sha256_of
from stillruns.store.store import Store
from stillruns.store.view import decode_trial


@dataclass(frozen=True, slots=True)
class Replayed:
    """One run: its verdicts in canonical form and their digest. `recorded` is the digest that stands in the journal
    (empty where none does), `by` the version that recorded it; `failed` says why it could not be judged."""

    run: str
    form: str
    sha256: str
    verdicts: bytes
    recorded: str = ""
    by: str = ""
    failed: str = ""

    @property
    def same(self) -> bool | None:
        """Whether it came to what is on record; None where nothing is."""
        return self.sha256 == self.recorded if self.recorded else None


def replay(store: Store, runs: tuple[str, ...] = ()) -> tuple[Replayed, ...]:
    """All runs of a store, or those named, oldest first. One that cannot be judged is reported, not raised."""
    studies = {run: name for name, members in studying.names(store).items() for run in members}
    found = []
    for summary in store.runs():
        if not runs or summary.run in runs:
            found.append(_one(store, summary.run, studies))
    return tuple(found)


def _one(store: Store, run: str, studies: dict[str, str]) -> Replayed:
    body = judging.first_record(store, run)
    form = str(body.get("form") or "matrix")
    try:
        verdicts = canonical(_judged(store, run, form, studies))
    except (StillrunsError, msgspec.ValidationError, KeyError, TypeError) as error:
        return Replayed(run, form, "", b"", failed=f"{type(error).__name__}: {error}")
    recorded = by = ""
    for ended in store.records(run=run, kind="run_ended"):
        recorded = str(ended.body.get("verdicts_sha256", ""))
        by = str(ended.body.get("version", ""))
    return Replayed(run, form, sha256_of(verdicts), verdicts, recorded, by)


def _judged(store: Store, run: str, form: str, studies: dict[str, str]) -> object:
    if run in studies:
        return verdict_digest.of_study(studying.judge(store, studies[run], [run]))
    if form == "once":
        records = [decode_trial(r.body["record"]) for r in store.records(run=run, kind="trial_ended")]
        body = judging.first_record(store, run)
        return verdict_digest.of_once([once.judged(store, r, body)[0] for r in records])
    return verdict_digest.plain(judging.judge_run(store, run))
