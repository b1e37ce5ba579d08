"""The promise: a Mesa that does not know the chip opens no Vulkan path; one that nobody read about is not blamed."""

from __future__ import annotations

from pathlib import Path

import pytest

import described
import device_code
import machines
import sysroots
from stillruns.model.gate import GateStatus, Layer, PathStatus

GFX1151, GFX803 = {"id": "1002:1586", "gfx": 110501, "gib": 64}, {"id": "1002:67df", "gfx": 80003, "gib": 8}


def build(root: Path, card: dict[str, object], mesa: str) -> None:
    """A Debian with this card, this Mesa and a llama.cpp with Vulkan."""
    facts = {"os": "debian 12", "cards": [card], "vulkan": {"icd": "radeon", "mesa": mesa},
             "files": {"/usr/lib/ggml/libggml-vulkan.so": "vulkan"}}  # fmt: skip
    described.build(root, facts, {})


@pytest.mark.parametrize(
    ("card", "mesa", "status"),
    [
        (GFX1151, "24.0.9-0ubuntu0.3", PathStatus.STOPPED),
        (GFX1151, "22.3.6-1+deb12u1", PathStatus.STOPPED),
        (GFX1151, "24.2.8-1ubuntu1~24.04.1", PathStatus.OPEN),
        (GFX1151, "odd", PathStatus.OPEN),
        (GFX803, "22.3.6-1+deb12u1", PathStatus.OPEN),
    ],
)
def test_chips_and_releases(tmp_path: Path, card: dict[str, object], mesa: str, status: PathStatus) -> None:
    """Up to the last series that was read without the chip: stopped, with both versions."""
    build(tmp_path, card, mesa)
    matrix = machines.judged(machines.of(tmp_path))
    assert machines.path(matrix, "vulkan").status is status
    gate = machines.gate(matrix, Layer.VULKAN, "vulkan")
    assert (gate.status is GateStatus.BLOCK) is (status is PathStatus.STOPPED)
    if gate.status is GateStatus.BLOCK:
        assert mesa in gate.reason and "gfx1151" in gate.reason and "newer than 24.0" in gate.advice


def test_another_driver_beside_it(tmp_path: Path) -> None:
    """A driver that is not of Mesa may know the chip: its manifest is there, and nothing is blocked."""
    build(tmp_path, GFX1151, "24.0.9-0ubuntu0.3")
    sysroots.vulkan(tmp_path, "amd_icd64", "amdvlk64.so")
    matrix = machines.judged(machines.of(tmp_path))
    assert machines.gate(matrix, Layer.VULKAN, "vulkan").status is GateStatus.PARTIAL


def test_a_mesa_of_the_users_own(tmp_path: Path) -> None:
    """The package's version says nothing of a driver that lies elsewhere."""
    build(tmp_path, GFX1151, "24.0.9-0ubuntu0.3")
    own = "/opt/mesa/lib/libvulkan_radeon.so"
    sysroots.write(tmp_path, own.lstrip("/"), device_code.library())
    for manifest in (tmp_path / "usr/share/vulkan/icd.d").glob("radeon_icd*"):
        manifest.write_text(manifest.read_text().replace("libvulkan_radeon.so", own))
    matrix = machines.judged(machines.of(tmp_path))
    assert machines.gate(matrix, Layer.VULKAN, "vulkan").status is GateStatus.ALLOW
