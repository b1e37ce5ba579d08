"""The promise: a selftest that is stopped tells what it found until then."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import jsonschema
import pytest

from program import PROGRAM, environment
from stillruns.act.shim.faults import FAULTS
from stillruns.store.verify import verify

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "schemas" / "selftest.json").read_text())


def started(store: Path, *words: str) -> subprocess.Popen[str]:
    """A selftest in a process of its own."""
    argv = [*PROGRAM, "selftest", "--json", "--store", str(store), *words]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())


def recorded(store: Path, kind: str, cell: str = "") -> int:
    """Records of this kind, of the cells whose name holds `cell`, that are on disk."""
    lines = [line for file in store.glob("journal/*.jsonl") for line in file.read_text().splitlines()]
    return sum(f'"kind":"{kind}"' in line and cell in line for line in lines)


def stopped_once(store: Path, child: subprocess.Popen[str], kind: str, cell: str = "") -> tuple[str, str]:
    """What a selftest that got Ctrl-C right after such a record wrote to stdout and stderr."""
    limit = time.monotonic() + 240
    while not recorded(store, kind, cell):
        assert child.poll() is None and time.monotonic() < limit
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    return child.communicate(timeout=120)


ALL = sum(fault.kind == "segv" and fault.needs == "any" for fault in FAULTS)


@pytest.mark.engine()
@pytest.mark.usefixtures("shim")  # which skips without a compiler
@pytest.mark.parametrize(("moment", "cell"), [("run_started", ""), ("trial_started", ""), ("trial_ended", ":segv")])
def test_ctrl_c_loses_no_result(tmp_path: Path, moment: str, cell: str) -> None:
    """The document holds what had ended and says what had not; nothing of nothing is one sentence and no document.

    The signal is sent right after a record. How far the selftest has come when it is heard is the machine's business,
    so what is right is read from the journal: a stop after the last fault finds nothing to tell of (it then strikes
    the judging, or comes too late).
    """
    store = tmp_path / "store"
    with started(store, "--kind", "segv") as child:
        output, notes = stopped_once(store, child, moment, cell)
    ended = recorded(store, "trial_ended", ":segv")
    assert "Traceback" not in notes and not verify(store).problems
    if recorded(store, "run_paused"):
        assert child.returncode == 130, notes
        assert "the next one begins anew" in notes.splitlines()[-1], notes
        assert bool(output) == bool(ended)
    elif moment == "run_started" and not recorded(store, "trial_started"):
        assert (child.returncode, output) == (130, ""), notes
        assert notes.splitlines()[-1] == "stillruns: interrupted; what was recorded so far is kept."
    else:
        assert ended == ALL and child.returncode in (0, 130), notes
    if output:
        document = json.loads(output)
        jsonschema.validate(document, SCHEMA)
        assert len(document["results"]) == ended
        assert all(result["right"] for result in document["results"]), document["results"]
        assert len(document["skipped"]) == ALL - ended
        assert bool(document["stopped"]) == bool(recorded(store, "run_paused"))
        assert not document["stopped"] or document["stopped"] in notes
