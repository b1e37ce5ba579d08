"""Firmware that is there, and firmware that the driver names."""

from __future__ import annotations

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.machine import Firmware
from stillruns.model.raw import Cite, Collected

_SUFFIXES = (".xz", ".zst", ".gz")


def parse(raw: Collected) -> Firmware | Absence:
    """Names with their folder (`amdgpu/vega20_sos.bin`), compression suffixes removed."""
    present: set[str] = set()
    wanted: tuple[str, ...] = ()
    module, cite = "", Cite("/lib/firmware/amdgpu", excerpt="there is no such folder")
    folders = 0
    for file in raw.files:
        if file.kind == "folder" and file.path.startswith("/lib/firmware/"):
            folders += 1
            owner = file.path.rpartition("/")[2]
            names = file.text.split("\n")
            present |= {f"{owner}/{_plain(name)}" for name in names if name}
            cite = file.cite(f"{len(names)} names") if owner == "amdgpu" else cite
        elif "amdgpu.ko" in file.path:
            module = file.path
            wanted = tuple(file.text.split("\n")) if file.data else ()
    if not folders:
        return Absence(
            AbsenceReason.NOT_INSTALLED,
            "there is no /lib/firmware/amdgpu",
            "install firmware-amd-graphics (Debian) or linux-firmware",
        )
    return Firmware(wanted, frozenset(present), module, cite)


def _plain(name: str) -> str:
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name
