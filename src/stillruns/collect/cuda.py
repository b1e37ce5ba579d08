"""The NVIDIA driver: its version, its cards, its library."""

from __future__ import annotations

from stillruns.collect.gathering import Commands, gather
from stillruns.collect.tree import Tree
from stillruns.collect.vulkan import LIBRARIES
from stillruns.model.probe import Probe
from stillruns.model.raw import Collected

STATE = (
    "pci.bus_id,clocks_throttle_reasons.active,temperature.gpu,power.draw,power.limit,"
    "ecc.errors.uncorrected.volatile.total,memory.total"
)
PROBE = Probe(
    id="cuda",
    applies="machines with an NVIDIA card",
    reads=(
        "/proc/driver/nvidia/version",
        "/proc/driver/nvidia/gpus/*/information",
        "/sys/module/nvidia/version",
        "/dev/nvidia[0-9]*",
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        *(f"{folder}/libcuda.so.1" for folder in LIBRARIES),
    ),
    commands=(
        ("nvidia-smi", "--query-gpu=pci.bus_id,name,compute_cap,driver_version", "--format=csv,noheader"),
        ("nvidia-smi", f"--query-gpu={STATE}", "--format=csv,noheader,nounits"),
    ),
    limit=0,
)


def collect(tree: Tree, commands: Commands) -> Collected:
    """What the probe declares; of libraries only that they are there."""
    small = Probe(PROBE.id, PROBE.applies, PROBE.reads[:3], (), 1 << 16)
    rest = Probe(PROBE.id, PROBE.applies, PROBE.reads[3:], PROBE.commands, 0)
    first, second = gather(tree, small, commands), gather(tree, rest, commands)
    return Collected((*first.files, *second.files), second.commands)
