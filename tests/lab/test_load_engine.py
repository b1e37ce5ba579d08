"""The promise: a server bears the load that the spec says, and its own lines prove it; the trial counts once, and
where it dies, survival knows when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments import CPU, Table, small
from program import run_document, stillruns
from stillruns.act.shim import faults

pytestmark = pytest.mark.engine


def run(folder: Path, *backends: Table, matrix: Table | None = None, trials: int = 1, **load: object) -> Any:
    """The document of a run."""
    spec = small(
        folder / "s.toml",
        *backends,
        matrix=matrix,
        stop={"trials": trials},
        reference="none",
        **{"predict": 32, **load},
    )
    ended = stillruns("run", spec, "--json", "--store", folder / "store")
    assert ended.returncode == 0, ended.stderr
    return run_document(ended)


def sick(fault: str, shim: Path) -> Table:
    """The CPU with a fault in it."""
    return {"id": "sick", "backend": "cpu", "env": faults.environment(fault, shim)}


@pytest.mark.slow()
def test_slots_and_long_prompts(tmp_path: Path) -> None:
    """Four slots share the context, so four times as much is asked; the prompt has the tokens that the axis says.

    Many tokens are asked for, so that the first answer is not over before the last request is sent, on whatever
    machine.
    """
    document = run(tmp_path, matrix={"concurrency": [1, 4], "prompt_tokens": [20, 90]}, predict=400, context=512)
    assert [c["applied"] for c in document["cells"]] == [1, 1, 1, 1]
    for trial in document["trials"]:
        if "concurrency=4" in trial["cell"]:
            assert trial["served"]["at_once"] == 4
            assert [s["tokens"] for s in trial["served"]["slots"]] == [400] * 4
            assert "4 requests at once on 4 slots" in trial["why"]
            assert trial["tokens_per_second"] is not None
        else:
            assert "served" not in trial


@pytest.mark.slow()
def test_a_duration_is_asked_out(tmp_path: Path) -> None:
    """Asked again and again for two seconds; the trial counts once, and every answer is the first one's."""
    document = run(tmp_path, duration=2)
    (trial,) = document["trials"]
    assert document["cells"][0]["applied"] == 1
    assert trial["served"]["requests"] == trial["served"]["answered"] >= 2
    assert trial["served"]["seconds"] >= 2
    assert trial["served"]["different"] == 0
    assert document["survival"] == []


@pytest.mark.slow()
def test_time_to_failure(tmp_path: Path, shim: Path) -> None:
    """A fault at the 45th computation of a token, in the second request: its side dies after some 45 tokens (those of
    the second that were not sent yet die with it), the healthy one is censored at 96, and each trial counts once."""
    document = run(tmp_path, CPU, sick("decode:segv:45", shim), trials=2, epochs=3)
    well, ill = document["cells"]
    assert (well["passed"], ill["passed"], ill["outcomes"]) == (2, 0, {"crash": 2})
    assert set(ill["phases"]) <= {"decode", "prompt"} and sum(ill["phases"].values()) == 2
    curves = {(c["cell"].split(",")[0], c["unit"]): c for c in document["survival"]}
    assert (curves["backend=cpu", "tokens"]["deaths"], curves["backend=cpu", "tokens"]["longest"]) == (0, 96)
    step = curves["backend=sick", "tokens"]["curve"][-1]
    assert (step["died"], step["survival"]) == (2, 0) or step["survival"] == 0
    assert 32 <= step["at"] <= 50
    assert 0 < curves["backend=sick", "seconds"]["longest"] < 60
    # in seconds only where the healthy side is still watched when the other dies, which hangs on the load
    assert "tokens" in {test["unit"] for test in document["log_rank"]}


def test_a_fault_with_slots(tmp_path: Path, shim: Path) -> None:
    """A server that dies while four slots are served: one trial, one crash, and no lane hangs."""
    document = run(tmp_path, sick("decode:segv:10", shim), concurrency=4)
    assert document["cells"][0]["outcomes"] == {"crash": 1}
    assert document["trials"][0]["served"]["answered"] == 0
