"""The promise: every id that advice prints can be looked up, whole, by a person and by a program."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from stillruns.catalogue import load
from stillruns.cli.workarounds import command
from stillruns.errors import UsageError

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schemas/workarounds.json").read_text(encoding="utf-8"))


def said(*words: str) -> str:
    """What the verb prints."""
    done = CliRunner().invoke(command, list(words), catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_one() -> None:
    """The change, its way back, its risk and its source."""
    text = said("override-gfx-neighbour")
    (entry,) = [entry for entry in load.workarounds() if entry.id == "override-gfx-neighbour"]
    for label in ("change", "see it", "undo", "risk", "source"):
        assert f"\n  {label}" in text
    assert "HSA_OVERRIDE_GFX_VERSION=10.3.0" in text and entry.sources[0] in " ".join(text.split())
    assert all(len(line) <= 110 for line in text.splitlines())


def test_all_and_by_target() -> None:
    """A line each, settings before builds and builds before hardware, and the sentence that one is enough; a target
    leaves those that fit it."""
    *every, blank, order = said().splitlines()
    known = {entry.id: entry.kind.value for entry in load.workarounds()}
    names = [line.split()[0] for line in every]
    assert sorted(names) == sorted(known) and not blank and "one of them is enough" in order
    kinds = list(dict.fromkeys(known[name] for name in names))
    assert kinds == ["override", "runtime", "system", "build", "hardware"]
    mine = {line.split()[0] for line in said("--target", "gfx1031").splitlines() if line}
    assert "override-gfx-neighbour" in mine and "copy-gfx906-tensile-files" not in mine
    assert {"amdgpu-no-runpm", "power-cap", "groups-and-permissions"} < mine


def test_each_maker_has_its_own() -> None:
    """Nothing that only ROCm or amdgpu has is listed for NVIDIA's, nor CUDA's for AMD's."""
    nvidia = {line.split()[0] for line in said("--target", "sm_61").splitlines() if line}
    assert not {name for name in nvidia if "amdgpu" in name or "rocm" in name}
    entries = [entry for entry in load.workarounds() if entry.id in nvidia]
    assert all(not entry.backends or {"cuda", "vulkan"} & set(entry.backends) for entry in entries)
    assert {"load-without-mmap", "mesa-shader-cache"} <= nvidia


def test_document() -> None:
    """The JSON document keeps its schema."""
    document = json.loads(said("--json"))
    jsonschema.validate(document, SCHEMA)
    assert len(document["workarounds"]) == len(load.workarounds())


@pytest.mark.parametrize("words", [["override-gfx-neighbor"], ["nothing-like-it"], ["--target", "vega"]], ids=str)
def test_usage(words: list[str]) -> None:
    """What is no id, or no target, is one sentence; a slip of the pen gets the id that was meant."""
    with pytest.raises(UsageError) as refused:
        CliRunner().invoke(command, words, catch_exceptions=False)
    assert "\n" not in str(refused.value)
    if words == ["override-gfx-neighbor"]:
        assert "override-gfx-neighbour" in str(refused.value)
