"""vulkaninfo's long text: features and limits of each device."""

from __future__ import annotations

import re

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.raw import RawCommand
from stillruns.model.vulkan_limits import VulkanLimits

_BLOCK = re.compile(r"^GPU(\d+):\s*$", re.MULTILINE)
_PAIR = re.compile(r"^\s*(\w+)\s*=\s*(.*?)\s*$", re.MULTILINE)
_HEAP = re.compile(r"^\s*size\s*=\s*(\d{1,20}) \(0x[0-9a-f]+\)", re.MULTILINE)
_LONGEST = 8 << 20


def parse(command: RawCommand) -> tuple[VulkanLimits, ...] | Absence:
    """One entry a device, in vulkaninfo's order; an absence where the text has no device."""
    if command.absence is not None:
        return command.absence
    text = command.text[:_LONGEST]
    starts = [(int(found[1]), found.end()) for found in _BLOCK.finditer(text)]
    parts: dict[int, str] = {}
    for index, (number, start) in enumerate(starts):
        end = starts[index + 1][1] if index + 1 < len(starts) else len(text)
        body = text[start:end]
        if "VkPhysicalDeviceProperties" in body:  # other lists number the devices, too
            parts.setdefault(number, body)
    if not parts:
        return Absence(AbsenceReason.UNPARSABLE, "vulkaninfo prints no device with its properties")
    return tuple(_device(command, parts[number]) for number in sorted(parts))


def _device(command: RawCommand, body: str) -> VulkanLimits:
    facts: dict[str, str] = {}
    for name, value in _PAIR.findall(body):
        facts.setdefault(name, value)

    def flag(name: str) -> bool | None:
        return {"true": True, "false": False, "1": True, "0": False}.get(facts.get(name, ""))

    def number(name: str) -> int | None:
        found = re.match(r"0x([0-9a-fA-F]{1,16})|(\d{1,20})", facts.get(name, ""))
        return None if found is None else int(found[1], 16) if found[1] else int(found[2])

    least, most = number("minSubgroupSize"), number("maxSubgroupSize")
    allocation, buffer = number("maxMemoryAllocationSize"), number("maxBufferSize")
    name = facts.get("deviceName", "")
    return VulkanLimits(
        name=name,
        vendor=number("vendorID") or 0,
        device=number("deviceID") or 0,
        driver=facts.get("driverName", ""),
        storage16=flag("storageBuffer16BitAccess"),
        float16=flag("shaderFloat16"),
        dot=flag("shaderIntegerDotProduct"),
        dot_fast=flag("integerDotProduct4x8BitPackedSignedAccelerated"),
        subgroup_control=flag("subgroupSizeControl"),
        subgroup=(least, most) if least and most else None,
        max_storage_range=number("maxStorageBufferRange"),
        max_allocation=min((n for n in (allocation, buffer) if n), default=None),
        heaps=tuple(int(found) for found in _HEAP.findall(body)),
        cite=command.cite(f"{name}: storageBuffer16BitAccess = {facts.get('storageBuffer16BitAccess', '?')}"),
    )
