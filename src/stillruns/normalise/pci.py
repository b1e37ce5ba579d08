"""GPUs on the PCI bus: bytes of sysfs to devices."""

from __future__ import annotations

import re

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.card import Link, PciDevice
from stillruns.model.raw import Cite, Collected
from stillruns.normalise.sysfs import DEVICES, addresses, integer

_BRIDGE = re.compile(r"(?:.*/)?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/(\w+)\Z")
_LINK_FILES = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")


def parse(raw: Collected) -> tuple[PciDevice, ...] | Absence:
    """Every GPU that the bus shows, by address; an absence when the bus was not readable."""
    if not raw.files:
        return Absence(AbsenceReason.NOT_COLLECTED, "the PCI bus shows no GPU, or /sys/bus/pci was not readable")
    found = (_device(raw, address) for address in addresses(raw))
    return tuple(device for device in found if device is not None)


def _device(raw: Collected, address: str) -> PciDevice | None:
    base = DEVICES + address
    vendor, device = _hex(raw.text(f"{base}/vendor")), _hex(raw.text(f"{base}/device"))
    if vendor is None or device is None:
        return None
    cites = {}
    for name in ("device", "resource", "current_link_speed", "current_link_width", "numa_node", "uevent", "driver"):
        file = raw.file(f"{base}/{name}")
        if file is not None and file.kind != "missing":
            cites[name] = file.cite() if file.data is not None else Cite(file.path, excerpt=file.real)
    revision = _hex(raw.text(f"{base}/revision"))
    regions = _bars(raw.text(f"{base}/resource") or "")
    return PciDevice(
        address=address,
        vendor=vendor,
        device=device,
        subsystem=":".join((raw.text(f"{base}/{n}") or "").removeprefix("0x") for n in ("subsystem_vendor",
                                                                                       "subsystem_device")),
        revision=revision or 0,
        device_class=_hex(raw.text(f"{base}/class")) or 0,
        driver=_driver(raw, base),
        numa=_numa(raw.text(f"{base}/numa_node")),
        iommu_group=_last(raw, f"{base}/iommu_group"),
        link=_link(raw, base),
        bars=tuple(size for _, size in regions),
        starts=tuple(start for start, _ in regions),
        upstream=_upstream(raw, address),
        cites=cites,
    )  # fmt: skip


def _driver(raw: Collected, base: str) -> str:
    linked = _last(raw, f"{base}/driver")
    if linked:
        return linked
    for line in (raw.text(f"{base}/uevent") or "").splitlines():
        if line.startswith("DRIVER="):
            return line[7:].strip()
    return ""


def _last(raw: Collected, path: str) -> str:
    file = raw.file(path)
    return file.real.rpartition("/")[2] if file is not None and file.kind == "folder" else ""


def _numa(text: str | None) -> int | None:
    number = integer(text)
    return None if number is None or number < 0 else number


def _link(raw: Collected, base: str) -> Link | None:
    texts = [raw.text(f"{base}/{name}") for name in _LINK_FILES]
    if all(text is None for text in texts):
        return None
    return Link(_speed(texts[0]), integer(texts[1]), _speed(texts[2]), integer(texts[3]))


def _upstream(raw: Collected, address: str) -> tuple[tuple[str, Link], ...]:
    """Bridges above a device, from the paths of their link files, which were read right after the device's own."""
    found: dict[str, Link] = {}
    inside = False
    for file in raw.files:
        if file.path.startswith(DEVICES):
            inside = file.path.startswith(f"{DEVICES}{address}/")
        elif inside:
            match = _BRIDGE.match(file.path)
            if match and match[1] not in found:
                link = _link(raw, file.path.rpartition("/")[0])
                if link is not None:
                    found[match[1]] = link
    return tuple(found.items())


def _bars(text: str) -> list[tuple[int, int]]:
    """(address, size) of the regions that are there."""
    found = []
    for line in text.splitlines()[:6]:
        words = line.split()
        if len(words) >= 2:
            start, end = _hex(words[0]), _hex(words[1])
            if start is not None and end is not None and end > start:
                found.append((start, end - start + 1))
    return found


def _speed(text: str | None) -> float | None:
    found = re.match(r"(\d+(?:\.\d+)?) GT/s", text or "")
    return float(found[1]) if found else None


def _hex(text: str | None) -> int | None:
    return int(text, 16) if text and re.fullmatch(r"0x[0-9a-fA-F]{1,16}", text.strip()) else None
