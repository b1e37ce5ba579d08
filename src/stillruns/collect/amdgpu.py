"""What the amdgpu driver tells about each card: memory, clocks, power, temperatures, error counts.

A card that sleeps is not woken: reading its sensors would do that.
"""

from __future__ import annotations

from stillruns.collect.gathering import Commands, gather, read
from stillruns.collect.tree import Tree, glob
from stillruns.model.probe import Probe
from stillruns.model.raw import Collected

_FOLDER = "/sys/bus/pci/devices/*"
PROBE = Probe(
    id="amdgpu",
    applies="cards that the amdgpu driver holds",
    reads=tuple(
        f"{_FOLDER}/{name}"
        for name in (
            "power/runtime_status",
            "mem_info_vram_total",
            "mem_info_vis_vram_total",
            "mem_info_gtt_total",
            "vbios_version",
            "power_dpm_force_performance_level",
            "gpu_busy_percent",
            "pp_dpm_sclk",
            "pp_dpm_mclk",
            "pcie_replay_count",
            "ras/*_err_count",
            "gpu_metrics",
            "product_name",
            "hwmon/hwmon*/power1_average",
            "hwmon/hwmon*/power1_cap",
            "hwmon/hwmon*/power1_cap_default",
            "hwmon/hwmon*/fan1_input",
            "hwmon/hwmon*/temp*_input",
            "hwmon/hwmon*/temp*_label",
            "hwmon/hwmon*/temp*_crit",
        )
    ),
    limit=8192,
)


def collect(tree: Tree, commands: Commands) -> Collected:
    """What the probe declares, for cards that are awake."""
    found: list[Collected] = []
    for path in glob(tree, f"{_FOLDER}/mem_info_vram_total"):
        folder = path.rpartition("/")[0]
        status = read(tree, f"{folder}/power/runtime_status", 64)
        reads = () if status.text == "suspended" else [name.replace(_FOLDER, folder, 1) for name in PROBE.reads[1:]]
        only = Probe(PROBE.id, PROBE.applies, tuple(reads), (), PROBE.limit)
        found.append(Collected((status, *gather(tree, only, commands).files)))
    return Collected(tuple(file for part in found for file in part.files))
