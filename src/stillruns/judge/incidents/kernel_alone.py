"""What only the kernel saw: an incident without a server."""

from __future__ import annotations

from collections.abc import Iterable

from stillruns.judge.incidents import fields
from stillruns.judge.incidents.signature import signature
from stillruns.model.autopsy import Confidence, Excerpt, Incident
from stillruns.model.backend import Backend
from stillruns.model.component import Component
from stillruns.model.kernel_log import KernelEvent, KernelEventKind
from stillruns.model.outcome import OutcomeKind
from stillruns.model.phase import Phase
from stillruns.model.server_log import Note


def kernel_backend(on: Backend, kernel: tuple[KernelEvent, ...]) -> Backend:
    """A segfault's module names the backend where nothing else does."""
    if on is not Backend.UNKNOWN:
        return on
    for event in kernel:
        for start, found in (
            ("libggml-vulkan", Backend.VULKAN),
            ("libggml-hip", Backend.ROCM),
            ("libggml-cuda", Backend.CUDA),
            ("libggml-sycl", Backend.SYCL),
        ):
            if event.module.startswith(start):
                return found
    return on


def kernel_only(run: list[KernelEvent]) -> Incident:
    """What only the kernel saw."""
    kinds = {event.kind for event in run}
    key = run[0]
    parts: tuple[Component, ...]
    segfault = next((e for e in run if e.kind is KernelEventKind.SEGFAULT), None)
    if KernelEventKind.OOM_KILL in kinds:
        outcome, parts, signal = OutcomeKind.OOM, (Component.CONFIGURATION,), "SIGKILL"
        said = "The kernel killed the process for want of memory: the machine's, or what its container may use."
        key = next(e for e in run if e.kind is KernelEventKind.OOM_KILL)
    elif segfault is not None:
        outcome, signal, key = OutcomeKind.CRASH, "SIGSEGV", segfault
        parts = fields.components(None, outcome, (), Backend.UNKNOWN, run, "")
        where = f" in {segfault.module}" if segfault.module else ""
        said = f"The kernel says that {segfault.process} died of a segmentation fault{where}."
    elif KernelEventKind.TRAP in kinds:
        outcome, parts, signal = OutcomeKind.CRASH, (Component.HOST_CPU,), None
        said = "The kernel says that the process died of a CPU trap."
    else:
        outcome, signal = OutcomeKind.DEVICE_LOST, None
        parts = (Component.KERNEL_DRIVER, Component.GGML_BACKEND, Component.HARDWARE)
        if KernelEventKind.RAS in kinds or KernelEventKind.XID in kinds:
            parts = (Component.HARDWARE, Component.KERNEL_DRIVER)
        said = "The kernel reports a fault or a reset of the GPU; no server's lines beside it say who was hit."
        hit = next((e.process for e in run if e.process and e.kind is KernelEventKind.GPU_HANG), "")
        if hit:
            said = f"The kernel says that the GPU hung under {hit}, and that it reset it."
    on = kernel_backend(Backend.UNKNOWN, tuple(run))
    process = next((e.process for e in run if e.process), "")
    return Incident(
        server=None,
        request=None,
        time=key.at or None,
        outcome=outcome,
        signal=signal,
        detail=", ".join(sorted(k.value for k in kinds)) + (f", process {process}" if process else ""),
        phase=Phase.UNKNOWN,
        backend=on,
        components=parts,
        target=None,
        device=next((e.device for e in run if e.device), None),
        requested_layers=None,
        applied_layers=None,
        total_layers=None,
        signature=signature(signal, (), key.text),
        frames=(),
        key_line=Excerpt(key.ref, key.text),
        evidence=tuple(Excerpt(e.ref, e.text) for e in run[:12]),
        confidence=Confidence.LOW,
        explanation=said,
        next_step="Give the server's own log of the same time besides.",
        why_unknown=(("phase", "the kernel's log does not tell a server's phase"),),
    )


_REMARKS = {
    KernelEventKind.FIRMWARE: "the kernel could not load a firmware file ({what}): some are optional, but without "
    "one that the card needs the driver does not start it; see stillruns check",
    KernelEventKind.ATOMICS: "the kernel finds no PCIe atomics on the way to a device ({what}): ROCm may not use it "
    "there, Vulkan does not need them; see stillruns check",
}
"""Lines of the kernel that are no death, and that may be why a GPU is missing."""


def remarks(events: Iterable[KernelEvent]) -> list[Note]:
    """One note for each file that was not loaded and for each thing that the PCIe path lacks."""
    found: dict[tuple[KernelEventKind, str], list[KernelEvent]] = {}
    for event in events:
        if event.kind in _REMARKS:
            found.setdefault((event.kind, event.what or event.text[:120]), []).append(event)
    return [
        Note("kernel", _REMARKS[kind].format(what=what), tuple(e.ref for e in seen[:5]))
        for (kind, what), seen in list(found.items())[:20]
    ]
