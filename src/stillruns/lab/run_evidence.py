"""What the store's runs say about targets: applied trials that passed and failed."""

from __future__ import annotations

from stillruns.errors import StillrunsError
from stillruns.lab import judging, reading
from stillruns.model.absence import Absence
from stillruns.model.backend import Backend
from stillruns.model.machine import RunEvidence
from stillruns.store.store import Store
from stillruns.store.view import decode_trial

MOST_RUNS = 5


def collect(store: Store) -> tuple[RunEvidence, ...]:
    """The newest runs' applied trials by backend and target; a run that cannot be judged is passed over."""
    found: list[RunEvidence] = []
    for summary in store.runs()[-MOST_RUNS:]:
        try:
            found += _run(store, summary.run)
        except StillrunsError:
            continue
    return tuple(found)


def _run(store: Store, run: str) -> list[RunEvidence]:
    opening = judging.first_record(store, run)
    if "spec" not in opening:
        return []
    result = judging.judge_run(store, run)
    counts: dict[tuple[str, str], list[int]] = {}
    for record in store.records(run=run, kind="trial_ended"):
        trial = decode_trial(record.body["record"])
        verdict = next((v for v in result.verdicts if v.trial == trial.trial), None)
        if verdict is None or not verdict.counts:
            continue
        facts = reading.read(store, trial).facts
        if isinstance(facts, Absence):
            continue
        used = [device for device in facts.devices if device.used] or list(facts.devices[:1])
        backend = used[0].backend if used else Backend.CPU
        target = used[0].target or "" if used else "cpu"
        pair = counts.setdefault((backend.value, target), [0, 0])
        pair[0 if verdict.passed else 1] += 1
    return [RunEvidence(b, t.partition(":")[0], n[0], n[1], run, "") for (b, t), n in counts.items()]
