"""Whether this is a container, and what it may see."""

from __future__ import annotations

from stillruns.collect.gathering import Commands, gather
from stillruns.collect.tree import Tree
from stillruns.model.probe import Probe
from stillruns.model.raw import Collected

PROBE = Probe(
    id="container",
    applies="Linux",
    reads=(
        "/.dockerenv",
        "/run/.containerenv",
        "/run/systemd/container",
        "/proc/1/cgroup",
        "/proc/1/sched",
        "/sys/fs/cgroup/devices/devices.list",
        "/proc/sys/kernel/osrelease",
        "/run/docker.sock",
        "/run/podman/podman.sock",
        "/var/lib/containers/storage",
        "/run/k3s/containerd/containerd.sock",
        "/var/lib/lxc",
        "/var/lib/incus",
    ),
    limit=1 << 16,
)


def collect(tree: Tree, commands: Commands) -> Collected:
    """What the probe declares."""
    return gather(tree, PROBE, commands)
