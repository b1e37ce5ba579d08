"""The program as a user calls it: a process of its own, from this checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema

ROOT = Path(__file__).parents[1]
PROGRAM = (sys.executable, "-m", "stillruns")


def environment(**more: str) -> dict[str, str]:
    """Ours, with the source tree first, the program on PATH under its name, and the width of no terminal."""
    plain = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    path = os.pathsep.join((str(ROOT / "tests" / "bin"), os.environ.get("PATH", "")))
    ours = {"PYTHONPATH": str(ROOT / "src"), "PATH": path, "STILLRUNS_TEST_PYTHON": sys.executable}
    return {**plain, **ours, **more}


def stillruns(*words: str | Path, timeout: float = 280, **more: str) -> subprocess.CompletedProcess[str]:
    """A verb with its words; `more` are variables of its environment."""
    return subprocess.run(
        [*PROGRAM, *map(str, words)],
        capture_output=True, text=True, timeout=timeout, env=environment(**more), check=False,
    )  # fmt: skip


def run_document(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What `run --json` printed, which its schema accepts."""
    assert ended.stdout, ended.stderr
    document = json.loads(ended.stdout)
    jsonschema.validate(document, json.loads((ROOT / "docs/schemas/run.json").read_text()))
    assert isinstance(document, dict)
    return document
