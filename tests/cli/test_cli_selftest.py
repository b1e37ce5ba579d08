"""The promise: a selftest that is stopped tells what it found until then."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "schemas" / "selftest.json").read_text())


def started(store: Path, *words: str) -> subprocess.Popen[str]:
    """A selftest in a process of its own."""
    argv = [sys.executable, "-m", "stillruns", "selftest", "--json", "--store", str(store), *words]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ})


def recorded(store: Path, kind: str, cell: str = "") -> int:
    """Records of this kind, of the cells whose name holds `cell`, that are on disk."""
    lines = [line for file in store.glob("journal/*.jsonl") for line in file.read_text().splitlines()]
    return sum(f'"kind":"{kind}"' in line and cell in line for line in lines)


def stopped_once(store: Path, child: subprocess.Popen[str], kind: str, cell: str = "") -> tuple[str, str]:
    """What a selftest that got Ctrl-C right after such a record wrote to stdout and stderr."""
    limit = time.monotonic() + 120
    while not recorded(store, kind, cell):
        assert child.poll() is None and time.monotonic() < limit
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    return child.communicate(timeout=60)


@pytest.mark.engine()
def test_ctrl_c_loses_no_result(tmp_path: Path) -> None:
    """The document holds what had ended, says what had not, and the exit status is that of Ctrl-C."""
    with started(tmp_path / "store", "--kind", "segv") as child:
        output, notes = stopped_once(tmp_path / "store", child, "trial_ended", ":segv")
    assert child.returncode == 130, notes
    document = json.loads(output)
    jsonschema.validate(document, SCHEMA)
    assert 1 <= len(document["results"]) < 7
    assert all(result["right"] for result in document["results"]), document["results"]
    assert len(document["skipped"]) == 7 - len(document["results"])
    assert document["stopped"] in notes and "the next one begins anew" in notes


@pytest.mark.engine()
@pytest.mark.parametrize("moment", ["run_started", "trial_started"])
def test_ctrl_c_before_the_first_fault(tmp_path: Path, moment: str) -> None:
    """Nothing of nothing is no result: one sentence, no document, however early it comes."""
    with started(tmp_path / "store", "--kind", "segv") as child:
        output, notes = stopped_once(tmp_path / "store", child, moment)
    assert (child.returncode, output) == (130, ""), notes
    assert "kept" in notes.splitlines()[-1] and "Traceback" not in notes
    if moment == "trial_started":
        assert "what ran is kept" in notes, notes
