"""GPUs on the PCI bus, and the bridges above them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stillruns.collect.gathering import Commands, read
from stillruns.collect.tree import Tree, glob
from stillruns.model.absence import Absence
from stillruns.model.probe import Probe
from stillruns.model.raw import Collected

PROBE = Probe(
    id="pci",
    applies="always",
    reads=(
        "/sys/bus/pci/devices/*/class",
        "/sys/bus/pci/devices/*/vendor",
        "/sys/bus/pci/devices/*/{device,subsystem_vendor,subsystem_device,revision,numa_node,resource,uevent}",
        "/sys/bus/pci/devices/*/{current,max}_link_{speed,width} (of GPUs and the bridges above them)",
        "/sys/bus/pci/devices/*/{driver,iommu_group} (where the links lead)",
    ),
)

_DETAILS = (
    "device subsystem_vendor subsystem_device revision numa_node resource uevent driver iommu_group boot_vga "
    "current_link_speed current_link_width max_link_speed max_link_width"
).split()
_LINKS = "current_link_speed current_link_width max_link_speed max_link_width".split()
_VENDORS = ("0x1002", "0x10de", "0x8086")
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")


def collect(tree: Tree, commands: Commands) -> Collected:
    """Everything about AMD, NVIDIA and Intel display and accelerator functions; other devices by class only."""
    del commands
    files = []
    for folder in glob(tree, "/sys/bus/pci/devices/*"):
        kind = tree.read(f"{folder}/class", 64)
        if isinstance(kind, Absence) or not kind.startswith((b"0x03", b"0x1200")):
            continue
        vendor = read(tree, f"{folder}/vendor", 64)
        if vendor.text not in _VENDORS:
            continue
        files += [read(tree, f"{folder}/class", 64), vendor]
        files += [read(tree, f"{folder}/{name}", 8192) for name in _DETAILS]
        files += [read(tree, path, 64) for path in _above(tree, folder)]
    return Collected(tuple(files))


def _above(tree: Tree, folder: str) -> Iterator[str]:
    """The link files of the bridges on the way to the root, nearest first."""
    entry = tree.entry(folder)
    if isinstance(entry, Absence):
        return
    parts = entry.real.split("/")
    for end in range(len(parts) - 1, 0, -1):
        if _ADDRESS.match(parts[end - 1]):
            for name in _LINKS:
                yield "/".join([*parts[:end], name])
