"""The promise: what was recorded comes back as the same nouns, also from a newer version's records."""

from __future__ import annotations

from pathlib import Path

import pytest
from store_helpers import fill, trial

from stillruns.errors import StoreDamaged
from stillruns.store.opening import open_store
from stillruns.store.view import decode_trial, encode_trial, trials


def test_trials_come_back(tmp_path: Path) -> None:
    """Every field, both kinds of core, absences, text that is no UTF-8."""
    store = open_store(tmp_path / "s")
    run = fill(store)
    expected = tuple(trial(store, run, index, crashed=index % 2 == 1) for index in range(3))
    assert trials(store, run) == expected


def test_newer_records(tmp_path: Path) -> None:
    """Fields that this version does not know are passed over, at any depth."""
    store = open_store(tmp_path / "s")
    record = trial(store, "r", 0)
    plain = encode_trial(record)
    newer = {**plain, "colour": "red", "sighting": {**plain["sighting"], "weather": 1}}  # type: ignore[dict-item]
    assert decode_trial(newer) == record


def test_no_trial(tmp_path: Path) -> None:
    """A record that is no trial is named by its place."""
    store = open_store(tmp_path / "s")
    with store.writer() as writer:
        writer.append("trial_ended", "r", {"record": {"trial": 1}})
    with pytest.raises(StoreDamaged, match="record 0 of w000001"):
        trials(store, "r")
