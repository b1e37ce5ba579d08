"""The promise: wherever the output goes, or cannot go, there is one sentence and no traceback."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERBS = ["--version", "frob", "report --list", "show zzz"]


def shell(line: str, store: Path) -> subprocess.CompletedProcess[str]:
    """A line of shell in which `S` is the program."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "STILLRUNS_STORE": str(store)}
    env["LC_ALL"] = "C.UTF-8"  # where the caller's is not installed, bash says so on the same stderr
    line = line.replace("S ", f"{shlex.quote(sys.executable)} -m stillruns ", 1)
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=240, env=env, check=False)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one supervised command."""
    place = tmp_path_factory.mktemp("store") / "s"
    assert shell("S run -- true", place).returncode == 0
    return place


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("where", [">&-", ">/dev/full", "2>/dev/full", "2>&1 | head -c 1"])
def test_no_traceback(store: Path, verb: str, where: str) -> None:
    """Closed, full and broken outputs of every kind."""
    done = shell(f"S {verb} {where}", store)
    assert "Traceback" not in done.stderr and "fault of this program" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_a_full_output_is_one_sentence(store: Path) -> None:
    """Not a fault of this program: the disk that its output goes to."""
    done = shell("S report --list >/dev/full", store)
    assert done.returncode == 3
    assert done.stderr == (
        "stillruns: cannot write the output: No space left on device; nothing that was recorded is lost.\n"
    )


@pytest.mark.parametrize("line", ["report --list --json", "show last --log --json", "selftest --kind nope"])
def test_what_cannot_be_given_is_refused(store: Path, line: str) -> None:
    """`--json` is one JSON document or a refusal, never text; a fault that is not known is not `all right`."""
    done = shell(f"S {line}", store)
    assert done.returncode == 2 and not done.stdout and done.stderr.startswith("stillruns: ")


def test_a_relative_store(tmp_path: Path) -> None:
    """A server runs in a folder of the store, and its launcher in another: the store's path is made absolute."""
    done = shell(f"cd {shlex.quote(str(tmp_path))} && S run --store here/s -- true", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "here" / "s" / "VERSION").exists()
