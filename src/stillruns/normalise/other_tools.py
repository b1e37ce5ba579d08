"""What AMD's own tools and lspci print about the cards, compared with what sysfs says: only what differs is told."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from stillruns.model.card import Card
from stillruns.model.machine import Tool
from stillruns.model.raw import RawCommand

ENUMERATOR = ("rocm_agent_enumerator",)
ROCM_SMI = ("rocm-smi", "--showid", "--showbus", "--showmeminfo", "vram", "--showmaxpower", "--json")
AMD_SMI = ("amd-smi", "list", "--json")
LSPCI = ("lspci", "-Dn")
_AMD = 0x1002


def compare(commands: Sequence[RawCommand], cards: Sequence[Card]) -> tuple[Tool, ...]:
    """Disagreements of every tool that ran and ended well, in the order of the commands."""
    readers = {ENUMERATOR: _enumerator, ROCM_SMI: _rocm_smi, AMD_SMI: _amd_smi, LSPCI: _lspci}
    found: list[Tool] = []
    for command in commands:
        if command.absence is None and command.status == 0 and command.argv in readers:
            found += readers[command.argv](command, cards)
    return tuple(found)


def _mine(cards: Sequence[Card]) -> list[Card]:
    return [card for card in cards if card.vendor == _AMD and card.kfd is not None]


def _enumerator(command: RawCommand, cards: Sequence[Card]) -> list[Tool]:
    listed = sorted(line for line in command.text.split() if re.fullmatch(r"gfx[0-9a-f]+", line) and line != "gfx000")
    ours = sorted(card.processor for card in _mine(cards))
    if listed == ours:
        return []
    says = {"targets": f"{', '.join(listed) or 'none'} where sysfs says {', '.join(ours) or 'none'}"}
    return [Tool("rocm_agent_enumerator", "the machine", says, command.cite("; ".join(listed)))]


def _rocm_smi(command: RawCommand, cards: Sequence[Card]) -> list[Tool]:
    """`{"card0": {"PCI Bus": "0000:04:00.0", "GPU ID": "0x66a1", "VRAM Total Memory (B)": "...", ...}}`; newer
    releases say Device ID. Warnings may stand before the document."""
    rows: dict[str, dict[str, str]] = {}
    for row in _documents(command.text):
        for entry in row.values() if isinstance(row, dict) else ():
            if isinstance(entry, dict) and isinstance(entry.get("PCI Bus"), str):
                facts = {str(key): str(value) for key, value in entry.items()}
                rows[facts["PCI Bus"].lower()] = facts
    if not rows:
        return []
    found = _addresses("rocm-smi", command, set(rows), cards)
    for card in _mine(cards):
        facts = rows.get(card.address, {})
        says: dict[str, str] = {}
        device = facts.get("Device ID", facts.get("GPU ID", ""))
        if (
            card.pci is not None
            and re.fullmatch(r"0x[0-9a-fA-F]{1,4}", device)
            and int(device, 16) != card.pci.device
        ):
            says["device id"] = f"{device} where sysfs says {card.pci.device:#06x}"
        memory = facts.get("VRAM Total Memory (B)", "")
        vram = card.state.vram if card.state else None
        if memory.isdigit() and vram and int(memory) != vram:
            says["memory"] = f"{int(memory) >> 20} MiB where sysfs says {vram >> 20} MiB"
        power = facts.get("Max Graphics Package Power (W)", "")
        cap = card.state.power_cap if card.state else None
        if re.fullmatch(r"\d{1,5}(?:\.\d+)?", power) and cap and abs(float(power) - cap) > 1:
            says["power cap"] = f"{float(power):.0f} W where sysfs says {cap:.0f} W"
        if says:
            found.append(Tool("rocm-smi", card.address, says, command.cite(str(facts)[:200])))
    return found


def _amd_smi(command: RawCommand, cards: Sequence[Card]) -> list[Tool]:
    """`[{"gpu": 0, "bdf": "0000:04:00.0", ...}]`: which cards it knows."""
    listed = {
        entry["bdf"].lower()
        for document in _documents(command.text)
        for entry in (document if isinstance(document, list) else [])
        if isinstance(entry, dict) and isinstance(entry.get("bdf"), str)
    }
    return _addresses("amd-smi", command, listed, cards) if listed else []


def _lspci(command: RawCommand, cards: Sequence[Card]) -> list[Tool]:
    ids = dict(re.findall(r"^(\S+) \w+: ([0-9a-f]{4}:[0-9a-f]{4})", command.text, re.MULTILINE))
    return [
        Tool("lspci", card.address, {"id": f"{ids[card.address]} where sysfs says {card.pci.pci_id}"},
             command.cite(f"{card.address} {ids[card.address]}"))
        for card in cards
        if card.pci is not None and card.address in ids and ids[card.address] != card.pci.pci_id
    ]  # fmt: skip


def _addresses(name: str, command: RawCommand, listed: set[str], cards: Sequence[Card]) -> list[Tool]:
    """Cards that only one side knows."""
    ours = {card.address for card in _mine(cards)}
    if listed == ours:
        return []
    said = {
        "cards": f"{', '.join(sorted(listed)) or 'none'} where KFD has {', '.join(sorted(ours)) or 'none'}",
    }
    return [Tool(name, "the machine", said, command.cite("; ".join(sorted(listed))))]


def _documents(text: str) -> list[object]:
    """The JSON documents in a tool's output, whatever stands around them."""
    found: list[object] = []
    decoder = json.JSONDecoder()
    at = 0
    while len(found) < 4:
        start = min((place for mark in "[{" if (place := text.find(mark, at)) >= 0), default=-1)
        if start < 0:
            break
        try:
            document, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            at = start + 1
            continue
        found.append(document)
    return found
