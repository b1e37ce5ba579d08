"""The promise: Ctrl-C and SIGTERM end any verb with one sentence and 130, at whatever moment they come.

No moment here is waited for by the clock: the program sends itself the signal at the place in question, or it is sent
after a byte that only that place writes.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from program import PROGRAM, environment

SENTENCE = "stillruns: interrupted; what was recorded so far is kept.\n"
SIGNALS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)

STRUCK = """
import atexit, os, sys, time

def strike():
    os.kill(os.getpid(), {number})
    for _ in range(100):  # a signal is heard between two steps of Python
        pass

{place}
from stillruns.cli import main
sys.argv[1:] = {words}
main()
"""
AT_IMPORT = """
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}" and sys.meta_path[0] is self:
            del sys.meta_path[0]
            strike()
sys.meta_path.insert(0, Finder())
"""
IN_A_BLOCK = """
import os, signal
from stillruns.cli.stopping import EAR, Stopped

EAR.listen()
try:
    with EAR.held():
        with EAR.held():
            pass
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(100):
            pass
        print("whole", flush=True)
    print("never")
except Stopped as stopped:
    print(stopped)
"""
IN_FINALISER = """
import os, signal, sys
from stillruns.cli.stopping import EAR, Stopped

class Left:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(100):
            pass

EAR.listen()
try:
    left = Left()
    del left
    sys.stdin.read()  # to which nobody writes
except Stopped as stop:
    print("stopped by", stop)
"""


def struck(place: str, number: signal.Signals, *words: str) -> subprocess.CompletedProcess[str]:
    """The program, which sends itself a signal at a place."""
    code = STRUCK.format(number=int(number), place=place, words=list(words))
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment(), check=False
    )


@SIGNALS
@pytest.mark.parametrize(
    "module",
    ["stillruns.cli.stopping", "click", "stillruns.cli.group", "stillruns.cli.workarounds", "dataclasses"],
)
def test_while_the_program_is_loaded(module: str, number: signal.Signals) -> None:
    """One sentence, nothing on stdout, 130: also in the first tenth of a second, which Python spends in imports."""
    done = struck(AT_IMPORT.format(module=module), number, "workarounds", "--json")
    assert (done.stdout, done.stderr.lstrip("\n"), done.returncode) == ("", SENTENCE, 130)


def test_while_the_version_is_told() -> None:
    """The quickest of all answers is guarded as well: at its first word the handler of the first moment is there."""
    place = """
class Out:
    def write(self, text):
        strike()
sys.stdout = Out()
"""
    done = struck(place, signal.SIGINT, "--version")
    assert (done.stdout, done.stderr, done.returncode) == ("", SENTENCE, 130)


def test_before_our_first_line_nothing_slow_is_loaded() -> None:
    """Between Python's own start and the handler stand our own short modules only: no module of Python's library is
    loaded for them that it does not load for an empty program."""
    shown = "import sys; print(*sorted(set(sys.modules) - before))"
    code = f"import sys; before = set(sys.modules); from stillruns.cli import early; early.listen(); {shown}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment(), check=True
    )
    assert all(name.partition(".")[0] in ("stillruns", "__future__") for name in done.stdout.split()), done.stdout


AT_RENAME = """
def audit(event, args):
    if event == "os.rename" and str(args[0]).endswith(".part"):
        strike()
sys.addaudithook(audit)
"""


def test_a_snapshot_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    """Stopped just before its file gets its name: no half file is left, under no name."""
    (tmp_path / "root").mkdir()
    (tmp_path / "out").mkdir()
    words = ("snapshot", str(tmp_path / "out" / "s.tar.zst"), "--sysroot", str(tmp_path / "root"))
    done = struck(AT_RENAME, signal.SIGINT, *words)
    assert (done.stderr.lstrip("\n"), done.returncode) == (SENTENCE, 130)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_block_within_a_block() -> None:
    """What is written or loaded comes out whole, also when a smaller such block has ended within it."""
    ended = subprocess.run(
        [sys.executable, "-c", IN_A_BLOCK], capture_output=True, text=True, timeout=60, env=environment(), check=False
    )
    assert (ended.stdout, ended.stderr) == ("whole\nCtrl-C\n", "")


def test_in_a_finaliser() -> None:
    """Python throws away what is raised there, with a traceback; the stop comes again a moment later."""
    with subprocess.Popen(
        [sys.executable, "-c", IN_FINALISER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        assert (child.stdout.read(), child.stderr.read()) == (b"stopped by Ctrl-C\n", b"")
    assert child.returncode == 0


@SIGNALS
def test_when_all_is_said(number: signal.Signals) -> None:
    """After the document is out and the exit status decided, a signal changes neither, and leaves no traceback."""
    done = struck("atexit.register(strike)", number, "workarounds", "--json")
    assert (done.stderr, done.returncode) == ("", 0)
    assert json.loads(done.stdout)


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_in_the_middle_of_a_document(number: signal.Signals, unbuffered: str) -> None:
    """The reader gets the whole document, and the sentence after it; also with PYTHONUNBUFFERED, as in containers."""
    with slow_reader(unbuffered) as child:
        assert child.stdout is not None and child.stderr is not None
        first = os.read(child.stdout.fileno(), 1)  # the rest, more than the pipe holds, is on its way
        child.send_signal(number)
        document = first + child.stdout.read()
        said = child.stderr.read().decode()
    assert len(document) > 4 * PIPE and json.loads(document)
    assert (said.lstrip("\n"), child.returncode) == (SENTENCE, 130)


def test_a_second_ctrl_c_waits_for_nobody() -> None:
    """Where nobody reads on, the first waits for ever; one that comes a while later ends the program at once."""
    with slow_reader() as child:
        assert child.stdout is not None
        os.read(child.stdout.fileno(), 1)
        limit = time.monotonic() + 120
        while child.poll() is None and time.monotonic() < limit:
            child.send_signal(signal.SIGINT)  # a later one is taken for an echo for a second
            time.sleep(0.3)
        assert child.poll() == -signal.SIGINT


PIPE = 4096


def slow_reader(unbuffered: str = "") -> subprocess.Popen[bytes]:
    """A verb with a long document, into a pipe that holds little of it."""
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, PIPE)
    child = subprocess.Popen(
        [*PROGRAM, "workarounds", "--json"],
        stdout=write,
        stderr=subprocess.PIPE,
        env=environment(PYTHONUNBUFFERED=unbuffered),
    )
    os.close(write)
    child.stdout = open(read, "rb", buffering=0)  # noqa: SIM115, PTH123 - closed with the child
    return child


IGNORED = """
import os, signal, sys
signal.signal(int(sys.argv[1]), signal.SIG_IGN)
from stillruns.cli import main
sys.argv[1:] = ["run", "--", "cat", f"/proc/{os.getpid()}/status"]
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=lambda n: n.name)
def test_what_our_caller_ignores_stays_ignored(number: signal.Signals, tmp_path: Path) -> None:
    """nohup and a shell's background jobs ignore a signal on purpose: it stops neither us nor the user's command. The
    command looks at us while we watch it."""
    done = subprocess.run(
        [sys.executable, "-c", IGNORED, str(int(number))],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(STILLRUNS_STORE=str(tmp_path / "store")),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (mask,) = [line.split()[1] for line in done.stderr.splitlines() if line.startswith("SigIgn:")]
    assert int(mask, 16) & 1 << (number - 1)
