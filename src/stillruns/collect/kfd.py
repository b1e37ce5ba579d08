"""The KFD topology: which GPUs the compute driver took, and what it says about them."""

from __future__ import annotations

from stillruns.collect.gathering import Commands, gather
from stillruns.collect.tree import Tree
from stillruns.model.probe import Probe
from stillruns.model.raw import Collected

PROBE = Probe(
    id="kfd",
    applies="Linux with AMD's compute driver; without it /sys/class/kfd is not there",
    reads=(
        "/sys/class/kfd/kfd/topology/generation_id",
        "/sys/class/kfd/kfd/topology/nodes/*/properties",
        "/sys/class/kfd/kfd/topology/nodes/*/name",
        "/sys/class/kfd/kfd/topology/nodes/*/gpu_id",
        "/sys/class/kfd/kfd/topology/nodes/*/mem_banks/*/properties",
        "/sys/class/kfd/kfd/topology/nodes/*/io_links/*/properties",
        "/sys/class/kfd/kfd/topology/nodes/*/p2p_links/*/properties",
        "/sys/class/kfd",
    ),
    limit=1 << 16,
)


def collect(tree: Tree, commands: Commands) -> Collected:
    """What the probe declares."""
    return gather(tree, PROBE, commands)
