"""The promise: what a run would cost and could show is told beforehand, without starting anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

from experiments import small
from program import ROOT, stillruns


def spec(folder: Path, **stop: object) -> Path:
    """Two cells on a device, of a model that is not here, each of half a minute."""
    layers = {"gpu_layers": [0, 1]}
    return small(folder / "s.toml", {"id": "vulkan"}, matrix=layers, stop=stop, model="gone.gguf", duration=30)


def said(*words: str | Path) -> str:
    """What the program prints; it must end well."""
    ended = stillruns(*words)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def document(*words: str | Path) -> Any:
    """The same as a document that keeps its schema."""
    read = json.loads(said(*words, "--json"))
    jsonschema.validate(read, json.loads((ROOT / "docs/schemas/plan.json").read_text()))
    return read


def test_a_plan_starts_nothing(tmp_path: Path) -> None:
    """The model need not be there; cells, trials, the least time, and what no failure would show."""
    plan = document("run", spec(tmp_path, trials=6), "--plan")["plan"]
    assert plan["cells"] == ["backend=vulkan,gpu_layers=0", "backend=vulkan,gpu_layers=1"]
    assert (plan["trials"], plan["at_most"], plan["least_seconds"]) == (14, False, 360)
    assert "not known until each cell has run once" in plan["cost"]
    assert "below 45.9 %" in plan["shows"]


def test_the_question_of_a_sequential_test(tmp_path: Path) -> None:
    """`to tell 5 % from 50 % failures at 5 % errors you need at most 11 trials`, for a spec and for two rates."""
    sequential = spec(tmp_path, decide={"fail_below": 0.05, "fail_above": 0.5})
    assert "you need at most 11 trials" in said("run", sequential, "--plan")
    assert "you need at most 11 trials" in said("run", "--trials-for", "5%,50%")
    asked = document("run", "--trials-for", "0.05,0.2,1%")["question"]
    assert asked["rule"] == {"fail_below": 0.05, "fail_above": 0.2, "error": 0.01}
    assert asked["fixed"] > 50
