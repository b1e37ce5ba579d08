"""The kernel: release, modules, parameters, IOMMU."""

from __future__ import annotations

import re

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.machine import Kernel
from stillruns.model.raw import Collected


def parse(raw: Collected) -> Kernel | Absence:
    """Facts; an absence when nothing was read."""
    if not any(file.data for file in raw.files):
        return Absence(AbsenceReason.NOT_COLLECTED, "nothing about the kernel was readable")
    modules: dict[str, str] = {}
    for line in (raw.text("/proc/modules") or "").splitlines():
        words = line.split()
        if len(words) >= 5:
            modules[words[0]] = words[4].lower()
    parameters, groups, cites = {}, 0, {}
    for file in raw.files:
        state = re.fullmatch(r"/sys/module/(\w+)/initstate", file.path)
        if state and file.data is not None:
            modules[state[1]] = file.text
            cites[state[1]] = file.cite()
        if file.path.startswith("/sys/module/amdgpu/parameters/") and file.data is not None:
            name = file.path.rpartition("/")[2]
            parameters[name] = file.text
            cites[f"amdgpu.{name}"] = file.cite()
        groups += file.path.startswith("/sys/kernel/iommu_groups/")
    cmdline = raw.file("/proc/cmdline")
    if cmdline is not None:
        cites["cmdline"] = cmdline.cite()
    return Kernel(
        release=raw.text("/proc/sys/kernel/osrelease") or "",
        cmdline=raw.text("/proc/cmdline") or "",
        modules=modules,
        parameters=parameters,
        iommu_groups=groups,
        cites=cites,
    )
