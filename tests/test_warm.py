"""The promise: a call of the warm program is a process of its own, and leaves nothing to the next one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from program import WARM, environment, fresh, stillruns


@pytest.mark.parametrize("words", [("--version",), ("chekc",), ("claims", "--list")], ids=" ".join)
def test_as_from_a_shell(words: tuple[str, ...], tmp_path: Path) -> None:
    """Exit status, output and errors are those of a real start."""
    warm, cold = (call(*words, STILLRUNS_STORE=str(tmp_path / "s")) for call in (stillruns, fresh))
    assert (warm.returncode, warm.stdout, warm.stderr) == (cold.returncode, cold.stdout, cold.stderr)


def test_folder_environment_and_input_are_its_own(tmp_path: Path) -> None:
    """What a call is given reaches what it starts, and not the next call."""
    show = "import os; print(os.getcwd(), os.environ.get('GIVEN'))"
    store = tmp_path / "s"
    done = stillruns("run", "--store", store, "--", sys.executable, "-c", show, cwd=tmp_path, GIVEN="this")
    assert f"{tmp_path} this" in done.stderr, done.stderr
    again = stillruns("run", "--store", store, "--", sys.executable, "-c", show)
    assert f"{Path.cwd()} None" in again.stderr, again.stderr
    assert stillruns("autopsy", "-", stdin="Segmentation fault\n").stdout != stillruns("autopsy", "-").stdout


def test_a_call_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    """It raises, and the next call gets its own answer."""
    words = ["run", "--store", str(tmp_path / "s"), "--", "sleep", "600"]
    with pytest.raises(subprocess.TimeoutExpired):
        WARM.call(words, env=environment(), cwd=tmp_path, stdin=b"", timeout=0.5)
    assert stillruns("--version").stdout.startswith("stillruns ")
