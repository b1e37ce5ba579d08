"""The promise: heat, errors and a wrong size are named, a reached power limit is no fault, and silence is unknown."""

from __future__ import annotations

import dataclasses
import struct
from pathlib import Path

import machines
import sysroots
from stillruns.collect.cuda import STATE
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.raw import Collected, RawCommand, RawFile
from stillruns.normalise import cuda

ALLOW, PARTIAL, UNKNOWN = GateStatus.ALLOW, GateStatus.PARTIAL, GateStatus.UNKNOWN
BASE = "sys/devices/pci0000:00/0000:00:03.1/0000:04:00.0"


def metrics(status: int) -> bytes:
    """A Vega 20 table with this status."""
    data = bytearray(80)
    struct.pack_into("<HBB", data, 0, 80, 1, 0)
    struct.pack_into("<I", data, 68, status)
    return bytes(data)


def gate(root: Path) -> Gate:
    """The ROCm path's gate."""
    return machines.gate(machines.judged(machines.of(root)), Layer.POWER)


def test_throttled_by_heat(tmp_path: Path) -> None:
    """A hot memory slows the card: partial, with the driver's table as evidence."""
    sysroots.mi50(tmp_path)
    sysroots.write(tmp_path, f"{BASE}/gpu_metrics", metrics(1 << 3))
    found = gate(tmp_path)
    assert found.status is PARTIAL and "heat of the memory" in found.reason
    assert any(cite.source.endswith("gpu_metrics") for cite in found.evidence)


def test_power_limit_is_no_fault(tmp_path: Path) -> None:
    """A card under load runs at its limit; nothing is advised."""
    sysroots.mi50(tmp_path)
    sysroots.write(tmp_path, f"{BASE}/gpu_metrics", metrics(1 << 13))
    found = gate(tmp_path)
    assert found.status is ALLOW and "power limit" in found.reason and not found.advice
    sysroots.write(tmp_path, f"{BASE}/gpu_metrics", metrics(0))
    assert "nothing slows it down" in gate(tmp_path).reason


def test_format_that_is_not_known(tmp_path: Path) -> None:
    """A newer table is said to be not read; the sensors count on."""
    sysroots.mi50(tmp_path)
    sysroots.write(tmp_path, f"{BASE}/gpu_metrics", struct.pack("<HBB", 400, 3, 7) + bytes(396))
    found = gate(tmp_path)
    assert found.status is ALLOW and "not read" in found.reason


def test_sold_as_the_larger_one(tmp_path: Path) -> None:
    """The board's name says 32 GB, the driver 16 GiB; the true one is not blamed."""
    sysroots.mi50(tmp_path)
    sysroots.write(tmp_path, f"{BASE}/product_name", "Instinct MI50 32GB")
    found = gate(tmp_path)
    assert found.status is PARTIAL and "32GB" in found.reason and "16 GiB" in found.reason
    sysroots.write(tmp_path, f"{BASE}/product_name", "Instinct MI50 16GB")
    assert gate(tmp_path).status is ALLOW


def nvidia(tmp_path: Path, line: str, model: str = "Tesla P40") -> Gate:
    """A card for which nvidia-smi prints this line."""
    address = "0000:3b:00.0"
    sysroots.card(tmp_path, address, 0x1B38, vendor=0x10DE, driver="nvidia", kind="0x030200")
    about = f"Model: {model}\nDevice Minor: 1".encode()
    files = (
        RawFile("/proc/driver/nvidia/version", "", "file", b"NVRM version: x  Kernel Module  580.95.05  x"),
        RawFile(f"/proc/driver/nvidia/gpus/{address}/information", "", "file", about),
    )
    command = RawCommand(("nvidia-smi", f"--query-gpu={STATE}"), 0, line.encode())
    facts = cuda.parse(Collected(files, (command,) if line else ()))
    machine = machines.of(tmp_path)
    cards = tuple(dataclasses.replace(card, target="sm_61", name=model) for card in machine.cards)
    return machines.gate(
        machines.judged(dataclasses.replace(machine, nvidia=facts, cards=cards)), Layer.POWER, "cuda"
    )


def test_nvidia_states(tmp_path: Path) -> None:
    """Reasons for low clocks, errors and a size that is not the name's; values that are not given; no nvidia-smi."""
    good = nvidia(tmp_path, "00000000:3B:00.0, 0x0000000000000004, 61, 180.12, 250.00, 0, 23040")
    assert good.status is ALLOW and "61 C" in good.reason and "limit 250 W, reached" in good.reason
    hot = nvidia(tmp_path, "00000000:3B:00.0, 0x0000000000000040, 92, 90.00, 250.00, 3, 23040")
    assert hot.status is PARTIAL and "heat (hardware)" in hot.reason and "3 uncorrectable" in hot.reason
    small = nvidia(tmp_path, "00000000:3B:00.0, 0x0000000000000000, 40, 20.0, 250.0, [N/A], 12288", "Tesla P40 24GB")
    assert small.status is PARTIAL and "24GB" in small.reason and "12 GiB" in small.reason
    none = nvidia(tmp_path, "00000000:3B:00.0, [N/A], [N/A], [N/A], [N/A], [N/A], [N/A]")
    assert none.status is UNKNOWN
    assert nvidia(tmp_path, "").status is UNKNOWN


def test_nvidia_node_by_its_own_number(tmp_path: Path) -> None:
    """The second card's node is /dev/nvidia1, not the first one's."""
    address = "0000:3b:00.0"
    sysroots.card(tmp_path, address, 0x1B38, vendor=0x10DE, driver="nvidia", kind="0x030200")
    sysroots.write(tmp_path, "proc/driver/nvidia/version", "NVRM version: x  Kernel Module  580.95.05  x")
    sysroots.write(tmp_path, f"proc/driver/nvidia/gpus/{address}/information", "Model: Tesla P40\nDevice Minor: \t 1")
    sysroots.nodes(tmp_path, "dev/nvidiactl", "dev/nvidia0", mode=0o666)
    found = machines.gate(machines.judged(machines.of(tmp_path)), Layer.PERMISSIONS, "cuda")
    assert found.status is GateStatus.BLOCK and "/dev/nvidia1" in found.reason
