"""The promise: settings that fight each other are found, and those that only look like it are not."""

from __future__ import annotations

import pytest
from lint_help import NAMES, clashes, ground

from stillruns.judge.recipe.lint import lint
from stillruns.normalise.recipe.reading import read

FIGHT = [
    ("llama-server -ngl 64 -c 1 --n-gpu-layers 99", "overrides"),
    ("llama-server -ngl 99 -ngl 99", "says the same twice"),
    ("llama-server -kvo --no-kv-offload", "overrides"),
    ("LLAMA_ARG_N_GPU_LAYERS=1 llama-server -ngl 99", "on the command line overrides LLAMA_ARG_N_GPU_LAYERS=1"),
    ("ROCR_VISIBLE_DEVICES=1 HIP_VISIBLE_DEVICES=1 llama-server", "hide every GPU"),
    (
        "export ROCR_VISIBLE_DEVICES=0,1\nexport HIP_VISIBLE_DEVICES=0,2\nllama-server",
        "index 2 of HIP_VISIBLE_DEVICES",
    ),
    ("HIP_VISIBLE_DEVICES=0 CUDA_VISIBLE_DEVICES=1 llama-server", "wins over CUDA_VISIBLE_DEVICES"),
    ("GGML_VK_VISIBLE_DEVICES=2 llama-server -dev Vulkan2", "Vulkan2 does not exist"),
    ("llama-server -mg 1", "does nothing with the layer split"),
    ("llama-server -sm none -ts 1,1", "uses one GPU only"),
    ("llama-server -dev none -ngl 99", "takes every GPU away"),
    ("llama-server -fa off -ctv q8_0", "needs flash attention"),
    ("export HIP_VISIBLE_DEVICES=0\nexport HIP_VISIBLE_DEVICES=1\nllama-server", "before anything starts"),
    (
        "echo 'export HSA_OVERRIDE_GFX_VERSION=9.0.6' >> ~/.bashrc\nsystemctl restart ollama",
        "systemd starts the server",
    ),
    ("export HSA_OVERRIDE_GFX_VERSION=9.0.6\nsudo systemctl restart ollama", "systemd starts the server"),
    ("OLLAMA_VULKAN=1 ollama run llama3", "only talks to a server"),
    ("# -ngl 64 on an 80+ layer model leaves 35 layers on the CPU\nllama-cli -m x", "17 repeating layers"),
    ("# 80 layers, so 35 layers on the CPU\nllama-cli -ngl 64", "35 would stay with 98"),
    ("# 4 x 16 GB = 72 GB\nllama-cli", "4 x 16 GB is 64, not 72"),
    ("# 64 + 35 = 98 layers\nllama-cli", "is 99, not 98"),
    ("# 10 / 4 = 4\nllama-cli", "is 2.5, not 4"),
]

PEACE = [
    "llama-server -ot a=CPU -ot b=CPU --lora x --lora y",
    "llama-bench -ngl 1 -ngl 99 -p 1 -p 2",
    "llama-server -ngl 1\nllama-server -ngl 2",
    "ROCR_VISIBLE_DEVICES=1 HIP_VISIBLE_DEVICES=0 llama-server",
    "HIP_VISIBLE_DEVICES=0 llama-server -ngl 1\nHIP_VISIBLE_DEVICES=1 llama-server -ngl 1",
    "export A_B=1\nllama-server\nexport A_B=2\nllama-server",
    "GGML_VK_VISIBLE_DEVICES=2,3 llama-server -dev Vulkan1",
    "llama-server -sm none -mg 1",
    "LLAMA_ARG_N_GPU_LAYERS=99 llama-server -ngl 99",
    "export HSA_OVERRIDE_GFX_VERSION=9.0.6\nollama serve",
    "OLLAMA_HOST=1.2.3.4 ollama run x",
    "# 4 x 16 GB = 64 GB, 64 + 35 = 99, 10 / 4 = 2.5, a-1 = 3, 2026-11-30 = today, v1.2 + 3 = 9\nllama-cli",
    "# -ngl 64 on an 80 layer model leaves 17 layers on the CPU\nllama-cli -m x",
    "llama-server --spec-type a --spec-type b",
]


@pytest.mark.parametrize(("recipe", "reason"), FIGHT, ids=[case[0][:50] for case in FIGHT])
def test_fights(recipe: str, reason: str) -> None:
    """Each of these is a conflict with its reason."""
    found = clashes(recipe)
    assert any(reason in why for why in found), found


@pytest.mark.parametrize("recipe", PEACE, ids=[case[:50] for case in PEACE])
def test_peace(recipe: str) -> None:
    """None of these is one."""
    assert clashes(recipe) == []


def test_across_files() -> None:
    """~/.bashrc and the unit that systemd starts: the setting in the wrong file is the one that is named."""
    bashrc = read("/home/a/.bashrc", "export HIP_VISIBLE_DEVICES=0\n", NAMES)
    unit = read("ollama.service", "[Service]\nExecStart=/usr/bin/ollama serve\n", NAMES)
    first, second = lint([bashrc, unit], ground(), ())
    clash = [item for item in first.items if item.verdict.value == "conflict"]
    assert len(clash) == 1
    assert clash[0].use == 'in the unit, under [Service]: Environment="HIP_VISIBLE_DEVICES=0"'
    assert [cited.kind for cited in clash[0].evidence] == ["recipe", "recipe", "manual"]
    assert all(item.good for item in second.items)


def test_both_places_are_cited() -> None:
    """A duplicate cites both lines and the option's own line."""
    item = next(
        i for i in lint([read("x.sh", "llama-cli -ngl 1 \\\n -ngl 2\n", NAMES)], ground(), ())[0].items if i.use
    )
    assert [cited.place for cited in item.evidence][:2] == ["x.sh:1", "x.sh:2"]
