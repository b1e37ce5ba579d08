"""/proc/cpuinfo to facts."""

from __future__ import annotations

from dataclasses import dataclass

from stillruns.model.absence import Absence, AbsenceReason


@dataclass(frozen=True, slots=True)
class HostCpu:
    """`name` as the kernel prints it, `flags` of the first processor (x86 `flags`, Arm `Features`)."""

    name: str
    flags: frozenset[str]
    processors: int


def parse(cpuinfo: bytes) -> HostCpu | Absence:
    """Facts about the CPU; an absence when the text names no flags."""
    if not cpuinfo:
        return Absence(AbsenceReason.NOT_COLLECTED, "/proc/cpuinfo was not readable")
    name, flags, processors = "", "", 0
    for line in cpuinfo.decode("utf-8", "replace").splitlines():
        key, _, value = line.partition(":")
        key = key.strip()
        if key == "processor":
            processors += 1
        elif key in ("model name", "Model", "CPU part") and not name:
            name = value.strip()
        elif key in ("flags", "Features") and not flags:
            flags = value
    if not flags.split():
        return Absence(AbsenceReason.UNPARSABLE, "/proc/cpuinfo lists no CPU flags")
    return HostCpu(name, frozenset(flags.split()), processors)
