"""This host, in the few words that a run must record."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from stillruns.collect import host_cpu
from stillruns.collect.kernel import MODULES
from stillruns.model.absence import Absence
from stillruns.normalise import host_cpu as facts


def describe() -> dict[str, object]:
    """CPU, processors, kernel, kernel drivers of GPUs, boot id, C library: conditions that no spec names."""
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
        "drivers": drivers(),
    }


def drivers(modules: Path = Path("/sys/module")) -> dict[str, str]:
    """The loaded kernel drivers of GPUs with their versions; one of the kernel's own tree has the kernel's."""
    found = {}
    for name in MODULES:
        try:
            found[name] = (modules / name / "version").read_text().strip()[:60]
        except FileNotFoundError:
            if (modules / name / "initstate").exists() or (modules / name / "refcnt").exists():
                found[name] = platform.release()
        except OSError:
            found[name] = ""
    return found
