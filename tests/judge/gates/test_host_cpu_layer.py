"""The promise: CPU libraries are judged by what their build needs; one that nobody knows is no verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

import described
import machines
import sysroots
from stillruns.model.gate import Gate, GateMatrix, GateStatus, Layer, PathStatus

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


def beside(
    root: Path, *, cpu: str = "ssse3", container: str = "docker", library: str = "libggml-cpu.so"
) -> GateMatrix:
    """A GTX 1060 with a llama.cpp in /usr/lib64, in a container or not."""
    facts = {"os": "fedora 41", "container": container, "cpu": cpu, "nvidia": "565.77",
             "cards": [{"id": "10de:1c03", "model": "NVIDIA GeForce GTX 1060 6GB", "gib": 6}],
             "files": {"/srv/llama/libggml-cuda.so": "cuda 61 12 $ORIGIN", f"/srv/llama/{library}": "elf",
                       "/srv/llama/libcudart.so.12": "elf", "/srv/llama/libcublas.so.12": "elf"},
             "process": {"program": "/srv/llama/llama-server", "uid": 0}}  # fmt: skip
    described.build(root, facts, {})
    return machines.judged(machines.of(root))


def test_the_cpu_part_of_a_gpu_s_path(tmp_path: Path) -> None:
    """An image's only CPU library and a CPU without AVX: nobody can say that the GPU's path is open."""
    path = machines.path(beside(tmp_path), "cuda")
    assert path.status is PathStatus.UNKNOWN and "host CPU" in path.reason and "avx2" in path.reason


@pytest.mark.parametrize(
    ("cpu", "container", "library", "status"),
    [
        ("avx2", "docker", "libggml-cpu.so", PathStatus.OPEN),
        ("ssse3", "", "libggml-cpu.so", PathStatus.OPEN),
        ("ssse3", "docker", "libggml-cpu-x64.so", PathStatus.OPEN),
        ("ssse3", "docker", "libggml-cpu-haswell.so", PathStatus.STOPPED),
    ],
)
def test_where_it_is_told(tmp_path: Path, cpu: str, container: str, library: str, status: PathStatus) -> None:
    """A newer CPU, a build that may be this host's own, a variant that runs here, one that does not."""
    assert machines.path(beside(tmp_path, cpu=cpu, container=container, library=library), "cuda").status is status
