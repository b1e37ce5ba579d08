"""The KFD topology: bytes of sysfs to nodes. Old kernels (no gfx_target_version line) and new ones."""

from __future__ import annotations

import re

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.card import KfdNode
from stillruns.model.machine import Kfd
from stillruns.model.raw import Cite, Collected, RawFile

_BASE = "/sys/class/kfd/kfd/topology/nodes/"
_SRAM_ECC = 1 << 26
"""HSA_CAP_SRAM_EDCSUPPORTED since Linux 5.12 (kfd_topology.h); bit 19 before, which user mode never trusted."""


def parse(raw: Collected) -> Kfd | Absence:
    """The topology; an absence when nothing was collected. A machine without KFD has `present` False."""
    if not raw.files:
        return Absence(AbsenceReason.NOT_COLLECTED, "/sys/class/kfd was not looked at")
    door = raw.file("/sys/class/kfd")
    nodes = []
    for file in raw.files:
        match = re.fullmatch(re.escape(_BASE) + r"(\d{1,6})/properties", file.path)
        if match and file.data is not None:
            nodes.append(_node(raw, int(match[1]), file))
    present = bool(nodes) or (door is not None and door.kind == "folder")
    cite = door.cite("" if present else "there is no /sys/class/kfd") if door else Cite("/sys/class/kfd")
    return Kfd(present, tuple(sorted(nodes, key=lambda node: node.number)), cite)


def pairs(text: str) -> dict[str, int]:
    """`key value` lines with whole numbers; other lines are left out."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and re.fullmatch(r"\d{1,20}", words[1]):
            found[words[0]] = int(words[1])
    return found


def _node(raw: Collected, number: int, file: RawFile) -> KfdNode:
    facts = pairs(file.text)
    line, excerpt = _line_of(file.text, "gfx_target_version") or _line_of(file.text, "simd_count") or (1, "")
    capability = facts.get("capability")
    return KfdNode(
        number=number,
        name=raw.text(f"{_BASE}{number}/name") or "",
        simd_count=facts.get("simd_count", 0),
        version=facts.get("gfx_target_version"),
        vendor=facts.get("vendor_id", 0),
        device=facts.get("device_id", 0),
        address=_address(facts),
        render_minor=facts.get("drm_render_minor", 0),
        memory=_memory(raw, number) or facts.get("local_mem_size", 0),
        sramecc=None if capability is None else bool(capability & _SRAM_ECC),
        fw_version=facts.get("fw_version"),
        links=_links(raw, number),
        cite=file.cite(excerpt, line),
    )


def _address(facts: dict[str, int]) -> str:
    """domain and location_id (bus, device, function packed as in PCI) to an address; empty for CPUs."""
    location = facts.get("location_id", 0)
    if not location or not facts.get("vendor_id"):
        return ""
    domain = facts.get("domain", 0)
    return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7:x}"


def _memory(raw: Collected, number: int) -> int:
    """The sum of the node's local banks (heap types 1 and 2: frame buffer public and private)."""
    total = 0
    for file in raw.under(f"{_BASE}{number}/mem_banks"):
        bank = pairs(file.text)
        if bank.get("heap_type") in (1, 2):
            total += bank.get("size_in_bytes", 0)
    return total


def _links(raw: Collected, number: int) -> tuple[int, ...]:
    found = set()
    for folder in ("io_links", "p2p_links"):
        for file in raw.under(f"{_BASE}{number}/{folder}"):
            target = pairs(file.text).get("node_to")
            if target is not None:
                found.add(target)
    return tuple(sorted(found))


def _line_of(text: str, key: str) -> tuple[int, str] | None:
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(key + " "):
            return number, line
    return None
