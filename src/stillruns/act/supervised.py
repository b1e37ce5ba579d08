"""The harness's end of the launcher: one server process, started, watched, ended and swept."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stillruns import proc
from stillruns.act import processes
from stillruns.act.environment import TRIAL
from stillruns.errors import EnvironmentLacks

LAUNCHER = Path(__file__).with_name("launcher.py")
CORE_LIMIT = 64 << 20
"""Soft limit of a core file in bytes; the notes come first, so a cut core still tells the crash."""
CORE_FILTER = "0x10"
"""Memory in a core: ELF headers only (core(5)). A GPU process maps tens of GB; registers are notes, not memory."""
REAP_SECONDS = 5.0
"""How long a killed process may take to die before it is given up as unkillable."""

EXIT_SECONDS = 10.0
"""How long a launcher that has reported may take to end, on a busy machine; it takes a hundredth of one."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The server's raw wait status, its own resource use, and when (monotonic clock, seconds)."""

    status: int
    cpu_seconds: float
    max_rss_kib: int
    at: float


class Supervised:
    """A server below a launcher. Use as a context manager: leaving the block kills what still lives."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        out: int,
        err: int,
        *,
        keep_core: bool = True,
        reap_seconds: float = REAP_SECONDS,
    ) -> None:
        """Start it with `out` and `err` as its stdout and stderr. Raises EnvironmentLacks when it cannot start."""
        self.end: Ended | None = None
        self.lost = False
        self.orphans_killed = 0
        self.unkillable = 0
        self.stopped_by: str | None = None
        self.stop_sent_at: float | None = None
        self.gone = threading.Event()
        """Set once the server has ended, or the launcher is lost."""
        self._swept = threading.Event()
        self._reap_seconds = reap_seconds
        self._trial = env.get(TRIAL, "")
        self._closed = False
        self._known: dict[int, int | None] = {}
        ours, theirs = socket.socketpair()
        self._control = ours
        with theirs:
            self.launcher = proc.start(
                [sys.executable, "-I", "-S", str(LAUNCHER), str(theirs.fileno()), str(out), str(err)],
                env={**proc.LOCALE, **{name: env[name] for name in env if name.startswith("STILLRUNS_")}},
                cwd="/",
                pass_fds=(theirs.fileno(), out, err),
            )
        self.pid = 0
        try:
            self._send_frame(argv, env, cwd, keep_core)
            self.pid, self.started = self._first_word(argv[0], env, cwd)
        finally:
            if not self.pid:  # a launcher whose socket closes kills what it started and ends
                self._control.close()
                self.launcher.reap(reap_seconds + 1.0)
        self._listener = threading.Thread(target=self._listen, name="stillruns-listener", daemon=True)
        self._listener.start()

    def _send_frame(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, keep_core: bool) -> None:
        limit = CORE_LIMIT if keep_core else 0
        fields = [str(cwd), str(limit), CORE_FILTER, f"{self._reap_seconds:.3f}", str(len(argv)), *argv]
        fields += [f"{name}={value}" for name, value in env.items()]
        if any("\0" in field for field in fields):
            raise EnvironmentLacks("an argument or variable of the server holds a NUL byte; take it out of the spec")
        frame = "\0".join(fields).encode("utf-8", "surrogateescape")
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the first word then tells
            self._control.sendall(b"%010d" % len(frame) + frame)

    def _first_word(self, program: str, env: Mapping[str, str], cwd: Path) -> tuple[int, float]:
        """Wait for `started` or `failed`: (pid, start on the monotonic clock)."""
        self._control.settimeout(30.0)
        line = b""
        with contextlib.suppress(OSError):
            while not line.endswith(b"\n"):
                piece = self._control.recv(1)
                if not piece:
                    break
                line += piece
        words = line.decode().split()
        if words[:1] == ["started"]:
            self._control.setblocking(False)
            return int(words[1]), float(words[2])
        if words[:1] == ["failed"] and not (cwd.is_absolute() and cwd.is_dir()):
            raise EnvironmentLacks(f"{program} cannot be started in {cwd}: that folder is not there; make it again")
        if words[:1] == ["failed"]:
            raise EnvironmentLacks(proc.explain(program, int(words[1]), env))
        raise EnvironmentLacks(
            f"{sys.executable} could not run the launcher {LAUNCHER}; check that both are readable"
        )

    def _listen(self) -> None:
        """Thread: read the launcher's lines until it has closed the socket."""
        pending = b""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        while True:
            poll.poll()
            try:
                data = self._control.recv(4096)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if not data:
                break
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                self._heard(line.decode().split())
        self.lost = not self._swept.is_set()
        self.gone.set()
        self._swept.set()

    def _heard(self, words: list[str]) -> None:
        if words[0] == "ended":
            self.end = Ended(int(words[1]), float(words[2]), int(words[3]), float(words[4]))
            self.gone.set()
        elif words[0] == "swept":
            self.orphans_killed, self.unkillable = int(words[1]), int(words[2])
            self._swept.set()

    def _say(self, word: bytes) -> None:
        with contextlib.suppress(OSError):
            self._control.send(word + b"\n")

    def family(self) -> list[int]:
        """Living processes below the launcher, the server first. Each is remembered with its start, so that it can be
        swept even when the launcher is killed and it has left the server's session and environment."""
        pids = processes.descendants(self.launcher.pid)
        for pid in pids:
            if pid not in self._known:
                self._known[pid] = processes.start_ticks(pid)
        return pids

    def alive(self) -> bool:
        """Whether the server has not ended as far as we know."""
        return not self.gone.is_set()

    def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for the end; true when it has ended."""
        return self.gone.wait(timeout)

    def wait_if_dying(self, timeout: float, core_timeout: float = 60.0) -> bool:
        """After a broken connection: is it dying? Waits longer while the kernel writes its core, and for the word of
        its end, which on a busy machine comes late."""
        deadline = time.monotonic() + timeout
        core_deadline = time.monotonic() + core_timeout
        while not self.gone.wait(0.02):
            now = time.monotonic()
            if now >= deadline and (now >= core_deadline or not self._dying()):
                return False
        return True

    def _dying(self) -> bool:
        return processes.core_dumping(self.pid) or processes.leaving(self.pid)

    def rest(self, most: float) -> None:
        """Wait until the server's first thread sleeps, at most so many seconds.

        llama-server's handler of SIGTERM takes the lock of its task queue (server_queue::terminate, b11434); on the
        thread that holds it just then, tidying up after an answer, it waits for itself for ever. In its sleep the
        lock is free.
        """
        deadline = time.monotonic() + most
        while self.alive() and time.monotonic() < deadline:
            stat = processes.state_and_parent(self.pid)
            if stat is None or stat[0] != "R":
                return
            self.wait(0.001)

    def stop(self, grace: float) -> bool:
        """SIGTERM to the server's group, SIGKILL after `grace` seconds. True when SIGTERM was enough (or it had ended
        by itself)."""
        if self.gone.is_set() or (self._dying() and self.gone.wait(self._reap_seconds)):
            return True  # by itself, also where its end has not been told to us yet
        self.stop_sent_at = time.monotonic()
        if grace > 0:
            self.stopped_by = "SIGTERM"
            self._say(b"term")
            if self.gone.wait(grace):
                return True
        self.stopped_by = "SIGKILL"
        self._say(b"kill")
        self.gone.wait(self._reap_seconds)
        return False

    def close(self) -> None:
        """Kill all that is left, collect the launcher. Afterwards no process of the trial lives, save unkillable
        ones, which are counted."""
        if self._closed:
            return
        self._closed = True
        self._say(b"quit")
        self._swept.wait(self._reap_seconds + 2.0)
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        if self.launcher.reap(EXIT_SECONDS) is None:
            self.lost = True
            self.launcher.signal_group(signal.SIGKILL)
            self.launcher.reap(EXIT_SECONDS)
        self._listener.join(EXIT_SECONDS)
        self._control.close()
        if self.lost:
            self._sweep_without_launcher()

    def _sweep_without_launcher(self) -> None:
        """The launcher was killed: its descendants are our children now. Kill those that belong to this trial."""
        deadline = time.monotonic() + self._reap_seconds
        killed: set[int] = set()
        pause = 0.001
        while True:
            mine = [pid for pid in processes.descendants(os.getpid()) if self._belongs(pid)]
            for pid in mine:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            for pid in killed | {self.pid}:
                self._collect(pid)
            if not mine or time.monotonic() >= deadline:
                break
            time.sleep(pause)
            pause = min(pause * 2, 0.05)
        self.unkillable = len(mine)
        self.orphans_killed = len(killed - {self.pid})

    def _belongs(self, pid: int) -> bool:
        """By having been seen below the launcher, by the marker, or by the server's session."""
        if pid in self._known and self._known[pid] == processes.start_ticks(pid):
            return True
        if pid == self.pid or (self._trial and processes.environment(pid).get(TRIAL) == self._trial):
            return True
        try:
            return os.getsid(pid) == self.pid
        except OSError:
            return False

    def _collect(self, pid: int) -> None:
        """Reap a child that came to us, keeping the server's status."""
        try:
            reaped, status, use = os.wait4(pid, os.WNOHANG)
        except ChildProcessError:
            return
        if reaped == self.pid and self.end is None:
            self.end = Ended(status, use.ru_utime + use.ru_stime, int(use.ru_maxrss), time.monotonic())
            self.stopped_by = self.stopped_by or "SIGKILL"  # by the parent-death signal: no crash of its own

    def __enter__(self) -> Supervised:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
