"""What only the kernel saw: an incident without a server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stillruns.judge.incidents import fields
from stillruns.judge.incidents.kernel_lines import DEATHS, OURS, SEVERE
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
            ("libcuda.so", Backend.CUDA),
            ("libamdhip64.so", Backend.ROCM),
            ("libhsa-runtime64.so", Backend.ROCM),
            ("librocblas.so", Backend.ROCM),
            ("libvulkan_", Backend.VULKAN),
        ):
            if event.module.startswith(start):
                return found
    return on


class _Told(NamedTuple):
    """What a run of the kernel's lines comes to."""

    outcome: OutcomeKind
    parts: tuple[Component, ...]
    signal: str | None
    said: str
    key: KernelEvent


def _told(run: list[KernelEvent]) -> _Told:
    """Deaths before faults: what ended tells more than what it ran on."""
    first = {event.kind: event for event in reversed(run)}
    if killed := first.get(KernelEventKind.OOM_KILL):
        said = "The kernel killed the process for want of memory: the machine's, or what its container may use."
        return _Told(OutcomeKind.OOM, (Component.CONFIGURATION,), "SIGKILL", said, killed)
    if fault := first.get(KernelEventKind.SEGFAULT):
        parts = fields.components(None, OutcomeKind.CRASH, (), Backend.UNKNOWN, run, "")
        where = f" in {fault.module}" if fault.module else ""
        said = f"The kernel says that {fault.process} died of a segmentation fault{where}."
        return _Told(OutcomeKind.CRASH, parts, "SIGSEGV", said, fault)
    if KernelEventKind.TRAP in first:
        said = "The kernel says that the process died of a CPU trap."
        return _Told(OutcomeKind.CRASH, (Component.HOST_CPU,), None, said, run[0])
    if oops := first.get(KernelEventKind.OOPS):
        said = f"The GPU's driver in the kernel itself failed, in {oops.what}: an oops. A new boot is due."
        return _Told(OutcomeKind.CRASH, (Component.KERNEL_DRIVER,), None, said, oops)
    parts = (Component.KERNEL_DRIVER, Component.GGML_BACKEND, Component.HARDWARE)
    if KernelEventKind.RAS in first or KernelEventKind.XID in first:
        parts = (Component.HARDWARE, Component.KERNEL_DRIVER)
    said = "The kernel reports a fault or a reset of the GPU; no server's lines beside it say who was hit."
    if KernelEventKind.QUEUE_HANG in first:
        said = "The GPU did not give up its compute queues when the kernel asked: what ran there hangs."
    hit = next((e.process for e in run if e.process and e.kind is KernelEventKind.GPU_HANG), "")
    if hit:
        said = f"The kernel says that the GPU hung under {hit}, and that it reset it."
    return _Told(OutcomeKind.DEVICE_LOST, parts, None, said, run[0])


def kernel_only(run: list[KernelEvent]) -> Incident:
    """What only the kernel saw. Where the GPU failed, the death of another program beside it is only an effect."""
    if any(event.kind in SEVERE for event in run):
        run = [event for event in run if event.kind not in DEATHS or OURS.search(event.process)]
    kinds = {event.kind for event in run}
    outcome, parts, signal, said, key = _told(run)
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
