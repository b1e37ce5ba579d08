"""What a Vulkan device lacks of what ggml-vulkan needs, and what its driver is."""

from __future__ import annotations

import dataclasses

from stillruns.judge.gates.path_view import PathView
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.machine import Vulkan
from stillruns.model.raw import Cite
from stillruns.model.vulkan_limits import VulkanLimits

_LAYER = Layer.VULKAN
_AMD = 0x1002
_SOURCE = "ggml-org/llama.cpp ggml/src/ggml-vulkan/ggml-vulkan.cpp@b11434"
_NEEDS = Cite(_SOURCE, at="L4642", excerpt="a device without storageBuffer16BitAccess is refused")
_PREFERS = Cite(_SOURCE, at="L5355", excerpt="of several AMD drivers for one card: RADV, AMDVLK, AMD's closed one")


def added(view: PathView, gate: Gate) -> Gate:
    """The verdict with what vulkaninfo's long text (or our own listing) says of this card's device."""
    found = _mine(view)
    if not found or gate.status is GateStatus.BLOCK:
        return gate
    first = found[0]
    lacking = [device for device in found if device.storage16 is False]
    if len(lacking) == len(found):
        text = (
            f"{gate.reason}; {first.driver or first.name} has no 16-bit storage, and llama.cpp refuses such a device"
        )
        return view.gate(
            _LAYER, GateStatus.BLOCK, text, first.cite, _NEEDS, weight=58,
            advice="take a newer Mesa or another driver for the card (VK_DRIVER_FILES names one)",
        )  # fmt: skip
    text = f"{gate.reason}; {_told(first)}"
    evidence = (*gate.evidence, first.cite)
    drivers = list(dict.fromkeys(device.driver for device in found if device.driver))
    if len(drivers) > 1:
        text += f"; {len(drivers)} drivers show the card ({', '.join(drivers)}): {choice(view, first.vendor)}"
        evidence = (*evidence, _PREFERS) if first.vendor == _AMD else evidence
    return dataclasses.replace(gate, reason=text, evidence=evidence)


def named(view: PathView, facts: Vulkan) -> Vulkan | Gate:
    """What VK_DRIVER_FILES (or its older name) leaves of the drivers; a verdict where it names files that were not
    read. vulkaninfo was run with this shell's variables, so its list stays as it is."""
    found = view.variable("VK_DRIVER_FILES") or view.variable("VK_ICD_FILENAMES")
    if found is None or not found[0]:
        return facts
    value, owner = found
    places = [place.rstrip("/") for place in value.split(":") if place]
    kept = tuple(d for d in facts.drivers if d.manifest in places or d.manifest.rpartition("/")[0] in places)
    if not kept:
        text = f"{owner.owner} names its Vulkan drivers ({value}), which are none of the manifests that were read"
        return view.unknown(_LAYER, text, AbsenceReason.NOT_COLLECTED, owner.cite)
    return dataclasses.replace(facts, drivers=kept)


def _mine(view: PathView) -> list[VulkanLimits]:
    """The devices of this card, one for each driver that shows it."""
    facts = view.machine.vulkan
    pci = view.card.pci if view.card else None
    if not isinstance(facts, Vulkan) or isinstance(facts.limits, Absence) or pci is None:
        return []
    return [device for device in facts.limits if (device.vendor, device.device) == (pci.vendor, pci.device)]


def choice(view: PathView, vendor: int) -> str:
    """Which of several drivers for one card is taken, as far as a source says."""
    if vendor == _AMD and view.backend is Backend.VULKAN:
        return "llama.cpp takes RADV before AMDVLK and AMD's closed driver"
    return "which one answers is the runtime's choice"


def _told(device: VulkanLimits) -> str:
    """Features and limits in one line; what is not printed is left out."""
    parts = []
    for name, value in (
        ("16-bit storage", device.storage16), ("shader float16", device.float16),
        ("integer dot product", device.dot), ("subgroup size control", device.subgroup_control),
    ):  # fmt: skip
        if value is not None:
            parts.append(name if value else f"no {name}")
    if device.dot and device.dot_fast is False:
        parts.append("8-bit dot products not accelerated")
    if device.subgroup:
        parts.append(f"subgroups of {' to '.join(str(n) for n in sorted(set(device.subgroup)))}")
    if device.max_storage_range:
        parts.append(f"{_size(device.max_storage_range)} at most in one binding")
    if device.max_allocation:
        parts.append(f"{_size(device.max_allocation)} in one allocation")
    return ", ".join(parts) or "it prints no feature that is known"


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 1 << 30 else f"{count >> 20} MiB"
