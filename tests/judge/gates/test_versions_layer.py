"""The promise: what each runtime links is told, and parts of two releases in one process are named."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import machines
import sysroots
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.machine import BackendLibrary, Machine

ALLOW, BLOCK, PARTIAL = GateStatus.ALLOW, GateStatus.BLOCK, GateStatus.PARTIAL


@pytest.fixture()
def machine(tmp_path: Path) -> Machine:
    """One MI50 in a whole system."""
    sysroots.mi50(tmp_path)
    sysroots.write(tmp_path, "usr/lib/x86_64-linux-gnu/libc.so.6", b"\x7fELF")
    return machines.of(tmp_path)


def gate(machine: Machine, links: dict[str, str], **more: dict[str, str]) -> Gate:
    """The gate for a runtime whose library links these."""
    told = machines.with_runtime(machine, "gfx906", links=links)
    (runtime,) = told.runtimes
    backends = tuple(dataclasses.replace(library, **more) for library in runtime.backends)
    told = dataclasses.replace(told, runtimes=(dataclasses.replace(runtime, backends=backends),))
    return machines.gate(machines.judged(told), Layer.VERSIONS)


HIP = {"libamdhip64.so.6": "/opt/rocm-6.4.1/lib/libamdhip64.so.6.4.60401"}


def test_one_release(machine: Machine) -> None:
    """All from one folder, and what the HIP runtime opens later."""
    found = gate(machine, {**HIP, "librocblas.so.4": "/opt/rocm-6.4.1/lib/librocblas.so.4.4"},
                 opens={"libamd_comgr.so.3": "/opt/rocm-6.4.1/lib/libamd_comgr.so.3.0"})  # fmt: skip
    assert found.status is ALLOW and "opens libamd_comgr.so.3, from /opt/rocm-6.4.1/lib" in found.reason
    missing = gate(machine, HIP, opens={"libamd_comgr.so.3": ""})
    assert missing.status is ALLOW and "would not find" in missing.reason


def test_two_releases_in_one_process(machine: Machine) -> None:
    """rocBLAS of 5.7 under HIP of 6.4, and two HIP runtimes at once."""
    found = gate(machine, {**HIP, "librocblas.so.3": "/opt/rocm-5.7.1/lib/librocblas.so.3.1"})
    assert found.status is PARTIAL and "librocblas.so.3 of ROCm 5.7" in found.reason and "ROCm 6.4" in found.reason
    found = gate(machine, {**HIP, "libamdhip64.so.5": "/usr/lib/x86_64-linux-gnu/libamdhip64.so.5"})
    assert found.status is PARTIAL and "libamdhip64.so.5 and libamdhip64.so.6" in found.reason


def test_ldconfig_was_not_run(machine: Machine) -> None:
    """The place that the loader's cache does not know is told, with what to do."""
    found = gate(machine, {"libamdhip64.so.6": ""}, uncached={"libamdhip64.so.6": "/opt/rocm/lib"})
    assert found.status is BLOCK and "/opt/rocm/lib" in found.reason and "ldconfig" in found.advice


def test_one_broken_runtime_of_two(machine: Machine) -> None:
    """A second runtime that is whole leaves the path open."""
    told = machines.with_runtime(machine, "gfx906")
    (runtime,) = told.runtimes
    broken = BackendLibrary("rocm", "/srv/old/libggml-hip.so", {"libamdhip64.so.5": ""})
    second = dataclasses.replace(runtime, folder="/srv/old", backends=(broken,))
    both = dataclasses.replace(told, runtimes=(second, runtime))
    found = machines.gate(machines.judged(both), Layer.VERSIONS)
    assert found.status is PARTIAL and "/srv/old/libggml-hip.so needs libamdhip64.so.5" in found.reason
    assert f"{machines.HIP} is whole" in found.reason
