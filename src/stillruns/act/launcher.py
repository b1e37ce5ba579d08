"""The small program between the harness and a server: `python -I -S launcher.py CONTROL STDOUT STDERR`.

It is a subreaper in a session of its own, so every descendant of the server (also one that forked twice or called
setsid) stays below it. It lives as long as the harness: when the control socket closes, because the harness ended
or was killed, it kills all descendants and exits. When it is killed itself, the server gets SIGKILL by the
parent-death signal, and the harness, a subreaper too while a trial runs, inherits and sweeps the rest.

The three arguments are file descriptors. The harness first sends one frame: its length as ten decimal digits, then
fields separated by NUL: working folder, core limit in bytes, coredump filter, seconds to wait for killed processes,
number of arguments, the arguments, and the environment as `NAME=value`. After that, lines go both ways:

    harness to launcher    term           SIGTERM to the server's process group
                           kill           SIGKILL to the server's process group
                           quit           kill all descendants, report, exit
    launcher to harness    started PID MONOTONIC
                           failed ERRNO            the server could not be started; the launcher exits
                           ended STATUS CPU_SECONDS MAX_RSS_KIB MONOTONIC
                           swept KILLED LEFT       orphans killed, processes that did not die

Only the standard library, few modules, and the server is forked before anything slow: this is start-up time of every
trial. `prctl` numbers are from linux/prctl.h.
"""

# pathlib, contextlib and signal would add milliseconds of start-up to every trial:
# ruff: noqa: PTH110, PTH123, PTH208, SIM105, S606
from __future__ import annotations

import ctypes
import os
import resource
import select
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
SIGHUP, SIGINT, SIGKILL, SIGTERM = 1, 2, 9, 15
LAST_SIGNAL = 64
GRACE = 0.2
"""Seconds that descendants get to end by themselves once the server has ended."""


def children(pid: int) -> list[int]:
    """Pids of the direct children, zombies included; empty when the process is gone."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += map(int, file.read().split())
    except FileNotFoundError:
        if os.path.exists(f"/proc/{pid}/stat"):  # a kernel without CONFIG_PROC_CHILDREN
            return _children_by_scan(pid)
    except (ProcessLookupError, PermissionError):
        pass
    return found


def _children_by_scan(pid: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            stat = state_and_parent(int(name))
            if stat is not None and stat[1] == pid:
                found.append(int(name))
    return found


def state_and_parent(pid: int) -> tuple[str, int] | None:
    """The state letter (proc(5): R, S, D, Z, T ...) and the parent's pid; None when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return fields[0].decode(), int(fields[1])
    except (OSError, IndexError, ValueError):
        return None


def below(root: int) -> list[int]:
    """All processes below `root`, ended ones that nobody has collected yet included, parents before children."""
    found: list[int] = []
    queue = children(root)
    seen = {root}
    while queue:
        pid = queue.pop(0)
        if pid not in seen:
            seen.add(pid)
            found.append(pid)
            queue += children(pid)
    return found


def over(pid: int) -> bool:
    """Whether nothing of a process runs any more: it is gone or a zombie. One whose first thread alone has ended has
    a zombie's letter, and its other threads run on."""
    stat = state_and_parent(pid)
    if stat is None or stat[0] not in "ZX":
        return stat is None
    try:
        return len(os.listdir(f"/proc/{pid}/task")) < 2
    except OSError:
        return True


def descendants(root: int) -> list[int]:
    """All processes below `root` of which something still runs, parents before children."""
    return [pid for pid in below(root) if not over(pid)]


class Launcher:
    """The launcher's state: one server, one control socket."""

    def __init__(self, control: int) -> None:
        self.control = control
        self.server = 0
        self.reap_seconds = 5.0
        self.ended = False
        self.harness_lost = False

    def tell(self, line: str) -> None:
        """One line to the harness; a harness that is gone is noticed here too."""
        try:
            os.write(self.control, line.encode("utf-8", "replace") + b"\n")
        except OSError:
            self.harness_lost = True

    def frame(self) -> list[bytes]:
        """The first frame's fields; an empty list when the harness died before it was complete."""
        data = self._exactly(10)
        data = self._exactly(int(data)) if data else b""
        return data.split(b"\0") if data else []

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = os.read(self.control, min(count - len(data), 1 << 16))
            if not piece:
                return b""
            data += piece
        return data

    def reap(self) -> bool:
        """Collect every zombie of ours, the server's status among them; false when no child is left."""
        while True:
            try:
                pid, status, use = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.server:
                self.ended = True
                self.tell(f"ended {status} {use.ru_utime + use.ru_stime:.6f} {use.ru_maxrss} {time.monotonic():.6f}")

    def sweep(self) -> None:
        """Kill all descendants until none is left or the time is over, then report."""
        me = os.getpid()
        grace = time.monotonic() + (GRACE if self.ended and not self.harness_lost else 0.0)
        deadline = grace + self.reap_seconds
        killed: set[int] = set()
        pause = 0.001
        while True:
            more = self.reap()
            alive = descendants(me) if more else []
            now = time.monotonic()
            if not alive or now >= deadline:
                break
            if now >= grace:
                for pid in alive:
                    try:
                        os.kill(pid, SIGKILL)
                        killed.add(pid)
                    except OSError:
                        pass
            time.sleep(pause)
            pause = min(pause * 2, 0.02)
        killed.discard(self.server)
        self.tell(f"swept {len(killed)} {len(alive)}")

    def signal_group(self, number: int) -> None:
        """To the server's process group while the server is not reaped (its pid cannot be someone else's)."""
        if not self.ended:
            try:
                os.killpg(self.server, number)
            except OSError:
                pass

    def watch(self, pidfd: int | None) -> None:
        """Serve the harness until it says quit or is gone."""
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        if pidfd is not None:
            poll.register(pidfd, select.POLLIN)
        pending = b""
        while not self.harness_lost:
            ready = [fd for fd, _ in poll.poll(250 if pidfd is not None else 20)]
            self.reap()
            if self.ended and pidfd is not None:
                poll.unregister(pidfd)
                os.close(pidfd)
                pidfd = None
            if self.control not in ready:
                continue
            try:
                data = os.read(self.control, 4096)
            except OSError:
                data = b""
            if not data:
                self.harness_lost = True
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                if line == b"term":
                    self.signal_group(SIGTERM)
                elif line == b"kill":
                    self.signal_group(SIGKILL)
                elif line == b"quit":
                    return


def start_server(libc: ctypes.CDLL, fields: list[bytes], out: int, err: int) -> tuple[int, int]:
    """Fork and execute the server; (pid, 0), or (pid, errno) when it could not be executed (and is reaped)."""
    cwd, core, dump_filter = fields[0], int(fields[1]), fields[2]
    argc = int(fields[4])
    argv = fields[5 : 5 + argc]
    env = dict(field.split(b"=", 1) for field in fields[5 + argc :])
    told, tell = os.pipe()  # close-on-exec: end of file means that execve worked
    launcher = os.getpid()
    pid = os.fork()
    if pid == 0:
        code = 0
        try:
            os.setsid()
            libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
            if os.getppid() != launcher:
                os._exit(127)
            for number in range(1, LAST_SIGNAL + 1):
                # Python ignores SIGPIPE and SIGXFSZ, we some more, a background job SIGQUIT: a server must not.
                # Those that nobody may set (SIGKILL, SIGSTOP, the C library's own) are refused and stay as they are.
                libc.signal(number, None)
            _limit_core(core, dump_filter)
            null = os.open("/dev/null", os.O_RDONLY)
            for source, target in ((null, 0), (out, 1), (err, 2)):
                os.dup2(source, target)
            os.chdir(cwd)
            os.execvpe(argv[0], argv, env)
        except OSError as error:
            code = error.errno or 0
        finally:
            os.write(tell, b"%d" % (code or 5))
            os._exit(127)
    os.close(tell)
    answer = os.read(told, 16)
    os.close(told)
    if answer:
        os.waitpid(pid, 0)
    return pid, int(answer or 0)


def _limit_core(limit: int, dump_filter: bytes) -> None:
    """Small cores: a soft limit in bytes, and only the parts of memory that the filter names (core(5))."""
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    soft = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
        if dump_filter:
            with open("/proc/self/coredump_filter", "wb") as file:
                file.write(dump_filter)
    except (OSError, ValueError):
        pass  # a core is a help, never a condition


def main(arguments: list[str]) -> None:
    """Run one server for the harness at the other end of the control socket."""
    control, out, err = map(int, arguments)
    for fd in (control, out, err):
        os.set_inheritable(fd, False)
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (SIGHUP, SIGINT, SIGTERM):
        libc.signal(number, 1)  # SIG_IGN: only the harness ends us
    launcher = Launcher(control)
    fields = launcher.frame()
    if not fields:
        return
    launcher.reap_seconds = float(fields[3])
    started = time.monotonic()
    launcher.server, number = start_server(libc, fields, out, err)
    os.close(out)
    os.close(err)
    if number:
        launcher.tell(f"failed {number}")
        return
    launcher.tell(f"started {launcher.server} {started:.6f}")
    try:
        pidfd = os.pidfd_open(launcher.server)
    except (AttributeError, OSError):  # Linux before 5.3
        pidfd = None
    launcher.watch(pidfd)
    launcher.sweep()


if __name__ == "__main__":
    main(sys.argv[1:])
