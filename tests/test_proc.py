"""A process that we start ends within its time, its output is bounded, what is missing is said in one sentence."""

from __future__ import annotations

import os
import resource
import signal
import struct
import sys
import time
from pathlib import Path

import pytest

from stillruns import proc
from stillruns.errors import EnvironmentLacks

PYTHON = (sys.executable, "-I", "-S", "-c")


def test_a_clean_run() -> None:
    """Status, both streams, time and resource use of that child alone.

    The kernel's peak of a child begins at the size of the process that it was forked from: late in a long test run
    that is more than the child itself needs.
    """
    ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = proc.run([*PYTHON, "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"], timeout=120)
    assert (done.status, done.signal, done.timed_out, done.cut) == (3, None, False, False)
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")
    assert 0 < done.seconds < 20 and done.cpu_seconds > 0 and 1000 < done.max_rss_kib < 200_000 + ours


def test_signal() -> None:
    """A signal is told by its name."""
    done = proc.run([*PYTHON, "import os; os.abort()"], timeout=120)
    assert (done.status, done.signal) == (None, "SIGABRT")


def test_stdin_both_ways() -> None:
    """A megabyte goes in and comes out again without either side blocking."""
    data = os.urandom(1 << 20)
    done = proc.run([*PYTHON, "import sys,shutil; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"],
                    timeout=120, stdin=data)  # fmt: skip
    assert done.stdout == data


def test_a_reader_that_does_not_read() -> None:
    """A child that ends without reading its input is no error."""
    assert proc.run(["true"], timeout=120, stdin=bytes(1 << 20)).status == 0


def test_bounded_output() -> None:
    """A flood is read to its end, the first bytes kept, the cut told, memory bounded."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = proc.run(
        [*PYTHON, "import os\nfor _ in range(64): os.write(1, b'x' * (1 << 20))"], timeout=120, limit=1000
    )
    assert done.status == 0 and done.stdout == b"x" * 1000 and done.cut
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


def test_timeout_kills_the_group() -> None:
    """A hung child and its children are killed; what it had said is kept."""
    began = time.monotonic()
    done = proc.run(["sh", "-c", "trap '' TERM; sleep 600 & echo said; sleep 600"], timeout=2.0)
    assert done.timed_out and done.signal == "SIGKILL" and done.stdout == b"said\n"
    assert time.monotonic() - began < 60


def test_a_held_pipe_delays_nothing() -> None:
    """A daemon that keeps our pipes open does not keep us."""
    began = time.monotonic()
    script = (
        "import os,time\npid=os.fork()\nif pid:\n print(pid, flush=True); os._exit(0)\nos.setsid(); time.sleep(600)"
    )
    done = proc.run([*PYTHON, script], timeout=120)
    os.kill(int(done.stdout), signal.SIGKILL)
    assert done.status == 0 and not done.timed_out
    assert time.monotonic() - began < 60


def test_locale() -> None:
    """Tools print English with a dot; it can be left out."""
    shown = proc.run(["sh", "-c", "echo $LANG $LC_ALL"], timeout=120, env={"PATH": os.defpath, "LANG": "de_DE"})
    assert shown.stdout == b"C.UTF-8 C.UTF-8\n"
    shown = proc.run(["sh", "-c", "echo $LANG"], timeout=120, env={"PATH": os.defpath, "LANG": "de_DE"}, locale=False)
    assert shown.stdout == b"de_DE\n"


def test_own_session() -> None:
    """Each child leads its own session: Ctrl-C at our terminal does not reach it."""
    done = proc.run([*PYTHON, "import os; print(os.getpid(), os.getsid(0), os.getpgid(0))"], timeout=120)
    assert len(set(done.stdout.split())) == 1


def test_what_is_missing(tmp_path: Path) -> None:
    """Missing, not executable, a folder, for another machine, no program, no interpreter: each has its sentence."""
    (tmp_path / "plain").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_bytes(b"\0\1\2 no program")
    (tmp_path / "script").write_text("#!/no/such/interpreter\n")
    foreign = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHI", 2, 0x1234, 1) + bytes(40)
    (tmp_path / "foreign").write_bytes(foreign)
    for name in ("text", "script", "foreign"):
        (tmp_path / name).chmod(0o755)
    for program, sentence in {
        "no-such-program-anywhere": "no-such-program-anywhere is not installed: no such program on PATH",
        f"{tmp_path}/gone": "no such program there",
        f"{tmp_path}/plain": "is not executable; run `chmod",
        f"{tmp_path}/folder": "is a folder, not a program",
        f"{tmp_path}/text": "is no program",
        f"{tmp_path}/script": "the loader or interpreter that it names does not",
        f"{tmp_path}/foreign": f"is built for ELF machine 4660, this machine is {os.uname().machine}",
    }.items():
        with pytest.raises(EnvironmentLacks, match=r"^[^\n]+$") as caught:
            proc.run([program], timeout=60)
        assert sentence in str(caught.value)
    with pytest.raises(EnvironmentLacks, match="is no folder to start"):
        proc.run(["true"], timeout=60, cwd=tmp_path / "nowhere")


def test_machine() -> None:
    """The architecture of a program is read from its header."""
    assert proc.machine(Path(sys.executable).resolve()) in ("x86-64", "aarch64", "riscv64", "ppc64", "loongarch64")
    assert proc.machine(Path(__file__)) is None
