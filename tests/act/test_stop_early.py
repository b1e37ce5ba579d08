"""The promise: Ctrl-C ends the user's own command at once, whatever it is waited for, and is no failure of it."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from stillruns.act.asking import Ask
from stillruns.act.ports import free_port
from stillruns.act.trial import supervise
from stillruns.judge.trials.outcome import judge
from stillruns.lab.running import shelf
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.outcome import OutcomeKind
from stillruns.store.opening import open_store

NOTHING = Absence(AbsenceReason.NOT_COLLECTED)


def test_stopped_while_it_loads(tmp_path: Path) -> None:
    """A server that is not ready yet: stopped within a second, outcome interrupted."""
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    ask = Ask(free_port(), "/health", "/completion", {"prompt": "x"})
    began = time.monotonic()
    with open_store(tmp_path / "store") as store:
        record = supervise(
            ["sleep", "60"], dict(os.environ), store.spool("t"), shelf(store), trial="t", ask=ask, stop=stop
        )
    assert time.monotonic() - began < 10
    assert "interrupted" in record.notes
    assert judge(record, NOTHING, NOTHING).kind is OutcomeKind.INTERRUPTED


def test_the_address_of_each_loopback() -> None:
    """IPv6 addresses stand in brackets."""
    assert Ask(80, "/", "/", {}).address == "http://127.0.0.1:80"
    assert Ask(80, "/", "/", {}, "::1").address == "http://[::1]:80"
