"""The one place that starts a process.

Each child gets its own session (so its own process group), a locale that prints the same everywhere, a wall-clock
limit and bounded output; its end is read from the kernel with `wait4`, so CPU time and peak memory are that child's
own. Where the kernel (Linux 5.3) or the Python has no pidfd, the end is polled.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from stillruns.errors import EnvironmentLacks

if TYPE_CHECKING:
    import subprocess

PIPE, DEVNULL = -1, -3
"""As in `subprocess`, which is loaded when a process is started: reading a log starts none."""

LOCALE = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "LANGUAGE": "C"}
"""What makes tools print English, UTF-8, and a dot in decimals; `run(locale=False)` leaves it out."""

LIMIT = 8 << 20
"""Bytes of each of stdout and stderr that `run` keeps; the rest is read and dropped."""

_MACHINES = {
    3: "x86",
    21: "ppc64",
    40: "32-bit ARM",
    62: "x86-64",
    183: "aarch64",
    243: "riscv64",
    258: "loongarch64",
}
"""ELF e_machine by name (System V ABI, "e_machine")."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A process that has ended. `status` and `signal` are exclusive; both are None when it could not be reaped.

    `cut` is true when more than `limit` bytes came on a stream; `timed_out` when we ended it. `cpu_seconds` and
    `max_rss_kib` are the kernel's accounting.
    """

    argv: tuple[str, ...]
    status: int | None
    signal: str | None
    stdout: bytes
    stderr: bytes
    timed_out: bool
    seconds: float
    cut: bool = False
    cpu_seconds: float = 0.0
    max_rss_kib: int = 0


@dataclass(frozen=True, slots=True)
class Reaped:
    """A raw wait status with the child's own resource use."""

    status: int
    cpu_seconds: float
    max_rss_kib: int


def signal_name(number: int) -> str:
    """`SIGSEGV` for 11; `SIG34` for a real-time signal that has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def split_status(status: int) -> tuple[int | None, str | None, bool]:
    """(exit status, signal name, core dumped) of a raw wait status."""
    if os.WIFSIGNALED(status):
        return None, signal_name(os.WTERMSIG(status)), os.WCOREDUMP(status)
    return os.WEXITSTATUS(status), None, False


class Child:
    """A process that we started; it is reaped exactly once, through `reap`."""

    def __init__(self, popen: subprocess.Popen[bytes], argv: tuple[str, ...]) -> None:
        self.argv = argv
        self.pid = popen.pid
        self.stdin, self.stdout, self.stderr = popen.stdin, popen.stdout, popen.stderr
        self.started = time.monotonic()
        self._popen = popen
        self._reaped: Reaped | None = None
        self.pidfd = _pidfd(popen.pid)

    def reap(self, timeout: float) -> Reaped | None:
        """Wait up to `timeout` seconds for the end; None when it still lives (or sits in an uninterruptible call)."""
        deadline = time.monotonic() + timeout
        while self._reaped is None:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self._reaped = Reaped(status, usage.ru_utime + usage.ru_stime, int(usage.ru_maxrss))
                self._popen.returncode = os.waitstatus_to_exitcode(status)  # or Popen warns that it still runs
                if self.pidfd is not None:
                    os.close(self.pidfd)
                    self.pidfd = None
                break
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            if self.pidfd is None:
                time.sleep(min(left, 0.01))
            else:
                select.select([self.pidfd], [], [], left)
        return self._reaped

    def signal_group(self, number: int) -> None:
        """Send a signal to the child's process group; nothing happens when it has been reaped."""
        if self._reaped is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def close(self) -> None:
        """Close our ends of its pipes."""
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _pidfd(pid: int) -> int | None:
    """A file descriptor that becomes readable when the process ends; None where there is no such thing."""
    opener = getattr(os, "pidfd_open", None)
    if opener is None:
        return None
    try:
        return int(opener(pid))
    except OSError:
        return None


def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    stdin: int | IO[bytes] | None = DEVNULL,
    stdout: int | IO[bytes] | None = DEVNULL,
    stderr: int | IO[bytes] | None = DEVNULL,
    pass_fds: Sequence[int] = (),
) -> Child:
    """Start a process in a session of its own. Raises EnvironmentLacks when it cannot be started."""
    import subprocess

    words = tuple(os.fspath(word) for word in argv)
    try:
        popen = subprocess.Popen(
            words,
            env=None if env is None else dict(env),
            cwd=cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=tuple(pass_fds),
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        if cwd is not None and not Path(cwd).is_dir():
            raise EnvironmentLacks(f"{cwd} is no folder to start {words[0]} in; create it") from error
        raise EnvironmentLacks(explain(words[0], error.errno or 0, env)) from error
    return Child(popen, words)


def run(
    argv: Sequence[str],
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    stdin: bytes = b"",
    limit: int = LIMIT,
    locale: bool = True,
) -> Finished:
    """Run a program to its end, or kill its process group after `timeout` seconds.

    Keeps the first `limit` bytes of each stream and goes on reading. A descendant that holds the pipes open delays
    nothing: half a second after the program's own end the streams are left. `env` None means ours; LOCALE is added
    unless `locale` is false. Raises EnvironmentLacks when the program is missing or cannot be executed.
    """
    whole = dict(os.environ if env is None else env)
    if locale:
        whole |= LOCALE
    child = start(
        argv,
        env=whole,
        cwd=cwd,
        stdin=PIPE if stdin else DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        return _talk(child, stdin, limit, child.started + timeout)
    finally:
        if child.reap(0) is None:  # an exception on our side: leave nothing behind
            child.signal_group(signal.SIGKILL)
            child.reap(2.0)
        child.close()


def _talk(child: Child, stdin: bytes, limit: int, deadline: float) -> Finished:
    """Feed and read a child until it has ended and its pipes are empty, closed or given up."""
    streams = _Streams(child, stdin, limit)
    timed_out = False
    give_up = float("inf")
    while True:
        now = time.monotonic()
        ended = child.reap(0)
        if ended is not None and give_up == float("inf"):
            child_group_gone_at = now
            give_up = child_group_gone_at + 0.5
        if ended is None and not timed_out and now >= deadline:
            timed_out = True
            child.signal_group(signal.SIGKILL)
            give_up = now + 5.0  # state D: the kernel may keep it for ever
        if (ended is not None and not streams.open) or now >= give_up:
            break
        limit_at = min(give_up, deadline if not timed_out else give_up)
        streams.turn(max(0.0, min(limit_at - now, 0.25 if child.pidfd is not None else 0.02)))
    reaped = child.reap(0)
    seconds = time.monotonic() - child.started
    status, name, _ = split_status(reaped.status) if reaped else (None, None, False)
    return Finished(
        argv=child.argv,
        status=status,
        signal=name,
        stdout=bytes(streams.kept[0]),
        stderr=bytes(streams.kept[1]),
        timed_out=timed_out,
        seconds=seconds,
        cut=streams.cut,
        cpu_seconds=reaped.cpu_seconds if reaped else 0.0,
        max_rss_kib=reaped.max_rss_kib if reaped else 0,
    )


class _Streams:
    """The pipes of one child, served by poll so that no side can block the other."""

    def __init__(self, child: Child, stdin: bytes, limit: int) -> None:
        self.kept = (bytearray(), bytearray())
        self.cut = False
        self.open: dict[int, int] = {}
        self._limit = limit
        self._child = child
        self._rest = memoryview(stdin)
        self._poll = select.poll()
        for number, stream in enumerate((child.stdout, child.stderr)):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            self.open[stream.fileno()] = number
            self._poll.register(stream.fileno(), select.POLLIN)
        if child.stdin is not None:
            os.set_blocking(child.stdin.fileno(), False)
            self._poll.register(child.stdin.fileno(), select.POLLOUT)
        self._pidfd = child.pidfd
        if self._pidfd is not None:
            self._poll.register(self._pidfd, select.POLLIN)

    def turn(self, seconds: float) -> None:
        """One round of poll: move what can be moved."""
        for fd, _ in self._poll.poll(seconds * 1000):
            if fd in self.open:
                self._read(fd)
            elif fd == self._pidfd:
                self._poll.unregister(fd)
            else:
                self._write(fd)

    def _read(self, fd: int) -> None:
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return
        if not data:
            self._poll.unregister(fd)
            del self.open[fd]
            return
        kept = self.kept[self.open[fd]]
        room = self._limit - len(kept)
        kept += data[:room]
        self.cut = self.cut or len(data) > room

    def _write(self, fd: int) -> None:
        try:
            self._rest = self._rest[os.write(fd, self._rest[:65536]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._rest = self._rest[:0]
        if not self._rest and self._child.stdin is not None:
            self._poll.unregister(fd)
            self._child.stdin.close()


def explain(program: str, number: int, env: Mapping[str, str] | None = None) -> str:
    """One sentence for a program that could not be started: `number` is the errno of execve."""
    path = _locate(program, env)
    if path is None:
        where = "on PATH" if "/" not in program else "there"
        return f"{program} is not installed: no such program {where}; install it or give its path"
    if number == errno.ENOENT:
        return f"{path} exists but the loader or interpreter that it names does not; it was built for another system"
    if number == errno.EACCES:
        if path.is_dir():
            return f"{path} is a folder, not a program; give the path of the program in it"
        return f"{path} is not executable; run `chmod +x {path}`, or its file system is mounted noexec"
    if number == errno.ENOEXEC:
        built_for = machine(path)
        what = f"is built for {built_for}, this machine is {os.uname().machine}" if built_for else "is no program"
        return f"{path} {what}; get the build for this machine"
    return f"{path} cannot be started: {os.strerror(number)}"


def machine(path: Path) -> str | None:
    """The CPU architecture that an ELF file is built for; None when it is no readable ELF file."""
    try:
        with path.open("rb") as file:
            head = file.read(20)
    except OSError:
        return None
    if len(head) < 20 or head[:4] != b"\x7fELF":
        return None
    order = "<" if head[5] == 1 else ">"
    number = int(struct.unpack_from(order + "H", head, 18)[0])
    return _MACHINES.get(number, f"ELF machine {number}")


def _locate(program: str, env: Mapping[str, str] | None) -> Path | None:
    """Where the program is, executable or not; None when there is no such file."""
    if "/" in program:
        return Path(program) if Path(program).exists() else None
    search = (os.environ if env is None else env).get("PATH")
    import shutil  # here, since it loads every compression there is

    found = shutil.which(program, path=search) or shutil.which(program, mode=os.F_OK, path=search)
    return Path(found) if found else None
