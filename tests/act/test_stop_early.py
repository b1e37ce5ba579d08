"""The promise: Ctrl-C ends the user's own command at once, whatever it is waited for, and is no failure of it."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from act_helpers import SOON

from stillruns.act.asking import Ask
from stillruns.act.ports import free_port
from stillruns.act.trial import supervise
from stillruns.judge.trials.outcome import judge
from stillruns.lab.runs.shelving import shelf
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.outcome import OutcomeKind
from stillruns.store.opening import open_store

NOTHING = Absence(AbsenceReason.NOT_COLLECTED)


@pytest.mark.loopback()
@pytest.mark.parametrize("after", [0.0, 0.5])
def test_stopped_while_it_loads(tmp_path: Path, after: float) -> None:
    """A server that is not ready yet: stopped long before it would end by itself, outcome interrupted; the same when
    the stop comes before it is even started."""
    stop = threading.Event()
    threading.Timer(after, stop.set).start()
    ask = Ask(free_port(), "/health", "/completion", {"prompt": "x"})
    began = time.monotonic()
    with open_store(tmp_path / "store") as store:
        record = supervise(
            ["sleep", "600"], dict(os.environ), store.spool("t"), shelf(store), trial="t", ask=ask, stop=stop
        )
    assert time.monotonic() - began < SOON
    assert "interrupted" in record.notes
    assert judge(record, NOTHING, NOTHING).kind is OutcomeKind.INTERRUPTED


def test_the_address_of_each_loopback() -> None:
    """IPv6 addresses stand in brackets."""
    assert Ask(80, "/", "/", {}).address == "http://127.0.0.1:80"
    assert Ask(80, "/", "/", {}, "::1").address == "http://[::1]:80"
