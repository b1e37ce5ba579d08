"""Vulkan's loader, drivers and devices."""

from __future__ import annotations

import json
import re

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.machine import Vulkan, VulkanDevice, VulkanDriver
from stillruns.model.raw import Collected, RawCommand, RawFile
from stillruns.normalise import vulkan_limits

_SOFTWARE = re.compile(r"lavapipe|libvulkan_lvp|llvmpipe|swiftshader|lvp_icd|software rasterizer", re.IGNORECASE)


def parse(raw: Collected) -> Vulkan | Absence:
    """Facts; an absence when nothing was looked at."""
    if not raw.files and not raw.commands:
        return Absence(AbsenceReason.NOT_COLLECTED, "no Vulkan manifest was looked for")
    loader = next((f.path for f in raw.files if f.path.endswith("/libvulkan.so.1") and f.kind == "file"), "")
    there = {file.path for file in raw.files if file.kind == "file"}
    drivers = tuple(_driver(file, there) for file in raw.files if file.path.endswith(".json") and file.data)
    command = next((c for c in raw.commands if c.argv == ("vulkaninfo", "--summary")), None)
    long = next((c for c in raw.commands if c.argv == ("vulkaninfo",)), None)
    limits = (
        Absence(AbsenceReason.NOT_COLLECTED, "vulkaninfo was not run") if long is None else vulkan_limits.parse(long)
    )
    return Vulkan(loader, drivers, _devices(command), limits)


def _driver(file: RawFile, there: set[str]) -> VulkanDriver:
    try:
        icd = json.loads(file.data or b"")["ICD"]
        library, api = icd["library_path"], icd.get("api_version", "")
        if not isinstance(library, str) or not isinstance(api, str):
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        return VulkanDriver(file.path, "", "", False, "", "the manifest is no valid JSON with a library", file.cite())
    software = bool(_SOFTWARE.search(library) or _SOFTWARE.search(file.path))
    name = library.rpartition("/")[2]
    if library.startswith("/"):
        found = library if library in there else ""
    else:
        found = next((path for path in sorted(there) if path.rpartition("/")[2] == name), "")
    return VulkanDriver(
        file.path, library, found, software, api, "" if found else f"{library} is not there",
        file.cite(f"library_path {library}, api_version {api}"),
    )  # fmt: skip


def _devices(command: RawCommand | None) -> tuple[VulkanDevice, ...] | Absence:
    """`vulkaninfo --summary`: blocks `GPUn:` of `name = value` lines."""
    if command is None:
        return Absence(AbsenceReason.NOT_COLLECTED, "vulkaninfo was not run")
    if command.absence is not None:
        return command.absence
    if "GPU0" not in command.text:
        detail = (command.stderr or command.stdout).decode("utf-8", "replace").strip().splitlines()[:1]
        what = f"vulkaninfo lists no device: {detail[0] if detail else 'it prints nothing'}"
        return Absence(AbsenceReason.UNPARSABLE, what)
    found = []
    for block in re.split(r"^GPU\d+:\s*$", command.text, flags=re.MULTILINE)[1:]:
        facts = dict(re.findall(r"^\s*(\w+)\s*=\s*(.*?)\s*$", block, re.MULTILINE))
        kind = facts.get("deviceType", "").removeprefix("PHYSICAL_DEVICE_TYPE_")
        name = facts.get("deviceName", "")
        software = kind == "CPU" or bool(_SOFTWARE.search(name))
        numbers = [int(facts.get(k, "0"), 16) if re.match(r"0x[0-9a-f]+\Z", facts.get(k, "")) else 0
                   for k in ("vendorID", "deviceID")]  # fmt: skip
        found.append(
            VulkanDevice(
                name, kind, facts.get("driverName", ""), facts.get("apiVersion", "").split(" ")[0], numbers[0],
                numbers[1], software, command.cite(f"deviceName = {name}, deviceType = {kind}"),
            )
        )  # fmt: skip
    return tuple(found)
