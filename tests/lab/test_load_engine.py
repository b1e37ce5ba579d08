"""The promise: a server bears the load that the spec says, and its own lines prove it; the trial counts once, and
where it dies, survival knows when."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from stillruns.act.shim import build, faults

ROOT = Path(__file__).parents[2]
SPEC = """
[experiment]
name = "t"
model = "synth:llama?layers=2&type=F16"
predict = {predict}
context = {context}
reference = "none"
{experiment}
{backends}
{rest}
"""
CPU = '[[backend]]\nid = "cpu"\n'

pytestmark = pytest.mark.engine


def run(
    folder: Path, experiment: str = "", backends: str = CPU, rest: str = "[stop]\ntrials = 1\n", predict: int = 32
) -> dict[str, Any]:
    """The document of a run."""
    spec = folder / "s.toml"
    spec.write_text(
        SPEC.format(predict=predict, context=96 + predict, experiment=experiment, backends=backends, rest=rest)
    )
    ended = subprocess.run(
        [sys.executable, "-m", "stillruns", "run", str(spec), "--json", "--store", str(folder / "store")],
        capture_output=True, text=True, timeout=240, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    jsonschema.validate(document, json.loads((ROOT / "docs/schemas/run.json").read_text()))
    assert isinstance(document, dict)
    return document


def test_slots_and_long_prompts(tmp_path: Path) -> None:
    """Four slots share the context, so four times as much is asked; the prompt has the tokens that the axis says.

    Many tokens are asked for, so that the first answer is not over before the last request is sent, on whatever
    machine.
    """
    matrix = "[matrix]\nconcurrency = [1, 4]\nprompt_tokens = [20, 90]\n[stop]\ntrials = 1\n"
    document = run(tmp_path, rest=matrix, predict=400)
    assert [c["applied"] for c in document["cells"]] == [1, 1, 1, 1]
    for trial in document["trials"]:
        if "concurrency=4" in trial["cell"]:
            assert trial["served"]["at_once"] == 4
            assert [s["tokens"] for s in trial["served"]["slots"]] == [400] * 4
            assert "4 requests at once on 4 slots" in trial["why"]
            assert trial["tokens_per_second"] is not None
        else:
            assert "served" not in trial


def test_a_duration_is_asked_out(tmp_path: Path) -> None:
    """Asked again and again for two seconds; the trial counts once, and every answer is the first one's."""
    document = run(tmp_path, "duration = 2")
    (trial,) = document["trials"]
    assert document["cells"][0]["applied"] == 1
    assert trial["served"]["requests"] == trial["served"]["answered"] >= 2
    assert trial["served"]["seconds"] >= 2
    assert trial["served"]["different"] == 0
    assert document["survival"] == []


def test_time_to_failure(tmp_path: Path) -> None:
    """A fault at the 45th computation of a token, in the second request: its side dies after some 45 tokens, the
    healthy one is censored at 96, and each trial counts once."""
    shim = build.build(None, tmp_path / "shim")
    env = faults.environment("decode:segv:45", shim)
    sick = ", ".join(f'{name} = "{value}"' for name, value in env.items())
    backends = CPU + f'[[backend]]\nid = "sick"\nbackend = "cpu"\nenv = {{ {sick} }}\n'
    document = run(tmp_path, "epochs = 3", backends, "[stop]\ntrials = 2\n")
    well, ill = document["cells"]
    assert (well["passed"], ill["passed"], ill["outcomes"]) == (2, 0, {"crash": 2})
    assert ill["phases"] == {"decode": 2}
    curves = {(c["cell"].split(",")[0], c["unit"]): c for c in document["survival"]}
    assert (curves["backend=cpu", "tokens"]["deaths"], curves["backend=cpu", "tokens"]["longest"]) == (0, 96)
    step = curves["backend=sick", "tokens"]["curve"][-1]
    assert (step["died"], step["survival"]) == (2, 0) or step["survival"] == 0
    assert 40 <= step["at"] <= 50
    assert 0 < curves["backend=sick", "seconds"]["longest"] < 60
    # in seconds only where the healthy side is still watched when the other dies, which hangs on the load
    assert "tokens" in {test["unit"] for test in document["log_rank"]}


def test_a_fault_with_slots(tmp_path: Path) -> None:
    """A server that dies while four slots are served: one trial, one crash, and no lane hangs."""
    env = faults.environment("decode:segv:10", build.build(None, tmp_path / "shim"))
    sick = ", ".join(f'{name} = "{value}"' for name, value in env.items())
    backends = f'[[backend]]\nid = "sick"\nbackend = "cpu"\nenv = {{ {sick} }}\n'
    document = run(tmp_path, "concurrency = 4", backends)
    assert document["cells"][0]["outcomes"] == {"crash": 1}
    assert document["trials"][0]["served"]["answered"] == 0
