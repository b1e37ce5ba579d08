"""The kernel: release, command line, GPU modules and their parameters, IOMMU."""

from __future__ import annotations

from stillruns.collect.gathering import Commands, gather
from stillruns.collect.tree import Tree
from stillruns.model.probe import Probe
from stillruns.model.raw import Collected

MODULES = ("amdgpu", "radeon", "nvidia", "nouveau", "i915", "xe")
"""Kernel drivers of GPUs."""
PROBE = Probe(
    id="kernel",
    applies="Linux",
    reads=(
        "/proc/sys/kernel/osrelease",
        "/proc/cmdline",
        "/proc/modules",
        *(f"/sys/module/{module}/initstate" for module in MODULES),
        *(f"/sys/module/{module}/version" for module in MODULES),
        "/sys/module/amdgpu/parameters/*",
        "/sys/kernel/iommu_groups/*/type",
        "/lib/modules/*/kernel/drivers/gpu/drm/amd/amdgpu",
    ),
    limit=1 << 17,
)


def collect(tree: Tree, commands: Commands) -> Collected:
    """What the probe declares."""
    return gather(tree, PROBE, commands)
