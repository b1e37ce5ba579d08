"""The promise: a card that NVIDIA dropped is known by its PCI id, and its newest driver is named where one too new is
installed."""

from __future__ import annotations

from pathlib import Path

import pytest

import described
import machines
from stillruns.catalogue.gate_tables import tables
from stillruns.model.gate import GateMatrix, GateStatus, Layer, PathStatus


def matrix(root: Path, pci_id: str, driver: str, *, bound: str = "", log: tuple[str, ...] = ()) -> GateMatrix:
    """A machine with this card, held by no driver or `bound`, and NVIDIA's libraries of a version."""
    facts = {"os": "arch", "nvidia": driver, "log": list(log),
             "cards": [{"id": pci_id, "driver": bound, "address": "0000:01:00.0", "gib": 2, "model": "NVIDIA X"}],
             "files": {"/usr/lib/ollama/libggml-cuda.so": "cuda 61,75 12"}}  # fmt: skip
    described.build(root, facts, {})
    return machines.judged(machines.of(root))


@pytest.mark.parametrize(
    ("pci_id", "target"),
    [("10de:1c81", "sm_61"), ("10de:13c2", "sm_52"), ("10de:15f8", "sm_60"), ("10de:1db4", "sm_70"),
     ("10de:102d", "sm_37"), ("10de:1380", "sm_50")],
)  # fmt: skip
def test_targets_by_chip(pci_id: str, target: str) -> None:
    """The chip decides, whatever a vendor calls the card."""
    assert tables().gpus[pci_id].target == target


def test_a_driver_that_dropped_the_card(tmp_path: Path) -> None:
    """No driver holds it, and the installed branch came after its last: both branches are named, and one advice."""
    found = matrix(tmp_path, "10de:1c81", "590.48.01")
    gate = machines.gate(found, Layer.KERNEL_DRIVER, "cuda")
    assert gate.status is GateStatus.BLOCK and "590.48.01" in gate.reason and "580 is the last" in gate.reason
    assert machines.path(found, "cuda").status is PathStatus.STOPPED
    branch = [entry.text for entry in found.advice if "branch 580" in entry.text]
    assert branch == ["install NVIDIA's driver (branch 580: newer ones dropped sm_61)"]


@pytest.mark.parametrize(("pci_id", "driver"), [("10de:1c81", "580.95.05"), ("10de:2684", "595.71.05")])
def test_other_reasons(tmp_path: Path, pci_id: str, driver: str) -> None:
    """Within the card's branches, or of a card that none dropped: the driver is to be loaded, not replaced."""
    gate = machines.gate(matrix(tmp_path, pci_id, driver), Layer.KERNEL_DRIVER, "cuda")
    assert gate.status is GateStatus.BLOCK and gate.reason == "no driver holds the card"


def test_a_mobile_card_of_an_older_chip(tmp_path: Path) -> None:
    """A GTX 780M is no GTX 780: nothing that was read tells its target, and none is invented."""
    card = {"id": "10de:119f", "model": "GeForce GTX 780M", "address": "0000:01:00.0", "gib": 4}
    described.build(tmp_path, {"os": "arch", "nvidia": "390.157", "cards": [card]}, {})
    (found,) = machines.of(tmp_path).cards
    assert found.target == ""
