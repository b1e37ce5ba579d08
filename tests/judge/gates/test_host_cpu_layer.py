"""The promise: CPU libraries are judged by what their build needs; one that nobody knows is no verdict."""

from __future__ import annotations

from pathlib import Path

import machines
import sysroots
from stillruns.model.gate import Gate, GateStatus, Layer

ALLOW, BLOCK, UNKNOWN = GateStatus.ALLOW, GateStatus.BLOCK, GateStatus.UNKNOWN
HASWELL = "sse4_2 avx f16c fma avx2 bmi2"


def cpu(root: Path, flags: str, *variants: str, key: str = "flags") -> Gate:
    """The host CPU's gate for a runtime with these libraries."""
    sysroots.write(root, "proc/cpuinfo", f"processor\t: 0\nmodel name\t: Test CPU\n{key}\t\t: {flags}")
    for variant in variants:
        sysroots.write(root, f"opt/llama.cpp/libggml-cpu{variant}.so", b"\x7fELF")
    return machines.gate(machines.judged(machines.of(root)), Layer.HOST_CPU, "cpu")


def test_variants(tmp_path: Path) -> None:
    """The best of those that run is named; none that runs blocks, with what is lacking."""
    found = cpu(tmp_path, HASWELL, "-x64", "-haswell", "-skylakex")
    assert found.status is ALLOW and "2 of 3 variants run here, haswell is the best" in found.reason
    found = cpu(tmp_path / "other", "sse4_2", "-haswell", "-alderlake")
    assert found.status is BLOCK and "avx2" in found.reason


def test_arm_variants(tmp_path: Path) -> None:
    """Arm's names hold dots, and its flags are called Features."""
    found = cpu(tmp_path, "fp asimd asimddp fphp asimdhp", "-armv8.0_1", "-armv8.2_2", "-armv8.6_1", key="Features")
    assert found.status is ALLOW and "armv8.2_2 is the best" in found.reason


def test_a_variant_that_nobody_knows(tmp_path: Path) -> None:
    """No known variant runs, and another's needs are not known: no verdict."""
    found = cpu(tmp_path, "sse4_2", "-haswell", "-quantumlake")
    assert found.status is UNKNOWN and "libggml-cpu-quantumlake.so" in found.reason
