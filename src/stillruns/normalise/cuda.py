"""The NVIDIA driver's facts."""

from __future__ import annotations

import re

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.machine import Nvidia, NvidiaState
from stillruns.model.raw import Collected


def parse(raw: Collected) -> Nvidia | Absence:
    """Facts; an absence when there is no sign of the driver."""
    version = raw.file("/proc/driver/nvidia/version")
    module = raw.file("/sys/module/nvidia/version")
    models: dict[str, str] = {}
    minors: dict[str, int] = {}
    for file in raw.files:
        match = re.fullmatch(r"/proc/driver/nvidia/gpus/([0-9a-f:.]+)/information", file.path)
        model = re.search(r"^Model:\s*(.+?)\s*$", file.text, re.MULTILINE) if match else None
        minor = re.search(r"^Device Minor:\s*(\d+)", file.text, re.MULTILINE) if match else None
        if match and model:
            models[match[1]] = model[1]
        if match and minor:
            minors[match[1]] = int(minor[1])
    for command in raw.commands:
        for line in command.text.splitlines():
            parts = [part.strip() for part in line.split(",")]
            if len(parts) == 4 and re.fullmatch(r"[0-9A-Fa-f:.]+", parts[0]):
                models.setdefault(short(parts[0]), f"{parts[1]} (compute {parts[2]})")
    nodes = tuple(f.path for f in raw.files if f.path.startswith("/dev/") and f.kind == "device")
    library = next((f.path for f in raw.files if f.path.endswith("/libcuda.so.1") and f.kind == "file"), "")
    told = version if version is not None and version.data else module
    if told is None or (not told.data and not models and not library):
        return Absence(AbsenceReason.NOT_INSTALLED, "there is no NVIDIA driver")
    real = next((f.real for f in raw.files if f.path == library), "")
    found = re.search(r"(?:Module\s+|^)(\d+(?:\.\d+)+)", told.text) or re.search(r"\.so\.(\d+(?:\.\d+)+)\Z", real)
    return Nvidia(found[1] if found else "", models, nodes, library, told.cite(), minors, _states(raw))


def _states(raw: Collected) -> dict[str, NvidiaState]:
    """Lines of seven values; `[N/A]`, `[Not Supported]` and the like are None."""
    found = {}
    for command in raw.commands:
        for number, line in enumerate(command.text.splitlines(), 1):
            parts = [part.strip() for part in line.split(",")]
            if len(parts) != 7 or not re.fullmatch(r"[0-9A-Fa-f:.]+", parts[0]):
                continue
            mask = int(parts[1], 16) if re.fullmatch(r"0x[0-9A-Fa-f]{1,16}", parts[1]) else None
            numbers = [float(part) if re.fullmatch(r"\d{1,9}(?:\.\d{1,6})?", part) else None for part in parts[2:]]
            whole = [None if value is None else int(value) for value in numbers]
            found[short(parts[0])] = NvidiaState(
                mask, whole[0], numbers[1], numbers[2], whole[3], whole[4], command.cite(line.strip(), number)
            )
    return found


def short(address: str) -> str:
    """nvidia-smi's `00000000:04:00.0` as sysfs writes it."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain[-4:]}:{rest}"
