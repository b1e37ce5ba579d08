"""A process that even SIGKILL does not end (a driver that hangs in the kernel) is given up in bounded time, and told.

A frozen cgroup (v1) is the one way to get such a process without a broken driver: a kill waits until it is thawed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from act_helpers import SERVER, SOON, carriers, wait_until

from stillruns.act.asking import Ask
from stillruns.act.environment import build, marked
from stillruns.act.launcher import children
from stillruns.act.life import Job, Life
from stillruns.act.ports import free_port
from stillruns.act.subreaper import subreaper
from stillruns.model.spec import Timeouts


@pytest.fixture
def freezer() -> Iterator[Path]:
    """A freezer cgroup of our own."""
    group = Path(f"/sys/fs/cgroup/freezer/stillruns-test-{os.getpid()}")
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no freezer cgroup (v1) can be made here: {error.strerror}")
    yield group
    (group / "freezer.state").write_text("THAWED")
    assert wait_until(lambda: not (group / "cgroup.procs").read_text().strip())
    group.rmdir()


@pytest.mark.slow()
def test_given_up(freezer: Path, tmp_path: Path) -> None:
    """Neither exit status nor signal: the record says that it could not be killed, and the harness goes on."""
    name, port = f"frozen-{os.getpid()}", free_port()
    job = Job(
        argv=(sys.executable, "-I", "-S", str(SERVER), str(port), "hang_first"),
        env=marked(build(os.environ), name),
        timeouts=Timeouts(load=120.0, first_token=5.0, token=120.0, teardown=0.3),
        ask=Ask(port, "/health", "/completion", {}),
        reap_seconds=0.5,
    )
    life = Life(job, tmp_path)

    def freeze() -> None:  # the server answers after ten minutes: it is frozen long before its first token is due
        wait_until((tmp_path / "response").exists)
        for launcher in children(os.getpid()):
            for pid in children(launcher):
                (freezer / "cgroup.procs").write_text(str(pid))
        (freezer / "freezer.state").write_text("FROZEN")

    thread = threading.Thread(target=freeze)
    thread.start()
    began = time.monotonic()
    with subreaper():
        seen = life.run()
    thread.join()
    assert time.monotonic() - began < SOON
    assert seen.end is not None
    assert (seen.end.exit_status, seen.end.signal, seen.end.stopped_by_us) == (None, None, "SIGKILL")
    assert seen.timed_out == "first_token"
    assert any("could not be killed" in note for note in seen.notes)
    left = carriers(name)
    assert len(left) == 1
    (freezer / "freezer.state").write_text("THAWED")
    assert wait_until(lambda: not carriers(name))
    os.waitpid(left[0], os.WNOHANG)
