"""This host, in the few words that a run must record."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from stillruns.collect import host_cpu
from stillruns.model.absence import Absence
from stillruns.normalise import host_cpu as facts


def describe() -> dict[str, str | int]:
    """CPU, processors, kernel, boot id, C library: conditions that no spec names."""
    cpu = facts.parse(host_cpu.read())
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    return {
        "cpu": "" if isinstance(cpu, Absence) else cpu.name,
        "processors": os.cpu_count() or 0,
        "kernel": platform.release(),
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "boot_id": boot,
    }
