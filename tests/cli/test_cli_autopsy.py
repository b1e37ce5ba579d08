"""The promise: `stillruns autopsy` reads files and standard input, writes nothing, and says what it cannot open."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from program import stillruns

GOLDEN = Path(__file__).parents[1] / "golden" / "autopsy"


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    """`stillruns autopsy ...`."""
    return stillruns("autopsy", *arguments, stdin=stdin)


def test_file_as_json() -> None:
    """One document on stdout, exit code 0 though the log shows a crash."""
    done = run("--json", str(GOLDEN / "gdb-assert.raw"))
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["schema"] == "stillruns.autopsy/1"
    assert document["incidents"][0]["outcome"] == "abort"


def test_standard_input_as_text() -> None:
    """`-` reads a paste; the first incident comes first."""
    done = run("-", stdin=(GOLDEN / "cli-rocblas-missing.raw").read_bytes())
    assert done.returncode == 0
    assert done.stdout.startswith("s0 -: ")
    assert "Incident 1: abort (SIGABRT)" in done.stdout


def test_missing_path_is_usage() -> None:
    """Exit code 2 and one sentence."""
    done = run("/nowhere/at/all.log")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_empty_input_is_no_incident() -> None:
    """Nothing in, nothing claimed."""
    done = run("--json", "-")
    document = json.loads(done.stdout)
    assert (document["servers"], document["incidents"]) == ([], [])
    assert document["warnings"][0]["text"] == "- is empty"


def test_a_machine_without_a_gpu_left_none_unused() -> None:
    """Discovery that finds only the CPU is told, and no GPU is claimed to be there."""
    log = b"""time=2025-06-18T19:20:21.230Z level=INFO source=gpu.go:377 msg="no compatible GPUs were discovered"
time=2025-06-18T19:20:21.231Z level=INFO source=types.go:130 msg="inference compute" id=0 library=cpu total="15.5 GiB"
"""
    shown = run("-", stdin=log).stdout
    assert "No incident" in shown and "left to the CPU" in shown
    assert "GPU was" not in shown
