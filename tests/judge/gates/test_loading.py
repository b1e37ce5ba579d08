"""The promise: code opens a path only where a rule that was read says so; a doubt is unknown, not allow or block."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import machines
import sysroots
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.code_object import CodeObjects, CodeTarget, FileRef, KpackRef
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.hip_runtime import HipRuntime
from stillruns.model.machine import BackendLibrary, Machine, RuntimeInstall
from stillruns.model.raw import Cite

ALLOW, BLOCK, PARTIAL, UNKNOWN = GateStatus.ALLOW, GateStatus.BLOCK, GateStatus.PARTIAL, GateStatus.UNKNOWN
CUDA = "/opt/llama.cpp/libggml-cuda.so"


def cuda(tmp_path: Path, asked: str, *targets: str) -> GateStatus:
    """The code objects gate of a CUDA library with these targets for a capability."""
    entries = tuple(CodeTarget(text, text.rstrip("af")) for text in targets)
    code = CodeObjects(FileRef(CUDA, 1 << 20), "fat ELF", targets=entries)
    install = RuntimeInstall(
        "llama.cpp", "/opt/llama.cpp", "", "", "", "", (BackendLibrary("cuda", CUDA),), Cite("x")
    )
    machine = dataclasses.replace(machines.of(tmp_path), runtimes=(install,), code={CUDA: code})
    return machines.gate(machines.judged(machine, asked), Layer.CODE_OBJECTS, Backend.CUDA.value).status


@pytest.mark.parametrize(
    ("asked", "has", "status"),
    [
        ("sm_103", "sm_100a", BLOCK),  # bound to sm_100
        ("sm_100", "sm_100a", ALLOW),
        ("sm_100a", "sm_100a", ALLOW),
        ("sm_90", "sm_90a", ALLOW),
        ("sm_103", "sm_100f", ALLOW),  # one family
        ("sm_120", "sm_100f", BLOCK),
        ("sm_121", "sm_120f", ALLOW),
        ("sm_120", "sm_121f", BLOCK),  # older than the code
        ("sm_107", "sm_100f", UNKNOWN),  # same major, a family that nobody named
        ("sm_103", "compute_100a", BLOCK),
        ("sm_103", "compute_100f", PARTIAL),
        ("sm_120", "compute_100", PARTIAL),  # plain PTX is for all that come later
        ("sm_120", "compute_100f", BLOCK),
        ("sm_61", "sm_60", ALLOW),
        ("sm_61", "sm_70", BLOCK),
        ("sm_62", "sm_61", UNKNOWN),  # Jetson
        ("sm_86", "sm_80", ALLOW),
    ],
)
def test_cuda_suffixes(tmp_path: Path, asked: str, has: str, status: GateStatus) -> None:
    """`a` opens exactly its capability, `f` its family, plain code its major's later minors."""
    assert cuda(tmp_path, asked, has) is status


def test_a_certain_fit_comes_first(tmp_path: Path) -> None:
    """A doubtful entry decides nothing where another fits for certain."""
    assert cuda(tmp_path, "sm_62", "sm_61", "sm_62") is ALLOW


@pytest.mark.parametrize("entries", [("compute_90", "sm_90"), ("sm_90", "compute_90")])
def test_machine_code_comes_before_ptx(tmp_path: Path, entries: tuple[str, str]) -> None:
    """A library with both, in either order, needs no compiling at the first start (llama.cpp b10435 on an H200)."""
    assert cuda(tmp_path, "sm_90", *entries) is ALLOW


@pytest.fixture()
def machine(tmp_path: Path) -> Machine:
    """One MI50."""
    sysroots.mi50(tmp_path)
    return machines.of(tmp_path)


def gate(
    machine: Machine, target: str, runtime: HipRuntime | Absence | None, *, soname: str = "libamdhip64.so.6",
    version: int | None = 5, compressed: dict[str, int] | None = None,
) -> Gate:  # fmt: skip
    """The code objects gate for a library with one target and one HIP runtime."""
    code = machines.code(target)
    entry = dataclasses.replace(code.targets[0], code_object_version=version)
    code = dataclasses.replace(code, targets=(entry,), compressed=compressed or {})
    links = {soname: machines.HIP_RUNTIME, "librocblas.so.4": machines.ROCBLAS}
    told = machines.with_runtime(machine, target, links=links, found=code, library_target="gfx906")
    hip = {} if runtime is None else {machines.HIP_RUNTIME: runtime}
    return machines.gate(machines.judged(dataclasses.replace(told, hip=hip)), Layer.CODE_OBJECTS)


OLD = machines.hip("5.7.31921", compressed=False, generic=())
EARLY = machines.hip("6.1.40091", compressed=False, generic=())
NOW = machines.hip()
NEXT = machines.hip("7.2.53211")


def test_generic_needs_a_runtime_that_names_it(machine: Machine) -> None:
    """Debian's 6.4.3 names gfx9-generic, 5.7.1 no generic target; a library that was not read decides nothing."""
    assert gate(machine, "gfx9-generic", NOW, version=6).status is ALLOW
    assert gate(machine, "gfx9-generic", OLD, version=6).status is PARTIAL
    assert gate(machine, "gfx9-generic", None, version=6).status is UNKNOWN
    few = gate(machine, "gfx9-generic", machines.hip(generic=("gfx11-generic",)), version=6)
    assert few.status is PARTIAL and "gfx11-generic" in few.reason
    assert gate(machine, "gfx9-generic", EARLY, version=6).status is UNKNOWN


def test_compressed_bundles(machine: Machine) -> None:
    """Compressed code needs ROCm 6.2's runtime; its version 3 is younger than 6.3, decided from 7.1 on."""
    assert gate(machine, "gfx906", NOW, compressed={"v2/zstd": 4}).status is ALLOW
    old = gate(machine, "gfx906", OLD, compressed={"v2/zstd": 4}, soname="libamdhip64.so.5")
    assert old.status is PARTIAL and "compressed" in old.reason and "5.7.31921" in old.reason
    assert gate(machine, "gfx906", EARLY, compressed={"v2/zstd": 4}).status is PARTIAL
    dark = Absence(AbsenceReason.NO_PERMISSION, "libamdhip64 is not readable by this user")
    assert gate(machine, "gfx906", dark, compressed={"v2/zstd": 4}).status is UNKNOWN
    assert gate(machine, "gfx906", NOW, compressed={"v3/zstd": 4}).status is UNKNOWN
    assert gate(machine, "gfx906", machines.hip("6.2.41133"), compressed={"v3/zstd": 4}).status is PARTIAL
    assert gate(machine, "gfx906", NEXT, compressed={"v3/zstd": 4}).status is ALLOW
    assert gate(machine, "gfx906", NEXT, compressed={"v1/zlib": 1, "v2/zstd": 3}).status is UNKNOWN


def test_unknown_code_object_version(machine: Machine) -> None:
    """A version that was not read is no version that is old enough."""
    assert gate(machine, "gfx906", OLD, version=None, soname="libamdhip64.so.5").status is UNKNOWN
    assert gate(machine, "gfx906", OLD, version=5, soname="libamdhip64.so.5").status is ALLOW
    assert gate(machine, "gfx906", OLD, version=6, soname="libamdhip64.so.5").status is PARTIAL
    assert gate(machine, "gfx906", NOW, version=None).status is ALLOW


def test_kpack_needs_a_runtime_that_reads_it(machine: Machine) -> None:
    """Code in archives beside the library counts where the HIP runtime speaks of such archives."""

    def packed(runtime: HipRuntime) -> GateStatus:
        archives = KpackRef((".kpack",), "lib", ("gfx906",))
        code = dataclasses.replace(machines.code("gfx906"), targets=(), kpack=archives)
        told = machines.with_runtime(machine, "gfx906", found=code)
        told = dataclasses.replace(told, hip={machines.HIP_RUNTIME: runtime})
        return machines.gate(machines.judged(told), Layer.CODE_OBJECTS).status

    assert packed(dataclasses.replace(NEXT, kpack=True)) is ALLOW
    assert packed(NEXT) is UNKNOWN
    assert packed(NOW) is PARTIAL
