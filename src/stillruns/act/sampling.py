"""What the devices did while a trial ran: temperature, power, clocks, memory, busy, once a second.

AMD and every other driver with a hwmon node: sysfs (docs.kernel.org, gpu/amdgpu/thermal). NVIDIA: NVML, when the
package nvidia-ml-py is there. A sleeping card is never woken: `power/runtime_status` is read first, and while it says
anything but active nothing else is touched. A hung driver blocks such reads for ever, so they happen in a thread that
nobody waits for longer than a moment.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

Sample = dict[str, object]
Reader = Callable[[], Sample]

PERIOD = 1.0
"""Seconds between samples."""

_MOST = 100_000
"""Samples that are kept: more than a day of one device."""

NVML = "nvml"
"""The name of all NVIDIA devices together in `TrialPlan.sample_devices`; others go by PCI address."""


def devices(sys_root: Path = Path("/sys"), dev_root: Path = Path("/dev")) -> tuple[str, ...]:
    """What can be sampled here: PCI addresses of display devices with sensors, and NVML. Reads names only."""
    found = []
    for device in sorted((sys_root / "bus/pci/devices").glob("*")):
        if _text(device / "class").startswith("0x03") and any(device.glob("hwmon/hwmon*")):
            found.append(device.name)
    if (dev_root / "nvidiactl").exists() and importlib.util.find_spec("pynvml") is not None:
        found.append(NVML)
    return tuple(found)


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _scaled(path: Path, divisor: float) -> float | None:
    text = _text(path)
    return round(int(text) / divisor, 3) if text.lstrip("-").isdigit() else None


def sysfs_reader(device: Path) -> Reader:
    """A reader of one PCI device's sensors; `device` is its folder in sysfs."""

    def read() -> Sample:
        sample: Sample = {"device": device.name}
        status = _text(device / "power/runtime_status")
        if status:
            sample["runtime_status"] = status
        if status not in ("", "active", "unsupported"):
            return sample
        for hwmon in sorted(device.glob("hwmon/hwmon*")):
            _labelled(sample, "temperature_c", hwmon, "temp*_input", 1000)
            _labelled(sample, "clock_mhz", hwmon, "freq*_input", 1_000_000)
            for name in ("power1_average", "power1_input"):
                watts = _scaled(hwmon / name, 1_000_000)
                if watts is not None:
                    sample["power_w"] = watts
                    break
        for key, name, divisor in (
            ("busy_percent", "gpu_busy_percent", 1),
            ("memory_used_mib", "mem_info_vram_used", 1 << 20),
            ("memory_total_mib", "mem_info_vram_total", 1 << 20),
        ):
            value = _scaled(device / name, divisor)
            if value is not None:
                sample[key] = value
        return sample

    return read


def _labelled(sample: Sample, key: str, hwmon: Path, pattern: str, divisor: float) -> None:
    """`temp1_input` under the name in `temp1_label`, or its own."""
    values = {}
    for path in sorted(hwmon.glob(pattern)):
        value = _scaled(path, divisor)
        if value is not None:
            name = path.name.removesuffix("_input")
            values[_text(hwmon / f"{name}_label") or name] = value
    if values:
        sample[key] = values


def nvml_reader(sys_root: Path) -> Reader:
    """A reader of all NVIDIA devices. A function that an old driver lacks leaves its value out."""
    library = importlib.import_module("pynvml")
    state: dict[str, list[object]] = {}

    def read() -> Sample:
        cards = list((sys_root / "bus/pci/drivers/nvidia").glob("0*"))
        if cards and all(_text(card / "power/runtime_status") == "suspended" for card in cards):
            return {"device": NVML, "runtime_status": "suspended"}
        if "handles" not in state:
            library.nvmlInit()
            state["handles"] = [library.nvmlDeviceGetHandleByIndex(i) for i in range(library.nvmlDeviceGetCount())]
        return {"device": NVML, "devices": [_nvml_card(library, handle) for handle in state["handles"]]}

    return read


def _nvml_card(library: object, handle: object) -> Sample:
    sample: Sample = {}

    def take(key: str, call: str, convert: Callable[[object], object], *arguments: int) -> None:
        try:
            sample[key] = convert(getattr(library, call)(handle, *arguments))
        except (getattr(library, "NVMLError"), AttributeError, TypeError, ValueError):  # noqa: B009 - typed object
            pass

    take("bus", "nvmlDeviceGetPciInfo", lambda info: _ascii(getattr(info, "busId", "")))
    take("temperature_c", "nvmlDeviceGetTemperature", _number(1), 0)
    take("power_w", "nvmlDeviceGetPowerUsage", _number(1000))
    take("sm_mhz", "nvmlDeviceGetClockInfo", _number(1), 1)
    take("memory_mhz", "nvmlDeviceGetClockInfo", _number(1), 2)
    take("busy_percent", "nvmlDeviceGetUtilizationRates", lambda use: getattr(use, "gpu", None))
    take("memory_used_mib", "nvmlDeviceGetMemoryInfo", lambda memory: getattr(memory, "used", 0) >> 20)
    return sample


def _ascii(value: object) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)


def _number(divisor: float) -> Callable[[object], object]:
    return lambda value: round(float(str(value)) / divisor, 3)


def readers(names: tuple[str, ...], sys_root: Path = Path("/sys")) -> Mapping[str, Callable[[], Reader]]:
    """For each name of `devices()` what makes its reader; making it may already touch a driver."""

    def maker(name: str) -> Callable[[], Reader]:
        if name == NVML:
            return lambda: nvml_reader(sys_root)
        return lambda: sysfs_reader(sys_root / "bus/pci/devices" / name)

    return {name: maker(name) for name in names}


class Sampler:
    """Samples in a daemon thread from `start` to `stop`, at once, then every PERIOD, and once more at the end."""

    def __init__(self, makers: Mapping[str, Callable[[], Reader]], period: float = PERIOD) -> None:
        self._makers = makers
        self._period = period
        self._lines: list[bytes] = []
        self._stop = threading.Event()
        self._started = time.monotonic()
        self._thread = threading.Thread(target=self._work, name="stillruns-sampling", daemon=True)

    def start(self) -> None:
        """Begin; times in the samples count from here."""
        self._started = time.monotonic()
        if self._makers:
            self._thread.start()

    def stop(self, patience: float = 1.0) -> tuple[bytes, str]:
        """(JSON lines, note): the note says in one sentence why samples are missing, or is empty."""
        if not self._makers:
            return b"", "no device with sensors was found, so nothing was sampled"
        self._stop.set()
        self._thread.join(patience)
        note = "reading the devices' sensors hangs, so samples are missing" if self._thread.is_alive() else ""
        return b"".join(self._lines[:_MOST]), note

    def _work(self) -> None:
        made: dict[str, Reader] = {}
        last = False
        while True:
            for name, maker in self._makers.items():
                self._add(self._one(name, maker, made))
            if last:
                return
            last = self._stop.wait(self._period)

    def _one(self, name: str, maker: Callable[[], Reader], made: dict[str, Reader]) -> Sample:
        try:
            if name not in made:
                made[name] = maker()
            return made[name]()
        except _errors() as error:
            return {"device": name, "error": f"{type(error).__name__}: {error}"[:200]}

    def _add(self, sample: Sample) -> None:
        if len(self._lines) < _MOST:
            line = json.dumps({"t": round(time.monotonic() - self._started, 3), **sample}, sort_keys=True)
            self._lines.append(line.encode() + b"\n")


def _errors() -> tuple[type[Exception], ...]:
    """What a reader may raise; NVML's own class, known once its package is loaded, is an Exception of its own."""
    library = sys.modules.get("pynvml")
    own: tuple[type[Exception], ...] = (library.NVMLError,) if library is not None else ()
    return (OSError, RuntimeError, ImportError, ValueError, AttributeError, *own)
