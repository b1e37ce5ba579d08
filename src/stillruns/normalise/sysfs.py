"""What the readers of sysfs share: the PCI devices that files belong to, and numbers as the kernel writes them."""

from __future__ import annotations

import re

from stillruns.model.raw import Collected

DEVICES = "/sys/bus/pci/devices/"


def addresses(raw: Collected) -> list[str]:
    """PCI addresses of the devices whose files were read, in order."""
    return sorted({f.path[len(DEVICES) :].split("/")[0] for f in raw.files if f.path.startswith(DEVICES)})


def integer(text: str | None) -> int | None:
    """A whole decimal number of a file's text; None for anything else."""
    return int(text) if text and re.fullmatch(r"-?\d{1,20}", text.strip()) else None
