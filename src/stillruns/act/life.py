"""One server's life: start, ready, its requests, end. What was seen, no judgement."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from stillruns import proc
from stillruns.act import core_file, ports, processes
from stillruns.act.asking import Ask, Asking, Heard
from stillruns.act.capture import Echo, Pump, Spool
from stillruns.act.sampling import Sampler, readers
from stillruns.act.supervised import REAP_SECONDS, Supervised
from stillruns.act.wire import Peer
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.process import CoreResult, ProcessEnd
from stillruns.model.spec import Timeouts

POLL = 0.02
"""Seconds between looks at a server that is not ready; later a fiftieth of the time that it has taken so far."""
DRAIN = 2.0
"""Seconds to read on when the server has ended but something still holds its pipes."""
HUNG_GRACE = 5.0
"""Most seconds that a server which already missed a deadline gets between SIGTERM and SIGKILL."""
REST = 0.5
"""Most seconds that a server which has answered gets to come to rest before SIGTERM."""
MOST_MAPS = 8
"""Processes of one trial whose maps are read."""
MOST_COMMANDS = 256
"""Command lines of one trial that are kept."""
WATCHED_GAP = 1.0
"""Most seconds between looks at what a command starts: it may start one program after another."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to start and how long to wait; `env` is the whole environment, the marker included.

    `cwd` None is a private folder in the spool. `ask` None: no request, wait for the end or for `stop`.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    timeouts: Timeouts
    ask: Ask | None
    keep_core: bool = True
    sample_devices: tuple[str, ...] = ()
    cwd: Path | None = None
    stop: threading.Event | None = None
    seconds: float | None = None
    echo: Echo | None = None
    reap_seconds: float = REAP_SECONDS
    keep_commands: bool = False
    """Whether the command lines of what the command starts are kept: a wrapper says nothing of what it runs. One that
    several processes had is kept twice."""


@dataclass(slots=True)
class Seen:
    """What was seen of one life; times in seconds since the server's start."""

    started_utc: str = ""
    ready_at: float | None = None
    stop_sent_at: float | None = None
    ended_at: float = 0.0
    timed_out: str = ""
    lost_port: bool = False
    libraries: set[str] = field(default_factory=set)
    commands: list[tuple[str, ...]] = field(default_factory=list)
    maps: bytes = b""
    maps_at: float | None = None
    heard: Heard | None = None
    zero: float = 0.0
    end: ProcessEnd | None = None
    core: CoreResult = field(default_factory=lambda: Absence(AbsenceReason.NOT_COLLECTED, "the trial never started"))
    core_path: Path | None = None
    samples: bytes = b""
    notes: list[str] = field(default_factory=list)


def utc_now() -> str:
    """The time now, UTC, ISO 8601 with milliseconds and Z."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Life:
    """Runs one job in `folder`, an empty folder of its own."""

    def __init__(self, job: Job, folder: Path) -> None:
        self.job = job
        self.folder = folder
        self.seen = Seen()
        self.cwd = job.cwd or folder / "cwd"
        self.cwd.mkdir(parents=True, exist_ok=True)
        self.stdout = Spool(folder / "stdout")
        self.stderr = Spool(folder / "stderr")
        self._owner_seen = False
        self._met: set[tuple[int, int | None, tuple[str, ...]]] = set()

    def run(self) -> Seen:
        """From start to end. On return (also by an exception) no process of it lives, save unkillable ones."""
        seen, job = self.seen, self.job
        cores_before = core_file.those_in(self.cwd)
        pump = Pump(job.echo)
        out, err = pump.pipe("stdout", self.stdout), pump.pipe("stderr", self.stderr)
        sampler = Sampler(readers(job.sample_devices))
        seen.started_utc = utc_now()
        server: Supervised | None = None
        try:
            try:
                server = Supervised(
                    job.argv, job.env, self.cwd, out, err, keep_core=job.keep_core, reap_seconds=job.reap_seconds
                )
            finally:
                os.close(out)
                os.close(err)
            seen.zero = server.started
            sampler.start()
            pump.start()
            with server:
                self._live(server)
        finally:
            held = pump.stop(DRAIN if server is not None else 0.0)
            seen.samples, note = sampler.stop() if server is not None else (b"", "")
            self.stdout.finish()
            self.stderr.finish()
        if note:
            seen.notes.append(note)
        seen.notes += [f"{name} was still held open by some process and is cut at the end" for name in held]
        self._settle(server, cores_before)
        return seen

    def _live(self, server: Supervised) -> None:
        if self.job.ask is None:
            self._wait(server)
        else:
            with_peer = Peer(self.job.ask.address)
            try:
                ready = self._until_ready(server, with_peer, self.job.ask)
            finally:
                with_peer.close()
            if ready:
                self._ask(server, self.job.ask)
        grace = self.job.timeouts.teardown
        if self.seen.timed_out:
            grace = min(grace, HUNG_GRACE)
        if not server.stop(grace) and not self.seen.timed_out:
            self.seen.timed_out = "teardown"

    def _wait(self, server: Supervised) -> None:
        """No request to make: wait for the end, for `stop`, or for the time to be over."""
        deadline = server.started + (self.job.seconds if self.job.seconds is not None else float("inf"))
        look = _Looks(server.started, WATCHED_GAP)
        while server.alive() and time.monotonic() < deadline:
            if self.job.stop is not None and self.job.stop.is_set():
                self._look_at_maps(server)  # the last chance to see what it has started
                return
            if look.due():
                self._look_at_maps(server)
            server.wait(0.1)

    def _until_ready(self, server: Supervised, peer: Peer, ask: Ask) -> bool:
        deadline = server.started + self.job.timeouts.load
        look = _Looks(server.started)
        listening = False
        while server.alive():
            now = time.monotonic()
            if self._interrupted():
                return False
            if now >= deadline:
                self.seen.timed_out = "load"
                return False
            if look.due():
                self._look_at_maps(server)
            if not listening and peer.listening():
                listening = True
                if self._stranger(server, ask):
                    return False
            if listening and peer.get(ask.ready_path, min(1.0, deadline - now + 0.1)).status == 200:
                return self._is_ours(server, ask)
            server.wait(min(0.25, max(POLL, (now - server.started) / 50)))
        return False

    def _stopped_at(self) -> float | None:
        """Ctrl-C ends the wait for an answer as the server's death does: a moment that has passed, else None."""
        return 0.0 if self.job.stop is not None and self.job.stop.is_set() else None

    def _interrupted(self) -> bool:
        """Whether `stop` was set before the answer was there; noted then, so that nobody takes it for a failure."""
        if self._stopped_at() is None:
            return False
        self.seen.notes.append("interrupted")
        return True

    def _stranger(self, server: Supervised, ask: Ask) -> bool:
        """Whether somebody else listens on our port, alone or beside us; the port then counts as lost."""
        owner = ports.owner_is(ask.port, server.launcher.pid)
        self.seen.lost_port = owner is False and Path(self.job.argv[0]).name not in ports.CONTAINERS
        self._owner_seen = owner is True
        return self.seen.lost_port

    def _is_ours(self, server: Supervised, ask: Ask) -> bool:
        """Somebody is ready on the port; take it only when it is our server."""
        if self._stranger(server, ask):
            return False
        if not self._owner_seen:
            self.seen.notes.append("whose the server's socket is could not be seen (a container, or no permission)")
        self.seen.ready_at = time.monotonic() - server.started
        self._look_at_maps(server)
        return True

    def _ask(self, server: Supervised, ask: Ask) -> None:
        """All requests, as long as each is answered."""

        def over() -> float | None:
            return server.end.at if server.end is not None else self._stopped_at()

        asking = Asking(ask, ask.address, self.folder, self.job.timeouts, over)
        self.seen.heard = asking.heard
        if not asking.run().asked:
            self.seen.notes.append("no request could be made: the texts have too few tokens")
            return
        last = self.seen.heard.asked[-1].told
        if last.broken:
            self._interrupted()
        self.seen.timed_out = last.timed_out
        if last.broken:
            server.wait_if_dying(1.0)
        if server.alive():
            self._look_at_maps(server)
            server.rest(REST)

    def _look_at_maps(self, server: Supervised) -> None:
        """Keep the newest maps of the server and what runs below it, and every shared object ever seen."""
        family = server.family()
        if self.job.keep_commands:
            self._keep_commands(family)
        texts = [processes.mapped(pid) for pid in family[:MOST_MAPS]]
        whole = b"".join(texts)
        if whole:
            self.seen.maps, self.seen.maps_at = whole, time.monotonic() - server.started
            self.seen.libraries |= processes.shared_objects(whole)

    def _keep_commands(self, family: list[int]) -> None:
        """The command line of every process that was seen, in the order in which they were, the same at most twice. A
        child that has its parent's is a fork on its way to a program of its own (a debugger, say)."""
        kept = self.seen.commands
        for pid in family:
            words = processes.command_line(pid)
            met = (pid, processes.start_ticks(pid), words)
            if not words or met in self._met or len(kept) >= MOST_COMMANDS:
                continue
            self._met.add(met)
            stat = processes.state_and_parent(pid)
            if kept.count(words) < 2 and (stat is None or processes.command_line(stat[1]) != words):
                kept.append(words)

    def _settle(self, server: Supervised, cores_before: core_file.Before) -> None:
        """After the end: how it ended, its core, its streams."""
        seen, end = self.seen, server.end
        ended_at = end.at if end is not None else time.monotonic()
        seen.ended_at = ended_at - server.started
        if server.stop_sent_at is not None:
            seen.stop_sent_at = server.stop_sent_at - server.started
        by_itself = end is not None and server.stop_sent_at is not None and end.at < server.stop_sent_at
        status, name, dumped = proc.split_status(end.status) if end is not None else (None, None, False)
        seen.end = ProcessEnd(
            exit_status=status,
            signal=name,
            core_dumped=dumped,
            stopped_by_us=None if by_itself else server.stopped_by,
            seconds=seen.ended_at,
            cpu_seconds=end.cpu_seconds if end is not None else 0.0,
            max_rss_kib=end.max_rss_kib if end is not None else 0,
            orphans_killed=server.orphans_killed,
        )
        if end is None:
            seen.notes.append("the server could not be killed: it sits in an uninterruptible call of the kernel")
        elif server.unkillable:
            seen.notes.append(f"{server.unkillable} processes of the trial could not be killed")
        if server.lost:
            seen.notes.append("the launcher was killed from outside, and the server with it")
        self._read_core(server.pid, name, cores_before)
        if seen.ready_at is None and end is not None and server.stopped_by is None and status:
            text = self.stdout.early() + self.stderr.early()
            seen.lost_port = seen.lost_port or bool(ports.BIND_FAILED.search(text))

    def _read_core(self, pid: int, signal_name: str | None, before: core_file.Before) -> None:
        by_itself = signal_name is None and self.job.keep_core
        child = core_file.left_by_a_child(self.cwd, pid, before) if by_itself else None
        if child is not None:
            self.seen.core, self.seen.core_path = core_file.notes(child), child
            return
        if signal_name is None or signal_name in ("SIGTERM", "SIGKILL"):
            self.seen.core = Absence(AbsenceReason.NOT_COLLECTED, "the server did not end by a crash")
            return
        if not self.job.keep_core:
            self.seen.core = Absence(AbsenceReason.NOT_COLLECTED, "no core was asked for")
            return
        found = core_file.find(self.cwd, pid, before)
        if isinstance(found, Absence):
            self.seen.core = found
            return
        self.seen.core = core_file.notes(found)
        self.seen.core_path = found


class _Looks:
    """When to look at the maps of a loading server: often at first, then ever less; a look costs a millisecond."""

    def __init__(self, started: float, most: float = 10.0) -> None:
        self._next = started + 0.05
        self._gap = 0.1
        self._most = most

    def due(self) -> bool:
        """Whether it is time; counts as a look when it is."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self._gap
        self._gap = min(self._gap * 2, self._most)
        return True
