"""The promise: `stillruns claims` says of each hypothesis what the trials show, in text and as its schema says."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest

from program import ROOT, stillruns

GOLDEN = ROOT / "tests" / "stores" / "replay-v1"

H1 = """
[[hypothesis]]
id = "H1"
text = "Vulkan fails more often than the CPU"
predicts = "pool(c for c in cells if c.side == 'vulkan').rate > pool(c for c in cells if c.backend == 'cpu').rate"
refuted_if = "any(c.passed > 0 for c in cells if c.side == 'vulkan')"
"""


@pytest.fixture()
def store(tmp_path: Path) -> Path:
    """A store with one finished run and three frozen hypotheses."""
    place = tmp_path / "store"
    shutil.copytree(GOLDEN, place)
    return place


def claims(*words: str) -> subprocess.CompletedProcess[str]:
    """`stillruns claims ...`."""
    return stillruns("claims", *words)


def document(*words: str) -> dict[str, dict[str, object]]:
    """id -> claim, checked against the schema."""
    ended = claims("--json", *words)
    assert ended.returncode == 0, ended.stderr
    read = json.loads(ended.stdout)
    jsonschema.validate(read, json.loads((ROOT / "docs/schemas/claims.json").read_text()))
    return {claim["id"]: claim for claim in read["claims"]}


def test_frozen_hypotheses(store: Path) -> None:
    """Each verdict with its run, counts, interval and what would decide it."""
    found = document("--store", str(store))
    assert [found[i]["verdict"] for i in ("gpu-unusable", "H1", "H2")] == ["refuted", "inconclusive", "void"]
    assert {c["frozen"] for c in found.values()} == {"before"}
    assert found["H2"]["untested"]
    text = claims("--store", str(store)).stdout
    for part in ("REFUTED  gpu-unusable", "only for", "not varied", "decide by", "runs"):
        assert part in text


def test_a_changed_hypothesis_is_called_changed(store: Path, tmp_path: Path) -> None:
    """Another hypothesis of the same id is not the one that was frozen."""
    other = tmp_path / "h.toml"
    other.write_text(H1)
    found = document("--store", str(store), "--hypotheses", str(other))
    assert found["H1"]["frozen"] == "changed"
    assert found["H1"]["verdict"] == "refuted"
    assert "changed since it was frozen" in str(found["H1"]["warnings"])


def test_the_library_afterwards(store: Path) -> None:
    """A statement taken from the library after the trials explores."""
    found = document("--store", str(store), "--library", "gpu-computes-faster")
    assert found["gpu-computes-faster"]["frozen"] == "after"
    together = document("last", "--together", "--library", "gpu-computes-faster", "--store", str(store))
    assert set(together) == {"gpu-computes-faster"}


def test_exit_codes(store: Path, tmp_path: Path) -> None:
    """1 for a verdict that --fail-on names, 2 for what cannot be read."""
    assert claims("--store", str(store), "--fail-on", "refuted").returncode == 1
    assert claims("--store", str(store), "--fail-on", "supported").returncode == 0
    assert claims("--store", str(store), "--fail-on", "nonsense").returncode == 2
    bad = tmp_path / "bad.toml"
    bad.write_text(H1.replace("c.passed > 0", "c.__class__ == 1"))
    ended = claims("--store", str(store), "--hypotheses", str(bad))
    assert ended.returncode == 2
    assert "refuted_if of H1" in ended.stderr
    assert claims("--store", str(store), "--library", "nonsense").returncode == 2


def test_the_library_is_listed() -> None:
    """Every statement with its name."""
    ended = claims("--list")
    assert ended.returncode == 0
    for name in (
        "gpu-unusable",
        "num-gpu-is-gpu-count",
        "vulkan-path-unstable",
        "no-mmap-helps",
        "parallel-allocation",
    ):
        assert name in ended.stdout
