"""The promise: what the machine's files say is read right, and hostile bytes in them cost nothing but their own
fact."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import machines
import stillruns.collect
import sysroots
from stillruns.catalogue.gate_tables import tables
from stillruns.collect.gathering import NoCommands
from stillruns.collect.tree import FileTree
from stillruns.lab.machines import machine as lab_machine
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.card import CardState
from stillruns.model.machine import KernelLog, Kfd, Vulkan
from stillruns.model.probe import Probe
from stillruns.model.raw import Collected, RawCommand, RawFile
from stillruns.normalise import amdgpu, kernel_log, kfd, vulkan

PROBES = {
    info.name: module
    for info in pkgutil.iter_modules(stillruns.collect.__path__)
    if isinstance(getattr(module := importlib.import_module(f"stillruns.collect.{info.name}"), "PROBE", None), Probe)
}
KNOWN: dict[str, tuple[object, ...]] = {"kernel_log": (tables().events,), "runtimes": ((),)}
"""What a parser is given besides the bytes."""


def parser(name: str) -> Callable[[Collected], object]:
    """The parser of a probe: in normalise, under the probe's own name."""
    parse = importlib.import_module(f"stillruns.normalise.{name}").parse
    return lambda raw: parse(raw, *KNOWN.get(name, ()))


PARSERS = {name: parser(name) for name, probe in PROBES.items() if hasattr(probe, "collect")}


@pytest.mark.parametrize("name", PROBES)
def test_probes_say_what_they_do(name: str, tmp_path: Path) -> None:
    """Each probe declares reads and when it applies, and an empty machine is no error."""
    module = PROBES[name]
    assert module.PROBE.id == name and module.PROBE.reads and module.PROBE.applies
    if hasattr(module, "collect"):
        assert isinstance(module.collect(FileTree(tmp_path), NoCommands()), Collected)
        assert vars(lab_machine).get(name) is module, "no machine is read with it"


@pytest.mark.parametrize("name", PARSERS)
def test_nothing_is_an_absence(name: str) -> None:
    """A parser that was given nothing says so; it never invents a default."""
    found = PARSERS[name](Collected())
    assert isinstance(found, Absence) and found.detail


PATHS = (
    "/sys/bus/pci/devices/0000:04:00.0/vendor", "/sys/bus/pci/devices/0000:04:00.0/device",
    "/sys/bus/pci/devices/0000:04:00.0/resource", "/sys/bus/pci/devices/0000:04:00.0/pp_dpm_sclk",
    "/sys/bus/pci/devices/0000:04:00.0/hwmon/hwmon1/temp1_input", "/sys/class/kfd/kfd/topology/nodes/1/properties",
    "/sys/class/kfd/kfd/topology/nodes/1/mem_banks/0/properties", "/dev/kmsg", "/var/log/dmesg", "/etc/group",
    "/etc/passwd", "/proc/self/status", "/proc/7/comm", "/proc/7/environ", "/etc/systemd/system/ollama.service",
    "/proc/modules", "/usr/share/vulkan/icd.d/x.json", "/proc/driver/nvidia/version", "/var/lib/dpkg/status",
    "/opt/rocm/.info/version",
    "/proc/1/cgroup", "/sys/class/drm/card0/dev", "/lib/firmware/amdgpu", "/lib/modules/x/amdgpu.ko",
    "/usr/lib/ollama/rocm",
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_hostile_bytes(data: st.DataObject) -> None:
    """No bytes in any file make any parser raise."""
    content = st.one_of(
        st.binary(max_size=200),
        st.text(alphabet="0123456789abcdefgx:;,=- \n\t{}\"'()[]<>Mhz*\0", max_size=200).map(str.encode),
    )
    files = tuple(
        RawFile(path, path, data.draw(st.sampled_from(["file", "folder", "device"])), data.draw(content))
        for path in PATHS
    )
    commands = tuple(
        RawCommand((name,), 0, data.draw(content)) for name in ("vulkaninfo", "journalctl", "rpm", "nvidia-smi")
    )
    for parse in PARSERS.values():
        parse(Collected(files, commands))


def test_kfd_old_and_new(tmp_path: Path) -> None:
    """Nodes with their memory, features and addresses; CPUs are nodes too."""
    sysroots.mi50(tmp_path)
    found = kfd.parse(PROBES["kfd"].collect(FileTree(tmp_path), NoCommands()))
    assert isinstance(found, Kfd) and [node.is_gpu for node in found.nodes] == [False, True]
    node = found.nodes[1]
    assert (node.version, node.address, node.memory, node.sramecc) == (90006, "0000:04:00.0", 16 << 30, True)
    assert node.cite.at == "L22" and node.cite.excerpt == "gfx_target_version 90006"


def test_amdgpu_state(tmp_path: Path) -> None:
    """Units: bytes, watts, degrees, MHz."""
    sysroots.card(tmp_path)
    found = amdgpu.parse(PROBES["amdgpu"].collect(FileTree(tmp_path), NoCommands()))
    assert isinstance(found, dict)
    state = found["0000:04:00.0"]
    assert isinstance(state, CardState)
    assert (state.vram, state.power_cap, state.sclk) == (16 << 30, 225.0, (925, 1700))
    assert [(t.label, t.now, t.critical) for t in state.temperatures] == [("edge", 41.0, 100.0)]
    assert state.errors == {"umc": (0, 0)}


def test_ring_buffer_records() -> None:
    """/dev/kmsg's records carry prefixes and continuation lines; text that imitates a record's end does no harm."""
    text = (
        b"6,100,1000,-;amdgpu 0000:04:00.0: [gfxhub0] no-retry page fault (src_id:0)\n SUBSYSTEM=pci\n"
        b"4,101,1001,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
        b"4,102,1002,-;amdgpu: Direct firmware load for amdgpu/vega20_sos.bin failed with error -2\n"
    )
    found = kernel_log.parse(Collected((RawFile("/dev/kmsg", "/dev/kmsg", "file", text),)), tables().events)
    assert isinstance(found, KernelLog)
    assert [(e.id, e.cite.at) for e in found.events] == [
        ("page-fault", "L1"),
        ("xid", "L3"),
        ("firmware-missing", "L4"),
    ]
    assert found.events[0].address == "0000:04:00.0" and "vega20_sos.bin" in found.events[2].text


def test_closed_log() -> None:
    """A log that this user may not read is NO_PERMISSION, with what helps."""
    closed = Absence(AbsenceReason.NO_PERMISSION, "/dev/kmsg is not readable by this user")
    found = kernel_log.parse(Collected((RawFile("/dev/kmsg", absence=closed),)), tables().events)
    assert isinstance(found, Absence) and found.reason is AbsenceReason.NO_PERMISSION and found.hint


def test_vulkaninfo() -> None:
    """The summary's blocks; a rasteriser is one by its type, whatever it is called."""
    text = b"""Devices:
========
GPU0:
\tapiVersion         = 1.4.305 (4211001)
\tvendorID           = 0x1002
\tdeviceID           = 0x66a1
\tdeviceType         = PHYSICAL_DEVICE_TYPE_DISCRETE_GPU
\tdeviceName         = AMD Radeon VII (RADV VEGA20)
\tdriverName         = radv
GPU1:
\tvendorID           = 0x10005
\tdeviceType         = PHYSICAL_DEVICE_TYPE_CPU
\tdeviceName         = llvmpipe (LLVM 15.0.6, 256 bits)
"""
    found = vulkan.parse(Collected((), (RawCommand(("vulkaninfo", "--summary"), 0, text),)))
    assert isinstance(found, Vulkan) and not isinstance(found.devices, Absence)
    assert [(d.vendor, d.device, d.software) for d in found.devices] == [(0x1002, 0x66A1, False), (0x10005, 0, True)]


def test_units_and_processes(tmp_path: Path) -> None:
    """Quoted and continued lines of units; a process's own environment; secrets are never kept."""
    unit_text = (
        '[Service]\nUser=ollama\nEnvironment="HSA_OVERRIDE_GFX_VERSION=9.0.0" \\\n  OLLAMA_VULKAN=1 API_TOKEN=x'
    )
    sysroots.write(tmp_path, "etc/systemd/system/ollama.service", unit_text)
    sysroots.write(tmp_path, "proc/9/comm", "ollama")
    sysroots.write(tmp_path, "proc/9/environ", "ROCR_VISIBLE_DEVICES=\0HF_TOKEN=secret\0")
    machine = machines.of(tmp_path)
    unit, process = machine.environments
    assert unit.user == "ollama" and unit.variables == {"HSA_OVERRIDE_GFX_VERSION": "9.0.0", "OLLAMA_VULKAN": "1"}
    assert process.serving and process.variables == {"ROCR_VISIBLE_DEVICES": ""}


def test_runtime_of_a_unit(tmp_path: Path) -> None:
    """A build in somebody's home that a unit would start is a runtime like any other."""
    place = "/home/rig/llama.cpp/build/bin"
    unit = f'[Service]\nExecStart=-"{place}/llama-server" -m x.gguf\n'
    sysroots.write(tmp_path, "etc/systemd/system/llama.service", unit)
    sysroots.write(tmp_path, f"{place}/libggml-vulkan.so", b"\x7fELF")
    assert [runtime.folder for runtime in machines.of(tmp_path).runtimes] == [place]


def test_packages(tmp_path: Path) -> None:
    """dpkg's stanzas, pacman's folders, /opt's version file; a dangling loop of /opt/rocm is told."""
    sysroots.write(tmp_path, "var/lib/dpkg/status",
                   "Package: librocblas4\nStatus: install ok installed\nVersion: 6.4.4-4\n\n"
                   "Package: librocblas0\nStatus: deinstall ok config-files\nVersion: 5.5.1\n\nPackage: "
                   "bash\nVersion: 5\n")  # fmt: skip
    (tmp_path / "var/lib/pacman/local/rocm-core-7.2.0-1").mkdir(parents=True)
    sysroots.write(tmp_path, "opt/rocm-6.2.0/.info/version", "6.2.0-66")
    pieces = {(p.name, p.version, p.told_by) for p in machines.of(tmp_path).rocm}
    assert pieces == {
        ("librocblas4", "6.4.4-4", "dpkg"),
        ("rocm-core", "7.2.0-1", "pacman"),
        ("rocm", "6.2.0-66", "/opt/rocm-6.2.0"),
    }
