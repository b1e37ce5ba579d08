"""Machines for judges: read from a fake tree, with what the tree cannot hold set as facts."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from stillruns.catalogue.gate_tables import tables
from stillruns.collect.gathering import NoCommands
from stillruns.collect.tree import FileTree
from stillruns.judge.gates import gates
from stillruns.lab.machines.machine import CheckRequest, read_machine
from stillruns.model.code_object import CodeObjects, CodeTarget, Feature, FileRef, ReadRange
from stillruns.model.gate import Gate, GateMatrix, GatePath, Layer
from stillruns.model.hip_runtime import HipRuntime
from stillruns.model.kernel_library import KernelLibrary, LibraryState, TargetFiles
from stillruns.model.machine import BackendLibrary, Environment, Machine, RuntimeInstall
from stillruns.model.raw import Cite
from stillruns.model.target import parse_target

HIP = "/opt/llama.cpp/libggml-hip.so"
VULKAN = "/opt/llama.cpp/libggml-vulkan.so"
HIP_RUNTIME = "/opt/rocm/lib/libamdhip64.so.6"
ROCBLAS = "/opt/rocm/lib/librocblas.so.4"
FOLDER = "/opt/rocm/lib/rocblas/library"


def of(root: Path) -> Machine:
    """The facts of a fake tree."""
    reading = read_machine(FileTree(root), NoCommands(), CheckRequest())
    assert reading.guard.faults == []
    return reading.machine


def judged(machine: Machine, target: str = "") -> GateMatrix:
    """All gates."""
    return gates.judge(machine, tables(), target)


def gate(matrix: GateMatrix, layer: Layer, path: str = "rocm", device: str | None = "") -> Gate:
    """One gate; the first of the path where no device is asked for."""
    for entry in matrix.gates:
        if entry.layer is layer and entry.path == path and (device == "" or entry.device == device):
            return entry
    raise AssertionError(f"no gate {layer.value} for {path}")


def path(matrix: GateMatrix, name: str, device: str | None = "") -> GatePath:
    """One path's line."""
    for entry in matrix.paths:
        if entry.path == name and (device == "" or entry.device == device):
            return entry
    raise AssertionError(f"no path {name}")


def code(
    *targets: str, file: str = HIP, bundles: int = 4, version: int = 6, counts: dict[str, int] | None = None
) -> CodeObjects:
    """A library that holds code for targets, as ids say them."""
    entries = []
    for text in targets:
        target = parse_target(text)
        assert target is not None

        def feature(value: bool | None) -> Feature:
            return Feature.ANY if value is None else Feature.ON if value else Feature.OFF

        entries.append(
            CodeTarget(
                text, target.processor, feature(target.xnack), feature(target.sramecc), version,
                count=(counts or {}).get(text, bundles), offset=0x1000,
            )
        )  # fmt: skip
    ranges = (ReadRange(0x1000, 4096, "sha256:" + "0" * 64),)
    return CodeObjects(FileRef(file, 1 << 20, ranges=ranges), "fat ELF", bundles, bundles, targets=tuple(entries))


GENERIC = ("gfx10-1-generic", "gfx10-3-generic", "gfx11-generic", "gfx9-4-generic", "gfx9-generic")


def hip(version: str = "6.4.43484", *, compressed: bool = True, generic: tuple[str, ...] = GENERIC) -> HipRuntime:
    """A HIP runtime as its own bytes tell it."""
    return HipRuntime(FileRef(HIP_RUNTIME, 27 << 20), version, compressed, generic)


def with_runtime(
    machine: Machine, *targets: str, runtime: str = "llama.cpp", version: str = "",
    links: dict[str, str] | None = None, state: LibraryState = LibraryState.COMPLETE, library_target: str = "",
    layout: str = "lazy", found: CodeObjects | None = None,
) -> Machine:  # fmt: skip
    """The machine with one runtime whose ROCm backend holds code for targets, and the rocBLAS folder that it
    links."""
    wanted = {"libamdhip64.so.6": HIP_RUNTIME, "librocblas.so.4": ROCBLAS} if links is None else links
    folder = "/usr/local/lib/ollama" if runtime == "ollama" else "/opt/llama.cpp"
    install = RuntimeInstall(
        runtime,
        folder,
        version,
        "dpkg",
        "",
        "",
        (BackendLibrary("rocm", HIP, wanted), BackendLibrary("vulkan", VULKAN, {})),
        Cite(folder),
    )
    named = library_target or targets[0].partition(":")[0]
    files = TargetFiles(named, state, own=38, fallback=50, files=156)
    if state in (
        LibraryState.FILES_MISSING,
        LibraryState.MIXED,
        LibraryState.INDEX_DAMAGED,
        LibraryState.INDEX_MISSING,
    ):
        files = dataclasses.replace(files, missing=(f"TensileLibrary_Type_HH_{named}.co",))
    library = KernelLibrary(FOLDER, "rocBLAS", layout, (files,) if state is not LibraryState.ABSENT else ())
    return dataclasses.replace(
        machine,
        runtimes=(install,),
        code={HIP: found or code(*targets)},
        libraries=(library,),
        hip={HIP_RUNTIME: hip()},
    )


def with_kernels(machine: Machine, *targets: str) -> Machine:
    """The machine whose rocBLAS folder serves these targets too."""
    more = tuple(TargetFiles(target, LibraryState.COMPLETE, own=38, fallback=50, files=156) for target in targets)
    folders = tuple(
        dataclasses.replace(f, targets=(*(t for t in f.targets if t.target not in targets), *more))
        for f in machine.libraries
    )
    return dataclasses.replace(machine, libraries=folders)


def with_environment(machine: Machine, *, serving: bool = True, **variables: str) -> Machine:
    """The machine with a server's environment."""
    owner = "unit ollama.service" if serving else "this shell"
    entry = Environment(owner, serving, variables, Cite("/etc/systemd/system/ollama.service"))
    return dataclasses.replace(machine, environments=(entry,))
