"""Who may open the device nodes: nodes, groups, security modules, this process."""

from __future__ import annotations

import os

from stillruns.collect.gathering import Commands, gather
from stillruns.collect.tree import Tree
from stillruns.model.probe import Probe
from stillruns.model.raw import Collected, RawFile

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

ACCESS = "/proc/self/access/"
"""A path of our own making: the answer of access(2) for a node, which knows ACLs, on the live machine."""


def collect(tree: Tree, commands: Commands) -> Collected:
    """What the probe declares; on the live machine also what the kernel says about this process's access."""
    found = gather(tree, PROBE, commands)
    if not tree.live:
        return Collected(tuple(file for file in found.files if file.path != "/proc/self/status"))
    answers = []
    for file in found.files:
        if file.kind == "device":
            rights = "".join(
                letter for letter, mode in (("r", os.R_OK), ("w", os.W_OK)) if os.access(file.path, mode)
            )
            answers.append(RawFile(ACCESS + file.path.lstrip("/"), file.path, "file", rights.encode()))
    return Collected((*found.files, *answers))
