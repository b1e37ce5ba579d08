"""Sensors are read once a second, never on a sleeping card, and a driver that hangs holds up nothing."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from act_helpers import SOON, wait_until

from stillruns.act import sampling


@pytest.fixture
def card(tmp_path: Path) -> Path:
    """A display device in a tree like /sys, with the files of an amdgpu card."""
    device = tmp_path / "bus/pci/devices/0000:03:00.0"
    hwmon = device / "hwmon/hwmon3"
    hwmon.mkdir(parents=True)
    (device / "power").mkdir()
    for name, text in {
        "class": "0x030000",
        "power/runtime_status": "active",
        "gpu_busy_percent": "97",
        "mem_info_vram_used": str(3 << 30),
        "mem_info_vram_total": str(8 << 30),
        "hwmon/hwmon3/temp1_input": "54000",
        "hwmon/hwmon3/temp1_label": "edge",
        "hwmon/hwmon3/temp2_input": "61500",
        "hwmon/hwmon3/power1_average": "165000000",
        "hwmon/hwmon3/freq1_input": "1590000000",
        "hwmon/hwmon3/freq1_label": "sclk",
    }.items():
        (device / name).write_text(text + "\n")
    return device


def sampled(root: Path, readings: int, patience: float = 60.0) -> tuple[list[dict[str, object]], str]:
    """What was sampled until that many readings had begun, and at the end."""
    begun: list[str] = []

    def counted(name: str, maker: Callable[[], sampling.Reader]) -> Callable[[], sampling.Reader]:
        def make() -> sampling.Reader:
            read = maker()

            def one() -> sampling.Sample:
                begun.append(name)
                return read()

            return one

        return make

    makers = sampling.readers(sampling.devices(root, root), root)
    sampler = sampling.Sampler({name: counted(name, maker) for name, maker in makers.items()}, 0.1)
    sampler.start()
    assert wait_until(lambda: len(begun) >= readings)
    data, note = sampler.stop(patience)
    return [json.loads(line) for line in data.splitlines()], note


def test_samples(card: Path, tmp_path: Path) -> None:
    """Numbers in the units that their names say, at the start, in between and at the end."""
    began = time.monotonic()
    samples, note = sampled(tmp_path, 2)
    took = time.monotonic() - began
    assert note == "" and len(samples) >= 3
    first = samples[0]
    times = [sample.pop("t") for sample in samples]
    assert times == sorted(times) and times[0] < times[-1]  # type: ignore[type-var]
    assert times[0] >= 0 and times[-1] <= took + 0.001  # type: ignore[operator] - rounded to a millisecond
    assert first == {
        "device": "0000:03:00.0",
        "runtime_status": "active",
        "temperature_c": {"edge": 54.0, "temp2": 61.5},
        "power_w": 165.0,
        "clock_mhz": {"sclk": 1590.0},
        "busy_percent": 97.0,
        "memory_used_mib": 3072.0,
        "memory_total_mib": 8192.0,
    }
    assert all(sample == first for sample in samples)


def test_a_sleeping_card_is_not_touched(card: Path, tmp_path: Path) -> None:
    """While it sleeps, only its power state is read: a read of any sensor would block here for ever."""
    (card / "power/runtime_status").write_text("suspended\n")
    for name in ("gpu_busy_percent", "hwmon/hwmon3/temp1_input"):
        (card / name).unlink()
        os.mkfifo(card / name)
    samples, note = sampled(tmp_path, 2)
    assert note == "" and samples
    assert all(set(sample) == {"t", "device", "runtime_status"} for sample in samples)


def test_a_hung_driver(card: Path, tmp_path: Path) -> None:
    """A read that never returns costs half a second at the end, and is told."""
    (card / "gpu_busy_percent").unlink()
    os.mkfifo(card / "gpu_busy_percent")
    began = time.monotonic()
    samples, note = sampled(tmp_path, 1, 0.5)
    assert time.monotonic() - began < SOON
    assert samples == [] and note == "reading the devices' sensors hangs, so samples are missing"
    os.close(os.open(card / "gpu_busy_percent", os.O_WRONLY))  # lets the reading thread go


def test_no_device(tmp_path: Path) -> None:
    """Nothing to sample is said in one sentence."""
    assert sampled(tmp_path, 0) == ([], "no device with sensors was found, so nothing was sampled")


def test_damaged_sensors(card: Path, tmp_path: Path) -> None:
    """Values that are no numbers are left out, not guessed."""
    (card / "gpu_busy_percent").write_bytes(b"\xff\xfe")
    (card / "hwmon/hwmon3/temp1_input").write_text("hot")
    samples, _ = sampled(tmp_path, 1)
    assert "busy_percent" not in samples[0] and samples[0]["temperature_c"] == {"temp2": 61.5}
