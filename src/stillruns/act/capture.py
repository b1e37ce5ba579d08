"""Bounded capture of a server's streams into files.

Each stream keeps its first HEAD and its last TAIL bytes; what lies between is dropped and counted, and reading never
stops, so a server that floods its log is slowed down by the disk at most. The tail is a ring in the file: memory use
does not depend on the stream.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from pathlib import Path

from stillruns.model.evidence import Cut

HEAD = 16 << 20
TAIL = 48 << 20
"""64 MiB a stream in all (DESIGN, rule 6)."""

LAST_READS = 8
"""Pieces of at most 256 KiB that are still read from a pipe when the time is over: more than it can hold."""

Echo = Callable[[str, bytes], None]
"""Called in the reading thread with the stream's name and each piece, to show it while it runs; must not raise."""


class Spool:
    """One stream in one file. Not for use by several threads at once."""

    def __init__(self, path: Path, head: int = HEAD, tail: int = TAIL) -> None:
        self.path = path
        self.total = 0
        self.problem = ""
        """Empty, or one sentence: what could not be kept and why."""
        self._head, self._tail = head, tail
        self._finished = False
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def write(self, data: bytes) -> None:
        """Append; a disk that refuses is noted, and the stream goes on unread into nothing."""
        rest = memoryview(data)
        while rest:
            room = self._head + self._tail - self.total
            position = self.total
            if room <= 0:
                position = self._head + (self.total - self._head) % self._tail
                room = self._head + self._tail - position
            piece = rest[:room]
            if not self.problem:
                try:
                    done = 0
                    while done < len(piece):
                        done += os.pwrite(self._fd, piece[done:], position + done)
                except OSError as error:
                    self.problem = f"{self.path.name} is incomplete from byte {self.total} on: {error.strerror}"
            self.total += len(piece)
            rest = rest[len(piece) :]

    def finish(self) -> Cut | None:
        """Put the ring in order and close. Returns the cut, or None when everything was kept; may be called again."""
        capacity = self._head + self._tail
        if not self._finished:
            self._finished = True
            if self.total > capacity and not self.problem:
                try:
                    self._unroll()
                except OSError as error:
                    self.problem = f"{self.path.name} could not be put in order: {error.strerror}"
            os.close(self._fd)
        if self.total <= capacity:
            return None
        return Cut(head=self._head, dropped=self.total - capacity)

    def _unroll(self) -> None:
        pivot = self._head + (self.total - self._head) % self._tail
        if pivot == self._head:
            return
        whole = self.path.with_suffix(self.path.suffix + ".whole")
        end = self._head + self._tail
        with whole.open("wb") as out:
            for first, last in ((0, self._head), (pivot, end), (self._head, pivot)):
                while first < last:
                    piece = os.pread(self._fd, min(1 << 20, last - first), first)
                    out.write(piece)
                    first += len(piece)
        whole.replace(self.path)

    def early(self, limit: int = 1 << 18) -> bytes:
        """The first bytes in the file, at most `limit`."""
        with self.path.open("rb") as file:
            return file.read(min(limit, self._head))


class Pump:
    """A thread that reads pipes into spools until their writers have closed them, or `stop` gives up on them."""

    def __init__(self, echo: Echo | None = None) -> None:
        self._echo = echo
        self._spools: dict[int, tuple[str, Spool]] = {}
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._work, name="stillruns-capture", daemon=True)
        self._stop_at: float | None = None

    def pipe(self, name: str, spool: Spool) -> int:
        """A new pipe into `spool`: returns its writing end, which the caller closes after giving it to the child."""
        read, write = os.pipe()
        os.set_blocking(read, False)
        self._spools[read] = (name, spool)
        return write

    def start(self) -> None:
        """Begin to read. No pipe can be added after this."""
        self._thread.start()

    def stop(self, seconds: float) -> list[str]:
        """Wait up to `seconds` for the streams' ends; returns the names of those still held open by some process."""
        self._stop_at = time.monotonic() + seconds
        os.write(self._wake_write, b"x")
        if self._thread.ident is not None:
            self._thread.join()
        held = [name for name, _ in self._spools.values()]
        for fd in (*self._spools, self._wake_read, self._wake_write):
            os.close(fd)
        self._spools.clear()
        return held

    def _work(self) -> None:
        poll = select.poll()
        for fd in (*self._spools, self._wake_read):
            poll.register(fd, select.POLLIN)
        while self._spools:
            left = None if self._stop_at is None else max(0.0, self._stop_at - time.monotonic())
            ready = [fd for fd, _ in poll.poll(None if left is None else left * 1000)]
            if self._wake_read in ready:
                poll.unregister(self._wake_read)
            for fd in ready:
                if fd in self._spools and not self._move(fd):
                    poll.unregister(fd)
                    os.close(fd)
                    del self._spools[fd]
            if self._stop_at is not None and time.monotonic() >= self._stop_at:
                self._rest()
                break

    def _rest(self) -> None:
        """What is in the pipes when the time is over, so that none counts as held open because we came late."""
        for fd in list(self._spools):
            if not all(self._move(fd) for _ in range(LAST_READS)):
                os.close(fd)
                del self._spools[fd]

    def _move(self, fd: int) -> bool:
        """Read once; false at the end of the stream."""
        try:
            data = os.read(fd, 1 << 18)
        except BlockingIOError:
            return True
        if not data:
            return False
        name, spool = self._spools[fd]
        spool.write(data)
        if self._echo is not None:
            self._echo(name, data)
        return True
