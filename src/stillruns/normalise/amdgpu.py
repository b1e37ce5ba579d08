"""What amdgpu tells about each card: bytes of sysfs to states."""

from __future__ import annotations

import re

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.card import CardState, Temperature
from stillruns.model.raw import Cite, Collected, RawFile
from stillruns.normalise.sysfs import DEVICES, addresses, integer


def parse(raw: Collected) -> dict[str, CardState] | Absence:
    """State by PCI address; an absence when no card of this driver was read."""
    found = addresses(raw)
    if not found:
        return Absence(AbsenceReason.NOT_INSTALLED, "the amdgpu driver holds no card")
    return {address: _state(raw, address) for address in found}


def _state(raw: Collected, address: str) -> CardState:
    base = DEVICES + address
    if raw.text(f"{base}/power/runtime_status") == "suspended":
        return CardState(address, asleep=True)

    def number(name: str) -> int | None:
        return integer(raw.text(f"{base}/{name}"))

    sensors = _sensors(raw, base)
    return CardState(
        address=address,
        vram=number("mem_info_vram_total"),
        visible_vram=number("mem_info_vis_vram_total"),
        gtt=number("mem_info_gtt_total"),
        vbios=raw.text(f"{base}/vbios_version") or "",
        performance_level=raw.text(f"{base}/power_dpm_force_performance_level") or "",
        busy_percent=number("gpu_busy_percent"),
        sclk=_clock(raw.text(f"{base}/pp_dpm_sclk")),
        mclk=_clock(raw.text(f"{base}/pp_dpm_mclk")),
        power=_scaled(sensors, "power1_average", 1e6),
        power_cap=_scaled(sensors, "power1_cap", 1e6),
        power_cap_default=_scaled(sensors, "power1_cap_default", 1e6),
        temperatures=_temperatures(sensors),
        fan_rpm=integer(sensors["fan1_input"].text) if "fan1_input" in sensors else None,
        replays=number("pcie_replay_count"),
        errors=_errors(raw, base),
        metrics=file.data or b"" if (file := raw.file(f"{base}/gpu_metrics")) else b"",
        product=(raw.text(f"{base}/product_name") or "").strip(),
        cites=_cites(raw, base, sensors),
    )


def _sensors(raw: Collected, base: str) -> dict[str, RawFile]:
    found: dict[str, RawFile] = {}
    for file in raw.under(f"{base}/hwmon"):
        found.setdefault(file.path.rpartition("/")[2], file)
    return found


def _temperatures(sensors: dict[str, RawFile]) -> tuple[Temperature, ...]:
    found = []
    for name in sorted(sensors):
        match = re.fullmatch(r"(temp\d+)_input", name)
        now = _scaled(sensors, name, 1e3)
        if match and now is not None:
            label = sensors.get(f"{match[1]}_label")
            found.append(
                Temperature(label.text if label else match[1], now, _scaled(sensors, f"{match[1]}_crit", 1e3))
            )
    return tuple(found)


def _errors(raw: Collected, base: str) -> dict[str, tuple[int, int]]:
    """`ue: 3`, `ce: 120` of every RAS block."""
    found = {}
    for file in raw.under(f"{base}/ras"):
        block = file.path.rpartition("/")[2].removesuffix("_err_count")
        counts = dict(re.findall(r"^(ue|ce): (\d{1,18})", file.text, re.MULTILINE))
        if counts:
            found[block] = (int(counts.get("ue", 0)), int(counts.get("ce", 0)))
    return found


def _cites(raw: Collected, base: str, sensors: dict[str, RawFile]) -> dict[str, Cite]:
    names = (
        "mem_info_vram_total",
        "mem_info_vis_vram_total",
        "vbios_version",
        "power_dpm_force_performance_level",
        "pp_dpm_sclk",
        "pp_dpm_mclk",
        "ras/umc_err_count",
        "product_name",
    )
    files = {name: raw.file(f"{base}/{name}") for name in names}
    cites = {name: file.cite(file.text.replace("\n", "; ")) for name, file in files.items() if file and file.data}
    table = raw.file(f"{base}/gpu_metrics")
    if table is not None and table.data:
        cites["gpu_metrics"] = table.cite("-")
    return cites | {name: file.cite() for name, file in sensors.items() if file.data is not None}


def _clock(text: str | None) -> tuple[int, int] | None:
    """(present, highest) MHz of a `0: 925Mhz` table whose present level has a star."""
    rows = re.findall(r"^\s*\w+: *(\d{1,6})Mhz *(\*?)", text or "", re.MULTILINE)
    now = [int(value) for value, star in rows if star]
    return (now[0], max(int(value) for value, _ in rows)) if now else None


def _scaled(sensors: dict[str, RawFile], name: str, unit: float) -> float | None:
    value = integer(sensors[name].text) if name in sensors else None
    return None if value is None else value / unit
