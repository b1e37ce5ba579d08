"""Survivors of a harness that was killed together with its launchers.

Every process of a trial carries STILLRUNS_TRIAL and STILLRUNS_HARNESS in its environment. Whoever carries them while
the harness that they name is gone is left over from a trial that nobody watches any more.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from stillruns.act.environment import HARNESS, TRIAL
from stillruns.act.processes import environment, over, pid_namespace, start_ticks


@dataclass(frozen=True, slots=True)
class Orphan:
    """A process of trial `trial` whose harness is dead; `command` is its command line, cut at 200 characters."""

    pid: int
    trial: str
    command: str


def find() -> tuple[Orphan, ...]:
    """All orphans that we may see. A harness in another pid namespace cannot be judged: its processes are left."""
    found = []
    ours = os.getpid()
    for path in Path("/proc").iterdir():
        if not path.name.isdigit() or int(path.name) == ours:
            continue
        pid = int(path.name)
        env = environment(pid)
        if TRIAL in env and _dead(env.get(HARNESS, "")) and not over(pid):
            found.append(Orphan(pid, env[TRIAL], _command(pid)))
    return tuple(sorted(found, key=lambda orphan: orphan.pid))


def _dead(harness: str) -> bool:
    """Whether the harness `PID:START:NAMESPACE` is gone; false whenever that is not certain."""
    words = harness.split(":")
    if len(words) != 3 or not words[0].isdigit() or not words[1].isdigit() or words[2] != pid_namespace():
        return False
    started = start_ticks(int(words[0]))
    if started is None:
        return not Path(f"/proc/{words[0]}").exists()
    return started != int(words[1]) or over(int(words[0]))


def _command(pid: int) -> str:
    try:
        data = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return data.replace(b"\0", b" ").decode("utf-8", "replace").strip()[:200]


def kill(orphans: tuple[Orphan, ...], patience: float = 5.0) -> tuple[Orphan, ...]:
    """SIGKILL them; returns those that still live after `patience` seconds (uninterruptible, or not ours to kill).

    Each is looked at again first: a pid may have passed to somebody else.
    """
    for orphan in orphans:
        if environment(orphan.pid).get(TRIAL) == orphan.trial:
            with contextlib.suppress(OSError):
                os.kill(orphan.pid, signal.SIGKILL)
    deadline = time.monotonic() + patience
    left = orphans
    while left and time.monotonic() < deadline:
        left = tuple(orphan for orphan in left if _lives(orphan))
        if left:
            time.sleep(0.02)
    return left


def _lives(orphan: Orphan) -> bool:
    return not over(orphan.pid) and environment(orphan.pid).get(TRIAL) == orphan.trial


def sweep() -> tuple[tuple[Orphan, ...], tuple[Orphan, ...]]:
    """Find and kill, until a look finds no more: (all that were found, those that would not die)."""
    every: dict[int, Orphan] = {}
    left: tuple[Orphan, ...] = ()
    for _ in range(5):
        found = find()
        every |= {orphan.pid: orphan for orphan in found}
        left = kill(found) if found else ()
        if not found or left:
            break
    return tuple(every.values()), left
