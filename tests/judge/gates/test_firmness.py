"""The promise: what was not read is unknown with its reason; it is never taken for allow or block."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import machines
import sysroots
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.gate import GateStatus, Layer
from stillruns.model.kernel_library import LibraryState

ALLOW, BLOCK, PARTIAL, UNKNOWN = GateStatus.ALLOW, GateStatus.BLOCK, GateStatus.PARTIAL, GateStatus.UNKNOWN


def firmware(root: Path, *names: str, wanted: tuple[str, ...] = ()) -> None:
    """Firmware files, and the driver's own list in its module."""
    for name in names:
        sysroots.write(root, f"lib/firmware/amdgpu/{name}.bin.zst", "x")
    lines = b"".join(b"firmware=amdgpu/%s.bin\0" % name.encode() for name in wanted)
    if wanted:
        sysroots.write(root, "proc/sys/kernel/osrelease", "6.12.48")
        sysroots.write(root, "lib/modules/6.12.48/kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko", b"\0" + lines)


class TestFirmware:
    """Cards that the compute driver did not take: files decide, as far as they can."""

    GC = ("gc_11_0_0_pfp", "gc_11_0_0_me", "gc_11_0_0_mec", "gc_11_0_0_rlc")

    def test_newer_chips(self, tmp_path: Path) -> None:
        """RDNA3: a missing file of the graphics core blocks; with all of them the rest stays undecided."""
        sysroots.card(tmp_path, device=0x744C, driver="")
        firmware(tmp_path, *self.GC, wanted=(*self.GC, "gc_11_0_0_mes_2", "gc_11_0_0_rlc_kicker", "sdma_6_0_0"))
        gate = machines.gate(machines.judged(machines.of(tmp_path)), Layer.FIRMWARE)
        assert gate.status is UNKNOWN and "gc_11_0_0_" in gate.reason and "SDMA" in gate.reason
        (tmp_path / "lib/firmware/amdgpu/gc_11_0_0_mec.bin.zst").unlink()
        gate = machines.gate(machines.judged(machines.of(tmp_path)), Layer.FIRMWARE)
        assert gate.status is BLOCK and "gc_11_0_0_mec.bin" in gate.reason

    def test_list_not_read(self, tmp_path: Path) -> None:
        """Some files of the chip without the driver's list prove nothing."""
        sysroots.card(tmp_path, driver="")
        firmware(tmp_path, "vega20_sos")
        gate = machines.gate(machines.judged(machines.of(tmp_path)), Layer.FIRMWARE)
        assert gate.status is UNKNOWN and "list was not read" in gate.reason

    def test_list_without_the_chip(self, tmp_path: Path) -> None:
        """A list that names no file of the chip does not say that all are there."""
        sysroots.card(tmp_path, driver="")
        firmware(tmp_path, "vega20_sos", wanted=("navi10_sos",))
        assert machines.gate(machines.judged(machines.of(tmp_path)), Layer.FIRMWARE).status is UNKNOWN

    def test_one_target_several_chips(self, tmp_path: Path) -> None:
        """gfx803 is five chips: one whole and one damaged set decide nothing for a card of unknown chip."""
        sysroots.card(tmp_path, device=0x67DF, driver="")
        names = ("polaris10_mec", "polaris10_rlc", "polaris11_mec", "polaris11_rlc")
        firmware(tmp_path, *names[:3], wanted=(*names, "polaris10_mec_2", "polaris10_k_smc"))
        gate = machines.gate(machines.judged(machines.of(tmp_path)), Layer.FIRMWARE)
        assert gate.status is UNKNOWN and "polaris11_rlc" in gate.reason and "polaris10_" in gate.reason
        (tmp_path / "lib/firmware/amdgpu/polaris10_mec.bin.zst").unlink()
        assert machines.gate(machines.judged(machines.of(tmp_path)), Layer.FIRMWARE).status is BLOCK

    def test_every_target_has_one_row(self) -> None:
        """Rows name targets that the catalogue knows, each once."""
        known = machines.tables()
        targets = [row.target for row in known.firmware]
        assert len(targets) == len(set(targets)) and set(targets) <= set(known.targets)


def test_unreadable_library_beside_one_without_the_target(tmp_path: Path) -> None:
    """One library lacks the target, another could not be read: unknown."""
    sysroots.mi50(tmp_path)
    machine = machines.with_runtime(machines.of(tmp_path), "gfx1030")
    library = dataclasses.replace(machine.runtimes[0].backends[0], path="/srv/x")
    second = dataclasses.replace(machine.runtimes[0], folder="/srv", backends=(library,))
    dark = Absence(AbsenceReason.NO_PERMISSION, "/srv/x is not readable by this user")
    both = dataclasses.replace(machine, runtimes=(machine.runtimes[0], second), code={**machine.code, "/srv/x": dark})
    gate = machines.gate(machines.judged(both), Layer.CODE_OBJECTS)
    assert gate.status is UNKNOWN and "/srv/x" in gate.reason and "gfx1030" in gate.reason


def test_damage_hides_targets(tmp_path: Path) -> None:
    """A target that is missing from the readable part of a damaged library may be in the rest."""
    sysroots.mi50(tmp_path)
    found = dataclasses.replace(machines.code("gfx1030"), problems=("the bundle at 0x1000 is cut off",))
    machine = machines.with_runtime(machines.of(tmp_path), "gfx1030", found=found)
    gate = machines.gate(machines.judged(machine), Layer.CODE_OBJECTS)
    assert gate.status is UNKNOWN and "0x1000" in gate.reason
    lost = dataclasses.replace(machines.code("gfx1030"), wrappers=9)
    machine = machines.with_runtime(machines.of(tmp_path), "gfx1030", found=lost)
    assert machines.gate(machines.judged(machine), Layer.CODE_OBJECTS).status is UNKNOWN


def test_model_needs_without_a_folder(tmp_path: Path) -> None:
    """No kernel folder was found: whether it matters is told, whether it is there is unknown."""
    sysroots.mi50(tmp_path)
    gate = machines.gate(machines.judged(machines.of(tmp_path)), Layer.MODEL_NEEDS)
    assert gate.status is UNKNOWN and "not known" in gate.reason


def test_folders_that_differ_decide_nothing(tmp_path: Path) -> None:
    """Without a runtime, two folders with different states are no verdict."""
    sysroots.mi50(tmp_path)
    machine = machines.with_runtime(machines.of(tmp_path), "gfx906")
    whole = machine.libraries[0]
    empty = dataclasses.replace(whole, folder="/opt/rocm-6.4/lib/rocblas/library", targets=())
    bare = dataclasses.replace(machine, runtimes=(), libraries=(whole, empty))
    gate = machines.gate(machines.judged(bare), Layer.KERNEL_LIBRARIES)
    assert gate.status is UNKNOWN and "/opt/rocm-6.4" in gate.reason
    alone = dataclasses.replace(bare, libraries=(whole,))
    assert machines.gate(machines.judged(alone), Layer.KERNEL_LIBRARIES).status is ALLOW
    assert whole.of("gfx906").state is LibraryState.COMPLETE


def test_bus_without_facts(tmp_path: Path) -> None:
    """A tree that shows neither the link nor the window is not `nothing odd`."""
    sysroots.card(tmp_path, driver="vfio-pci", current_link_width="", current_link_speed="", max_link_width="",
                  max_link_speed="")  # fmt: skip
    assert machines.gate(machines.judged(machines.of(tmp_path)), Layer.BUS).status is UNKNOWN


def test_driver_that_nobody_knows(tmp_path: Path) -> None:
    """pci-stub sets a card aside; a name that is not known decides nothing."""
    sysroots.card(tmp_path, driver="pci-stub")
    assert machines.gate(machines.judged(machines.of(tmp_path)), Layer.KERNEL_DRIVER).status is BLOCK
    other = tmp_path / "other"
    sysroots.card(other, driver="gpuzilla")
    gate = machines.gate(machines.judged(machines.of(other)), Layer.KERNEL_DRIVER)
    assert gate.status is UNKNOWN and "gpuzilla" in gate.reason


def test_unread_library_has_no_known_needs(tmp_path: Path) -> None:
    """A backend library that could not be read says nothing about what it links."""
    sysroots.mi50(tmp_path)
    machine = machines.with_runtime(machines.of(tmp_path), "gfx906", links={})
    dark = {machines.HIP: Absence(AbsenceReason.NO_PERMISSION, f"{machines.HIP} is not readable by this user")}
    gate = machines.gate(machines.judged(dataclasses.replace(machine, code=dark)), Layer.VERSIONS)
    assert gate.status is UNKNOWN and "not readable" in gate.reason


@pytest.mark.parametrize(
    ("line", "event", "address"),
    [
        ("amdgpu 0000:04:00.0: probe with driver amdgpu failed with error -22", "probe-failed", "0000:04:00.0"),
        ("amdgpu: probe of 0000:04:00.0 failed with error -22", "probe-failed", "0000:04:00.0"),
        ("kfd kfd: amdgpu: VEGAM  not supported in kfd", "not-supported-in-kfd", ""),
        ("amdgpu 0000:04:00.0: amdgpu: GPU reset begin!. Source:  1", "gpu-reset", "0000:04:00.0"),
        ("amdgpu 0000:04:00.0: GPU fault detected: 146 0x0000480c", "page-fault-gfx8", "0000:04:00.0"),
        ("NVRM: Xid (PCI:0000:3b:00): 79, pid=0, GPU has fallen off the bus.", "xid", "0000:3b:00.0"),
        ("NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 94, pid=7194, Contained", "xid", "0000:3b:00.0"),
        ("NVRM: installed in this system is not supported by open", "nvidia-unsupported", ""),
        ("NVRM: ignoring the legacy GPU 0000:3b:00.0", "nvidia-legacy", "0000:3b:00.0"),
        ("amdgpu 0000:04:00.0: amdgpu: 2 new uncorrectable hardware errors detected in umc block",
         "ras-uncorrectable", "0000:04:00.0"),
        ("pci 0000:04:00.0: BAR 0 [mem size 0x400000000 64bit pref]: can't assign; no space", "bar-no-space",
         "0000:04:00.0"),
    ],
)  # fmt: skip
def test_kernel_lines(tmp_path: Path, line: str, event: str, address: str) -> None:
    """The forms that kernels 6.1 and 7.2 and NVIDIA's driver 595 print, each with the card that it names."""
    sysroots.write(tmp_path, "var/log/dmesg", f"[    1.000000] {line}")
    log = machines.of(tmp_path).log
    assert not isinstance(log, Absence)
    assert [(e.id, e.address) for e in log.events] == [(event, address)]


def test_no_uncorrectable_errors_is_none(tmp_path: Path) -> None:
    """A count of zero is no event."""
    sysroots.write(
        tmp_path, "var/log/dmesg", "amdgpu: 0 uncorrectable hardware errors detected in total in umc block"
    )
    log = machines.of(tmp_path).log
    assert not isinstance(log, Absence) and log.events == ()


@pytest.mark.parametrize(
    ("model", "target"),
    [
        ("NVIDIA TITAN X (Pascal)", "sm_61"), ("NVIDIA GeForce GTX TITAN X", "sm_52"), ("GeForce GTX 960M", "sm_50"),
        ("GeForce GTX 960", "sm_52"), ("GeForce GTX 970M", "sm_52"), ("GeForce GTX 760", ""),
        ("Quadro M1200", "sm_50"),
        ("Quadro M2000M", "sm_50"), ("Quadro M2000", "sm_52"), ("Tesla P100-PCIE-16GB", "sm_60"),
        ("Tesla P40", "sm_61"),
        ("NVIDIA B200", "sm_100"), ("NVIDIA GB300", "sm_103"), ("NVIDIA GB10", "sm_121"), ("NVIDIA A30", "sm_80"),
        ("NVIDIA RTX A2000 12GB", "sm_86"), ("NVIDIA L4", "sm_89"), ("GeForce RTX 2080 Ti", "sm_75"),
    ],
)  # fmt: skip
def test_nvidia_names(tmp_path: Path, model: str, target: str) -> None:
    """A model name leads to the capability that NVIDIA's own lists give it, and to none where they do not (the
    card's PCI id is in no table)."""
    sysroots.card(tmp_path, "0000:3b:00.0", 0x2FFF, vendor=0x10DE, driver="nvidia", kind="0x030200")
    sysroots.write(tmp_path, "proc/driver/nvidia/version", "NVRM version: x  Kernel Module  580.95.05  x")
    sysroots.write(tmp_path, "proc/driver/nvidia/gpus/0000:3b:00.0/information", f"Model: \t {model}")
    assert machines.of(tmp_path).cards[0].target == target


def test_ollama_of_no_release(tmp_path: Path) -> None:
    """A build that calls itself something else has filters that nobody knows."""
    sysroots.mi50(tmp_path)
    machine = machines.with_runtime(machines.of(tmp_path), "gfx906", runtime="ollama", version="my-fork")
    gate = machines.gate(machines.judged(machine), Layer.RUNTIME_FILTER)
    assert gate.status is UNKNOWN and "my-fork" in gate.reason


@pytest.mark.parametrize(
    ("version", "status"), [("0.33.0-rc2", BLOCK), ("0.17.5", BLOCK), ("0.3.14", ALLOW), ("0.99.0", UNKNOWN)]
)
def test_ollama_newer_than_what_was_read(tmp_path: Path, version: str, status: GateStatus) -> None:
    """Releases that were read are built for gfx906 or not; a newer one is not foretold."""
    sysroots.mi50(tmp_path)
    machine = machines.with_runtime(machines.of(tmp_path), "gfx906", runtime="ollama", version=version)
    gate = machines.gate(machines.judged(machine), Layer.BUILD_FILTER)
    assert gate.status is status and version in gate.reason
