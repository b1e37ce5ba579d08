"""SIGKILL of the whole harness at any moment leaves no process; so does SIGKILL of the launcher, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from act_helpers import PATIENT, SERVER, Shelf, carriers, named, wait_until

from stillruns.act import orphans, trial
from stillruns.act.environment import build, harness_identity
from stillruns.act.launcher import children
from stillruns.act.processes import environment
from stillruns.model.trial import TrialPlan

HARNESS = """
    import sys
    from pathlib import Path
    from stillruns.act import trial
    from stillruns.model.evidence import Evidence
    from stillruns.model.spec import Timeouts
    from stillruns.model.trial import TrialPlan

    name, spool, *argv = sys.argv[1:]
    plan = TrialPlan(name, "", "", 0, tuple(argv), {"PATH": "/usr/bin:/bin"}, "/health", "/completion",
                     {"prompt": "x"}, Timeouts(120.0, 120.0, 120.0, 120.0))
    put = lambda kind, content, source: Evidence("", kind, "", 0, source)
    trial.execute(plan, Path(spool), put)
    Path(spool, "finished").touch()
"""


def asked(spool: Path) -> bool:
    """The request is on its way."""
    return (spool / "start0/response").exists()


def answering(spool: Path) -> bool:
    """The first bytes of the answer have come."""
    body = spool / "start0/response"
    return body.exists() and body.stat().st_size > 0


MOMENTS: dict[str, tuple[tuple[str, ...], Callable[[int, str, Path], bool]]] = {
    "as the launcher starts": (("hang_load",), lambda pid, name, spool: bool(children(pid))),
    "while it loads": (("early_daemon", "hang_load"), lambda pid, name, spool: len(carriers(name)) >= 3),
    "before it is ready": (("clean_daemon", "never_ready"), lambda pid, name, spool: len(carriers(name)) >= 2),
    "before the first token": (("forks", "hang_first"), lambda pid, name, spool: asked(spool)),
    "between tokens": (("early_daemon", "hang_token"), lambda pid, name, spool: answering(spool)),
    "in teardown": (
        ("deaf", "early_daemon"),
        lambda pid, name, spool: (spool / "start0/cwd/sigterm").exists(),
    ),
}
"""Moment -> the server's manners, and how to see that the moment has come."""


SERVE = (sys.executable, "-I", "-S", str(SERVER), "{port}")


def start_harness(name: str, spool: Path, manners: tuple[str, ...]) -> subprocess.Popen[bytes]:
    spool.mkdir()
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HARNESS), name, spool, *SERVE, *manners],
        env={**os.environ, "PYTHONPATH": str(Path(trial.__file__).parents[2])},
    )


@pytest.mark.loopback()
@pytest.mark.parametrize("moment", MOMENTS)
def test_sigkill_of_the_harness(moment: str, tmp_path: Path) -> None:
    """Six moments: soon after no process of the trial lives, whatever it had forked (by themselves they would sleep
    for ten minutes)."""
    manners, reached = MOMENTS[moment]
    name = f"killed-{os.getpid()}-{moment.replace(' ', '-')}"
    harness = start_harness(name, tmp_path / "spool", manners)
    try:
        assert wait_until(lambda: reached(harness.pid, name, tmp_path / "spool")), "the moment never came"
        assert not (tmp_path / "spool/finished").exists()
    finally:
        harness.kill()
        harness.wait()
    assert wait_until(lambda: not carriers(name)), f"left over: {carriers(name)}"
    assert wait_until(lambda: not named(name)), "a daemon without the marker is left"


@pytest.mark.loopback()
def test_ctrl_c(tmp_path: Path) -> None:
    """Ctrl-C leaves the harness as KeyboardInterrupt, with everything below it gone before."""
    name = f"interrupted-{os.getpid()}"
    harness = start_harness(name, tmp_path / "spool", ("early_daemon", "hang_first"))
    assert wait_until((tmp_path / "spool/start0/response").exists)
    harness.send_signal(signal.SIGINT)
    assert harness.wait(120) == -signal.SIGINT
    assert carriers(name) == []


@pytest.mark.loopback()
def test_sigkill_of_the_launcher(tmp_path: Path, shelf: Shelf) -> None:
    """The server dies with its launcher, the daemons come to the harness and are swept; the record says it."""
    name = f"launcher-{os.getpid()}"
    argv = (*SERVE, "early_daemon", "clean_daemon", "hang_first")
    plan = TrialPlan(name, "", "", 0, argv, build(os.environ), "/health", "/completion", {"prompt": "x"}, PATIENT)

    def kill_launcher() -> None:
        wait_until((tmp_path / "spool/start0/response").exists)
        for pid in children(os.getpid()):
            if environment(pid).get("STILLRUNS_TRIAL") == name:
                os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_launcher)
    killer.start()
    record = trial.execute(plan, tmp_path / "spool", shelf.put)
    killer.join()
    assert record.end is not None and record.end.signal == "SIGKILL" and record.end.stopped_by_us == "SIGKILL"
    assert record.end.orphans_killed >= 1
    assert any("launcher was killed" in note for note in record.notes)
    assert carriers(name) == []
    assert named(name) == [], "a daemon that was seen below the launcher is left"


def test_survivors_of_a_dead_harness_are_found(tmp_path: Path) -> None:
    """When harness and launcher are killed together, the next run finds what is left by its marker, and only that."""
    name = f"survivor-{os.getpid()}"
    dead = subprocess.Popen([sys.executable, "-c", "pass"])
    dead.wait()
    namespace = harness_identity().rsplit(":", 1)[1]
    env = {"PATH": "/usr/bin:/bin", "STILLRUNS_TRIAL": name}
    left = subprocess.Popen(["sleep", "601"], env={**env, "STILLRUNS_HARNESS": f"{dead.pid}:1:{namespace}"})
    reused = subprocess.Popen(["sleep", "601"], env={**env, "STILLRUNS_HARNESS": f"{os.getpid()}:1:{namespace}"})
    watched = subprocess.Popen(["sleep", "601"], env={**env, "STILLRUNS_HARNESS": harness_identity()})
    foreign = subprocess.Popen(["sleep", "601"], env={**env, "STILLRUNS_HARNESS": f"{dead.pid}:1:17"})
    try:
        assert wait_until(lambda: len(carriers(name)) == 4)
        found = [orphan for orphan in orphans.find() if orphan.trial == name]
        assert [orphan.pid for orphan in found] == sorted([left.pid, reused.pid])
        assert found[0].command == "sleep 601"
        assert orphans.kill(tuple(found)) == ()
        assert left.wait(60) == reused.wait(60) == -signal.SIGKILL
        assert watched.poll() is None and foreign.poll() is None
    finally:
        for process in (left, reused, watched, foreign):
            process.kill()
            process.wait()
