"""Debian's own packages through `check`: verdicts, time and memory. STILLRUNS_TEST_ROCM names the folder that
`scripts/fetch_rocm.sh` has filled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.real]

MEASURED = """
import resource, subprocess, sys
done = subprocess.run([sys.executable, "-m", "stillruns", *sys.argv[1:]], capture_output=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, file=sys.stderr)
sys.stdout.buffer.write(done.stdout)
"""


def roots() -> list[Path]:
    """Unpacked suites below the named folder."""
    named = os.environ.get("STILLRUNS_TEST_ROCM", "")
    return sorted(p for p in Path(named).iterdir() if (p / "usr/lib/x86_64-linux-gnu").is_dir()) if named else []


def test_sid() -> None:
    """gfx906 is allowed by code objects and kernel libraries; hipBLASLt has nothing and does not matter; a warm run
    takes under 2 s and 60 MB on six gigabytes of libraries."""
    root = next((p for p in roots() if (p / "usr/lib/x86_64-linux-gnu/librocblas.so.4").exists()), None)
    if root is None:
        pytest.skip("set STILLRUNS_TEST_ROCM to a folder that scripts/fetch_rocm.sh has filled")
    argv = [
        sys.executable,
        "-c",
        MEASURED,
        "check",
        "--json",
        "--no-exec",
        "--target",
        "gfx906",
        "--sysroot",
        str(root),
    ]
    for _ in range(2):
        started = time.perf_counter()
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
        seconds = time.perf_counter() - started
    status = {g["layer"]: (g["status"], g["reason"]) for g in json.loads(done.stdout)["gates"] if g["path"] == "rocm"}
    assert status["code objects"][0] == status["kernel libraries"][0] == status["model needs"][0] == "allow"
    assert "nothing for gfx906, as expected" in status["model needs"][1]
    print(f"{seconds:.2f} s, {done.stderr.strip()} MB")
    assert seconds < 2 and int(done.stderr) < 60
