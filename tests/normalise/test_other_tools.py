"""The promise: what AMD's tools and lspci say differently from sysfs is told with both values, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import machines
import sysroots
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.card import Card
from stillruns.model.raw import RawCommand
from stillruns.normalise import other_tools as tools


@pytest.fixture()
def cards(tmp_path: Path) -> tuple[Card, ...]:
    """One MI50 of 16 GiB."""
    sysroots.mi50(tmp_path)
    return machines.of(tmp_path).cards


def rocm_smi(**changes: str) -> RawCommand:
    """rocm-smi's JSON for that card, some values changed."""
    facts = {
        "GPU ID": "0x66a1", "PCI Bus": "0000:04:00.0", "VRAM Total Memory (B)": str(16 << 30),
        "Max Graphics Package Power (W)": "225.0",
    }  # fmt: skip
    text = "WARNING: AMD GPU device(s) is/are in a low-power state\n" + json.dumps({"card0": {**facts, **changes}})
    return RawCommand(tools.ROCM_SMI, 0, text.encode())


def test_agreement_is_silent(cards: tuple[Card, ...]) -> None:
    """Every tool that says the same says nothing here."""
    commands = [
        RawCommand(tools.ENUMERATOR, 0, b"gfx000\ngfx906\n"),
        rocm_smi(),
        RawCommand(tools.AMD_SMI, 0, b'[{"gpu": 0, "bdf": "0000:04:00.0", "uuid": "x"}]'),
        RawCommand(tools.LSPCI, 0, b"0000:04:00.0 0380: 1002:66a1 (rev 01)\n"),
    ]
    assert tools.compare(commands, cards) == ()


def test_differences(cards: tuple[Card, ...]) -> None:
    """Each difference names both sides and the card."""
    (found,) = tools.compare([rocm_smi(**{"VRAM Total Memory (B)": str(32 << 30)})], cards)
    assert found.address == "0000:04:00.0" and found.says == {"memory": "32768 MiB where sysfs says 16384 MiB"}
    (found,) = tools.compare([rocm_smi(**{"Max Graphics Package Power (W)": "150.0", "GPU ID": "0x66af"})], cards)
    assert set(found.says) == {"power cap", "device id"}
    (found,) = tools.compare([rocm_smi(**{"PCI Bus": "0000:09:00.0"})], cards)
    assert found.says["cards"] == "0000:09:00.0 where KFD has 0000:04:00.0"
    (found,) = tools.compare([RawCommand(tools.ENUMERATOR, 0, b"gfx000\ngfx900\n")], cards)
    assert found.says["targets"] == "gfx900 where sysfs says gfx906"
    (found,) = tools.compare([RawCommand(tools.AMD_SMI, 0, b'[{"bdf": "0000:05:00.0"}]')], cards)
    assert "0000:05:00.0" in found.says["cards"]
    (found,) = tools.compare([RawCommand(tools.LSPCI, 0, b"0000:04:00.0 0380: 1002:66af\n")], cards)
    assert found.says["id"] == "1002:66af where sysfs says 1002:66a1"


@pytest.mark.parametrize("text", ["", "{", "[[[[", '{"card0": 3}', "{}" * 50, '{"a": {"PCI Bus": 7}}', "not json"])
def test_other_outputs(cards: tuple[Card, ...], text: str) -> None:
    """Tools that print something else say nothing about the cards."""
    commands = [RawCommand(argv, 0, text.encode()) for argv in (tools.ROCM_SMI, tools.AMD_SMI, tools.LSPCI)]
    assert tools.compare(commands, cards) == ()


def test_tools_that_did_not_run(cards: tuple[Card, ...]) -> None:
    """An absence or a failure is no disagreement."""
    absent = Absence(AbsenceReason.NOT_INSTALLED, "rocm-smi is not installed")
    assert tools.compare([RawCommand(tools.ROCM_SMI, absence=absent)], cards) == ()
    assert tools.compare([RawCommand(tools.ENUMERATOR, 1, b"gfx900\n")], cards) == ()
