"""The launcher costs little, gives the server a clean start, and tells its exact end."""

from __future__ import annotations

import os
import resource
import signal
import statistics
import sys
import threading
import time
from pathlib import Path

import pytest
from act_helpers import EXIT, FIRST_THREAD_ENDS, wait_until

from stillruns import proc
from stillruns.act import launcher, processes
from stillruns.act.supervised import Supervised
from stillruns.errors import EnvironmentLacks

SHOW = """
import os, resource, signal
print(os.getpid() == os.getsid(0) == os.getpgid(0), os.getcwd(), sorted(os.environ))
print([n for n in range(1, 32) if signal.getsignal(n) == signal.SIG_IGN])
print(resource.getrlimit(resource.RLIMIT_CORE)[0], open('/proc/self/coredump_filter').read().strip())
print(sorted(os.listdir('/proc/self/fd'), key=int)[:-1], os.readlink('/proc/self/fd/0'))
"""


LEAVES_ONE_BEHIND = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", sys.argv[1]])
while open(f"/proc/{child.pid}/stat").read().rpartition(")")[2].split()[0] != "Z":
    assert child.poll() is None
print(child.pid, flush=True)
os._exit(0)
"""


def supervised(argv: list[str], tmp_path: Path, env: dict[str, str] | None = None) -> Supervised:
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        return Supervised(argv, env or {"PATH": os.defpath}, tmp_path, out.fileno(), err.fileno())


def test_a_clean_start(tmp_path: Path) -> None:
    """Own session, own folder, exactly the environment given, default signals, small cores, no descriptor of ours."""
    argv = [sys.executable, "-I", "-S", "-c", "import sys\n" + SHOW]
    with supervised(argv, tmp_path, {"PATH": "/bin", "A": "b=c", "LC_ALL": "C"}) as server:
        assert server.wait(120)
    shown = (tmp_path / "out").read_text().splitlines()
    assert shown[0] == f"True {tmp_path} ['A', 'LC_ALL', 'PATH']"
    assert shown[1] in ("[]", "[13, 25]")  # Python itself ignores SIGPIPE and SIGXFSZ
    hard = proc.run(["sh", "-c", "ulimit -H -c"], timeout=60).stdout.strip()
    assert shown[2] == f"{64 << 20 if hard == b'unlimited' else min(64 << 20, int(hard) * 1024)} 00000010"
    assert shown[3] == "['0', '1', '2'] /dev/null"


def test_default_signals_in_a_program_that_does_not_set_them(tmp_path: Path) -> None:
    """A server inherits no ignored signal: SIGPIPE, SIGTERM and SIGINT do what they do by default, and so does
    SIGQUIT, which a shell's background job ignores.

    Signals 32 and 33 belong to the C library, which lets no program set them; its posix_spawn, which make uses,
    passes 32 on as ignored.
    """
    ours = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGQUIT, signal.SIGUSR1, 40)}
    try:
        with supervised(["grep", "SigIgn", "/proc/self/status"], tmp_path) as server:
            assert server.wait(120)
    finally:
        for number, before in ours.items():
            signal.signal(number, before)
    of_the_library = 1 << 31 | 1 << 32
    assert int((tmp_path / "out").read_text().split()[1], 16) & ~of_the_library == 0


@pytest.mark.parametrize(
    ("script", "status", "name"),
    [
        ("exit 0", 0, None),
        ("exit 77", 77, None),
        ("kill -ILL $$", None, "SIGILL"),
        ("kill -KILL $$", None, "SIGKILL"),
    ],
)
def test_the_exact_end(script: str, status: int | None, name: str | None, tmp_path: Path) -> None:
    """Exit status and signal come through the launcher as the kernel gave them, with that child's own use."""
    with supervised(
        ["sh", "-c", f"dd if=/dev/zero of=/dev/null bs=64M count=1 2>/dev/null; {script}"], tmp_path
    ) as s:
        assert s.wait(120)
    assert s.end is not None
    assert proc.split_status(s.end.status)[:2] == (status, name)
    assert s.end.at >= s.started and s.end.cpu_seconds >= 0 and s.end.max_rss_kib > 500
    assert not s.lost and s.orphans_killed == 0


def test_what_cannot_be_executed(tmp_path: Path) -> None:
    """The errno of execve comes back as a sentence; nothing is left."""
    (tmp_path / "text").write_text("no program")
    for program, sentence in ((str(tmp_path / "text"), "is not executable"), ("no-such", "is not installed")):
        with pytest.raises(EnvironmentLacks, match=sentence):
            supervised([program], tmp_path)
    assert not [pid for pid in launcher.children(os.getpid()) if _is_launcher(pid)]


def _is_launcher(pid: int) -> bool:
    return b"launcher.py" in Path(f"/proc/{pid}/cmdline").read_bytes()


def cpu() -> float:
    """Seconds of CPU that this process and its ended children have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in used)


def test_what_it_costs(tmp_path: Path) -> None:
    """Launcher start, start of a program, its end, the sweep: less CPU than six starts of a bare Python, the launcher
    being one. Each is measured beside the other, so that a slow or busy machine is slow for both."""
    walls, ours, bare = [], 0.0, 0.0
    for _ in range(10):
        first = cpu()
        assert proc.run([sys.executable, "-I", "-S", "-c", ""], timeout=60).status == 0
        second, began = cpu(), time.monotonic()
        with supervised(["true"], tmp_path) as server:
            assert server.wait(120)
        walls.append(time.monotonic() - began)
        bare, ours = bare + second - first, ours + cpu() - second
    print(
        f"{ours * 100:.1f} ms of CPU (a bare Python {bare * 100:.1f} ms), "
        f"median {statistics.median(walls) * 1000:.1f} ms of wall time a start"
    )
    assert ours < 6 * bare


def test_an_end_that_is_told_late(tmp_path: Path) -> None:
    """The launcher gets no processor for a while after the server died: it is known to be dying all the same, and
    its death is not laid to our SIGTERM."""
    with supervised(["sleep", "600"], tmp_path) as server:
        assert not server.wait_if_dying(0.05)
        os.kill(server.launcher.pid, signal.SIGSTOP)
        os.kill(server.pid, signal.SIGSEGV)
        assert wait_until(lambda: processes.leaving(server.pid))
        later = threading.Timer(0.5, os.kill, (server.launcher.pid, signal.SIGCONT))
        later.start()
        assert server.wait_if_dying(0.05)
        later.join()
        assert server.stop(5.0) and server.stopped_by is None
    assert server.end is not None and proc.split_status(server.end.status)[1] == "SIGSEGV"


def test_an_end_that_is_told_after_the_stop(tmp_path: Path) -> None:
    """The same when nobody asked before the server is stopped."""
    with supervised(["sleep", "600"], tmp_path) as server:
        os.kill(server.launcher.pid, signal.SIGSTOP)
        os.kill(server.pid, signal.SIGSEGV)
        assert wait_until(lambda: processes.leaving(server.pid))
        later = threading.Timer(0.5, os.kill, (server.launcher.pid, signal.SIGCONT))
        later.start()
        assert server.stop(60.0) and server.stopped_by is None
        later.join()
    assert server.end is not None and proc.split_status(server.end.status)[1] == "SIGSEGV"


def test_children_by_scanning() -> None:
    """Kernels without /proc/PID/task/TID/children: the scan finds the same children."""
    child = proc.start(["sleep", "60"])
    try:
        assert child.pid in launcher.children(os.getpid())
        assert set(launcher._children_by_scan(os.getpid())) >= {child.pid}
        assert child.pid in launcher.descendants(os.getpid())
    finally:
        child.signal_group(9)
        assert child.reap(60) is not None


def test_one_reader_of_what_is_below() -> None:
    """A child that has ended is below its parent until somebody collects it, and nothing of it runs any more."""
    child = proc.start(["true"])
    assert wait_until(lambda: launcher.over(child.pid))
    assert child.pid in launcher.below(os.getpid()) and child.pid not in launcher.descendants(os.getpid())
    assert child.reap(60) is not None
    assert launcher.over(child.pid) and child.pid not in launcher.below(os.getpid())


@pytest.mark.skipif(os.uname().machine not in EXIT, reason="the number of exit(2) is not known here")
def test_what_lost_its_first_thread_alone_is_swept(tmp_path: Path) -> None:
    """It has a zombie's letter and runs on: no orphan is left of the server that started it."""
    child = FIRST_THREAD_ENDS.format(exit=EXIT[os.uname().machine])
    with supervised([sys.executable, "-I", "-S", "-c", LEAVES_ONE_BEHIND, child], tmp_path) as server:
        assert server.wait(120)
    assert server.end is not None and server.end.status == 0 and server.orphans_killed == 1
    assert launcher.over(int((tmp_path / "out").read_text()))


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


def test_rest(tmp_path: Path) -> None:
    """A server that never sleeps is waited for as long as is allowed, one that does until it does."""
    with supervised([sys.executable, "-I", "-S", "-c", "while True: pass"], tmp_path) as server:
        assert wait_until(lambda: processor_seconds(server.pid) > 0.3)  # by now it is past its start
        began = time.monotonic()
        server.rest(0.1)
        assert time.monotonic() - began >= 0.1
    with supervised([sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"], tmp_path) as server:
        began = time.monotonic()
        server.rest(120.0)
        assert time.monotonic() - began < 120.0
