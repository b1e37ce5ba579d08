"""The promise: Ollama's filters by NVIDIA's driver are told for the releases that have them, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

import described
import machines
from stillruns.model.gate import Gate, GateMatrix, GatePath, GateStatus, Layer, PathStatus

V100, RTX_4090 = ("10de:1db1", "Tesla V100-SXM2-16GB"), ("10de:2684", "NVIDIA GeForce RTX 4090")
GTX_1060 = ("10de:1c03", "NVIDIA GeForce GTX 1060 6GB")


def matrix(root: Path, card: tuple[str, str], driver: str, *, version: str = "", **ollama: object) -> GateMatrix:
    """A machine with this card and driver, and an Ollama with CUDA 12 and 13; its version only where it is given."""
    facts = {
        "os": "arch",
        "cards": [{"id": card[0], "model": card[1], "address": "0000:01:00.0", "gib": 16}],
        "nvidia": driver,
        "pacman": [f"ollama-cuda-{version}-1"] if version else [],
        "ollama": {"version": version or "0.12.0", "home": "/usr/lib/ollama", **ollama},
    }
    described.build(root, facts, {})
    return machines.judged(machines.of(root))


def both(root: Path, card: tuple[str, str], driver: str, version: str = "") -> tuple[Gate, GatePath]:
    """The filter's verdict and the path's."""
    libraries = {"cuda_v12": "50 60 61 70 75 80 86 89 90 120", "cuda_v13": "75-virtual 80-virtual 89-virtual"}
    found = matrix(root, card, driver, version=version, **libraries)
    return machines.gate(found, Layer.RUNTIME_FILTER, "cuda"), machines.path(found, "cuda")


def test_libraries_by_driver_alone(tmp_path: Path) -> None:
    """0.11.11 gives every card CUDA 13 under driver 580: a V100 has no code there."""
    gate, path = both(tmp_path, V100, "580.82.07", "0.11.11")
    assert gate.status is GateStatus.BLOCK and "cuda_v13" in gate.reason and "0.12.0" in gate.advice
    assert path.status is PathStatus.STOPPED and path.stopped_by == (Layer.RUNTIME_FILTER,)


@pytest.mark.parametrize(
    ("card", "driver", "version"),
    [(RTX_4090, "580.82.07", "0.11.11"), (V100, "575.64.03", "0.11.11"), (V100, "580.82.07", "0.12.0")],
)
def test_who_is_not_concerned(tmp_path: Path, card: tuple[str, str], driver: str, version: str) -> None:
    """A newer card, an older driver, the next release: open."""
    gate, path = both(tmp_path, card, driver, version)
    assert gate.status is GateStatus.ALLOW and path.status is PathStatus.OPEN, gate.reason


def test_a_release_that_nothing_tells(tmp_path: Path) -> None:
    """Where the release may be 0.11.11, the V100's path is unknown, with the reason; the RTX 4090's is open."""
    gate, path = both(tmp_path, V100, "580.82.07")
    assert gate.status is GateStatus.UNKNOWN and gate.doubt and "0.11.11 to 0.24.0" in gate.reason
    assert path.status is PathStatus.UNKNOWN and "runtime filter could not be decided" in path.reason
    libraries = {"cuda_v12": "70 89", "cuda_v13": "75-virtual 89-virtual"}
    advice = matrix(tmp_path / "again", V100, "580.82.07", **libraries).advice
    assert any("0.12.0" in entry.text for entry in advice)
    assert both(tmp_path / "other", RTX_4090, "580.82.07")[1].status is PathStatus.OPEN


@pytest.mark.parametrize(
    ("card", "driver", "status"),
    [
        (V100, "535.288.01", GateStatus.BLOCK),
        (RTX_4090, "535.288.01", GateStatus.BLOCK),
        (V100, "550.90.07", GateStatus.ALLOW),
        (GTX_1060, "565.57.01", GateStatus.BLOCK),
        (GTX_1060, "570.211.01", GateStatus.ALLOW),
        (V100, "", GateStatus.UNKNOWN),
    ],
)
def test_the_oldest_driver(tmp_path: Path, card: tuple[str, str], driver: str, status: GateStatus) -> None:
    """Since 0.30: 550 for every card, 570 for those before Volta."""
    gate, path = both(tmp_path, card, driver or "unknown", "0.30.5")
    assert gate.status is status, gate.reason
    assert (path.status is PathStatus.STOPPED) is (status is GateStatus.BLOCK)


def test_a_build_of_another_cuda(tmp_path: Path) -> None:
    """The floor is that of CUDA 12.4 or 12.8, of which Ollama's own builds are: another build's may be older."""
    names = ("libcudart.so.12", "libcublas.so.12", "libcuda.so.1", "ollama/llama-server")
    files = {"/usr/lib/ollama/libggml-cuda.so": "cuda 70 12", **{f"/usr/lib/{name}": "library" for name in names}}
    facts = {
        "os": "arch",
        "cards": [{"id": V100[0], "model": V100[1], "address": "0000:01:00.0", "gib": 16}],
        "nvidia": "535.288.01",
        "pacman": ["ollama-cuda-0.30.11-1"],
        "files": files,
    }
    described.build(tmp_path, facts, {})
    found = machines.judged(machines.of(tmp_path))
    gate = machines.gate(found, Layer.RUNTIME_FILTER, "cuda")
    assert gate.status is GateStatus.UNKNOWN and gate.doubt and "not laid out like them" in gate.reason
    assert machines.path(found, "cuda").status is PathStatus.UNKNOWN
    assert any("550 or newer" in entry.text for entry in found.advice)


def test_advice_stays_within_the_card_s_branches(tmp_path: Path) -> None:
    """A driver that dropped the card is no advice."""
    gate, _ = both(tmp_path, GTX_1060, "565.57.01", "0.30.5")
    assert "570 or newer (up to branch 580)" in gate.advice
