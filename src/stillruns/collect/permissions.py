"""Who may open the device nodes: nodes, groups, security modules, this process."""

from __future__ import annotations

from stillruns.collect.gathering import Commands, gather
from stillruns.collect.tree import Tree
from stillruns.model.probe import Probe
from stillruns.model.raw import Collected

PROBE = Probe(
    id="permissions",
    applies="Linux",
    reads=(
        "/dev/kfd",
        "/dev/dri/card*",
        "/dev/dri/renderD*",
        "/dev/nvidia*",
        "/etc/group",
        "/etc/passwd",
        "/proc/self/status",
        "/sys/fs/selinux/enforce",
        "/etc/selinux/config",
    ),
    limit=1 << 20,
)


def collect(tree: Tree, commands: Commands) -> Collected:
    """What the probe declares; `access` of a device says what the kernel lets this process do."""
    return gather(tree, PROBE, commands)
