"""Which part a crash address or a log line points at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stillruns.judge.trials.modules import parts_of
from stillruns.judge.trials.view import file_name
from stillruns.model.absence import Absence
from stillruns.model.backend import Backend
from stillruns.model.component import Component
from stillruns.model.process import CoreNotes, CoreResult
from stillruns.model.server_facts import Trouble

_JIT_DRIVERS = ("libvulkan_lvp", "libvk_swiftshader", "libLLVM")
"""Drivers that run shaders as machine code that lies in no file."""


_AMD = (Component.HSA, Component.HIP, Component.ROCBLAS, Component.HIPBLASLT, Component.MIOPEN)
_FOREIGN: Mapping[Backend, tuple[Component, ...]] = {
    Backend.ROCM: (Component.CUDA,),
    Backend.CUDA: _AMD,
    Backend.VULKAN: (Component.CUDA, *_AMD),
}


def own(found: Iterable[Component], on: Backend) -> tuple[Component, ...]:
    """Each once, without what a backend does not use: one line is printed for CUDA and ROCm, and a pattern names the
    parts of both. UNKNOWN alone when nothing is left."""
    foreign = _FOREIGN.get(on, ())
    return tuple(dict.fromkeys(c for c in found if c not in foreign)) or (Component.UNKNOWN,)


def suspects(
    signal: str | None, core: CoreResult, troubles: tuple[Trouble, ...], on: Backend = Backend.UNKNOWN
) -> tuple[Component, ...]:
    """The candidates, most likely first, each once; UNKNOWN alone when nothing points anywhere.

    An illegal instruction is the host CPU's business first. Then the module of the crash, then what the log's lines
    are known to mean (`troubles`, most telling first) on that backend; an address is believed on any.
    """
    found: list[Component] = [Component.HOST_CPU] if signal == "SIGILL" else []
    if signal is not None and isinstance(core, CoreNotes):
        found += of_module(core)
    for trouble in troubles:
        found += own(trouble.components, on)
    unique = [c for c in dict.fromkeys(found) if c is not Component.UNKNOWN]
    return tuple(unique) or (Component.UNKNOWN,)


def of_module(core: CoreNotes) -> tuple[Component, ...]:
    """The candidates that the crash address alone suggests; empty when it says nothing."""
    if core.module is None:
        names = [file_name(m) for m in core.modules]
        jit = core.instruction_pointer and any(n.startswith(_JIT_DRIVERS) for n in names)
        return (Component.VULKAN_DRIVER,) if jit else ()
    return parts_of(file_name(core.module))


def place(core: CoreResult) -> str:
    """`libggml-vulkan.so+0x1f40`, or empty when the core does not tell or points into no file."""
    if isinstance(core, Absence) or core.module is None:
        return ""
    name = file_name(core.module)
    return name if core.offset is None else f"{name}+{core.offset:#x}"
