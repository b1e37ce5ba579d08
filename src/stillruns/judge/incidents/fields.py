"""Backend, target and component of an incident, each from the lines that tell it; unknown where none does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from stillruns.judge.incidents.group import Group, LineIndex
from stillruns.judge.trials.components import own
from stillruns.judge.trials.modules import parts_of
from stillruns.model.backend import Backend, Runtime, backend_of_device
from stillruns.model.card_name import CardName
from stillruns.model.component import Component
from stillruns.model.expression import Expression
from stillruns.model.kernel_log import KernelEvent, KernelEventKind
from stillruns.model.outcome import OutcomeKind
from stillruns.model.pattern import CrashPattern
from stillruns.model.server_log import Frame, LogDevice, Runner, ServerLog

_FRAME_BACKENDS = (
    ("ggml_vk_", Backend.VULKAN),
    ("ggml_backend_vk_", Backend.VULKAN),
    ("vk::", Backend.VULKAN),
    ("ggml_sycl", Backend.SYCL),
    ("ggml_backend_sycl", Backend.SYCL),
    ("ggml_metal", Backend.METAL),
    ("hip", Backend.ROCM),
    ("rocblas", Backend.ROCM),
)
_MODULE_BACKENDS = (
    ("libggml-vulkan", Backend.VULKAN),
    ("libvulkan", Backend.VULKAN),
    ("libggml-hip", Backend.ROCM),
    ("libamdhip64", Backend.ROCM),
    ("libhsa-runtime64", Backend.ROCM),
    ("librocblas", Backend.ROCM),
    ("libggml-cuda", Backend.CUDA),
    ("libcuda", Backend.CUDA),
    ("libcublas", Backend.CUDA),
    ("libggml-sycl", Backend.SYCL),
    ("libsycl", Backend.SYCL),
    ("libggml-metal", Backend.METAL),
)
_TEXTS: tuple[tuple[Expression, Backend], ...] = (
    (
        Expression(r"ggml_vulkan|ggml-vulkan|\bvk::|ErrorDeviceLost|ErrorOutOf(?:Device|Host)Memory|radv/|VK_ERROR"),
        Backend.VULKAN,
    ),
    (
        Expression(
            r"ROCm error|ROCm\d|rocBLAS|hip[A-Z]\w+|HSA_STATUS|by GPU node-|by agent node-|HIP error|HIP out of|"
            r"\bhsa_|code objects? found for: gfx|unsupported target: 'gfx|amd_comgr|rocdevice\.cpp|ggml-hip|"
            r"\bhip_[a-z_]{1,30}\.cpp:\d|/dev/kfd|rocminfo\.cc|HIP kernel \S{1,80} has no device code|"
            r"\bCannot read \S{0,300}TensileLibrary|TensileLibrary_\w{0,80}gfx|rocblaslt error|\bhipblas\w{1,60}\("
        ),
        Backend.ROCM,
    ),
    (Expression(r"SYCL error|ggml-sycl|ggml_sycl|level_zero backend|UR_RESULT"), Backend.SYCL),
    (Expression(r"ggml_metal|ggml-metal|kIOGPUCommandBuffer"), Backend.METAL),
    # HIP builds print their own names here (hipGetLastError): the macro is expanded before it is printed
    (
        Expression(r"^\s{0,8}(?:>\s{1,4})?(?:cuda[A-Z]\w{1,60}|cublas[A-Z]\w{1,60}|cuMem[A-Z]\w{1,60})\("),
        Backend.CUDA,
    ),
    (Expression(r"CUDA kernel \S{1,80} has no device code"), Backend.CUDA),
    # PyTorch for ROCm says HIP in both
    (Expression(r"^CUDA kernel errors might be asynchronously|\bTORCH_USE_CUDA_DSA\b"), Backend.CUDA),
    (Expression(r"CUDA error: (?:.*)sm_\d|cuda_fp16|cuBLAS|CUBLAS_STATUS|NVRM|libcuda\.so"), Backend.CUDA),
)
_CPU_SOURCE = Expression(r"/ggml-cpu/\S{1,80}\.(?:c|cpp|h):\d{1,6}: ")
"""ggml stops in a file of its CPU backend: the operation that failed ran there."""
_CUDA_BUFFER = Expression(r"\b(?:allocate|allocating) CUDA(?:\d{1,3}|_Host) buffer")
"""Of buffers HIP builds say ROCm0; only of errors did they say CUDA until late 2024."""
_NEW_TREE = Expression(r"ggml-cuda[/\\]ggml-cuda\.cu")


def backend(
    server: ServerLog, runner: Runner | None, group: Group, frames: tuple[Frame, ...], index: LineIndex
) -> Backend:
    """From the lines of the death, then its frames, then where the runner's weights are, then the only GPU listed.

    `CUDA error` alone decides nothing: ROCm builds said so until 2025, and PyTorch's NCCL still does.
    """
    texts = [t.text for t in group.troubles] + [e.text for e in group.endings]
    texts += index.texts(group.first, group.last + 5)
    for text in texts:
        for form, found in _TEXTS:
            if form.search(text):
                return found
    for trouble in group.troubles:
        if trouble.device and backend_of_device(trouble.device) not in (Backend.UNKNOWN, Backend.CPU, Backend.CUDA):
            return backend_of_device(trouble.device)
        if _CUDA_BUFFER.search(trouble.text):
            return Backend.CUDA
    if any(_CPU_SOURCE.search(t.text) for t in group.troubles):
        return Backend.CPU
    by_frame = _by_frames(frames)
    if by_frame is not Backend.UNKNOWN:
        return by_frame
    if runner is not None and runner.backend is not Backend.UNKNOWN:
        return runner.backend if len(runner.backends) <= 1 else _of_several(runner, texts)
    listed = {d.backend for d in server.devices if d.backend not in (Backend.CPU, Backend.UNKNOWN)}
    loaded = {
        b.backend for b in server.backends_loaded if b.backend not in (Backend.CPU, Backend.RPC, Backend.UNKNOWN)
    }
    for known in (listed, loaded, _found(server)):
        if len(known) == 1:
            return known.pop()
    return Backend.CUDA if _new_cuda(server, texts) else Backend.UNKNOWN


def _found(server: ServerLog) -> set[Backend]:
    """`found 4 ROCm devices:` without the list that follows it."""
    found = re.compile(r": found [1-9]\d{0,3} (ROCm|CUDA|SYCL) devices|: Found [1-9]\d{0,3} (Vulkan) devices")
    named = [found.search(text) for _, text in server.texts]
    return {backend_of_device(m[1] or m[2]) for m in named if m}


def _of_several(runner: Runner, texts: list[str]) -> Backend:
    for known in runner.backends:
        if any(known.value in text.lower() for text in texts):
            return known
    return Backend.UNKNOWN


def _new_cuda(server: ServerLog, texts: list[str]) -> bool:
    """Builds with the tree of late 2024 say `ROCm error` when they are ROCm's, so `CUDA error` there is CUDA's."""
    shown = [*texts, *(text for _, text in server.texts)]
    error = any(text.startswith("CUDA error") for text in texts)
    return error and any(_NEW_TREE.search(text) for text in shown)


def _by_frames(frames: tuple[Frame, ...]) -> Backend:
    for frame in frames[:8]:
        for start, found in _MODULE_BACKENDS:
            if frame.module.startswith(start):
                return found
        for start, found in _FRAME_BACKENDS:
            if frame.function.startswith(start):
                return found
    return Backend.UNKNOWN


def device(server: ServerLog, runner: Runner | None, on: Backend, named: str | None) -> LogDevice | None:
    """The device that was used: the one named, the runner's, or the only one of the backend."""
    split = runner is not None and len(runner.backends) > 1
    for name in (named, runner.device if runner and not split else None):
        for candidate in server.devices:
            if name and candidate.name == name:
                return candidate
    if runner is not None and len(runner.backends) > 1:
        return None
    mine = [d for d in server.devices if d.backend is on]
    if on in (Backend.UNKNOWN, Backend.CPU):
        mine = [d for d in server.devices if d.backend is not Backend.CPU]
    targets = {(d.target, d.description) for d in mine}
    return mine[0] if len(targets) == 1 else None


def target(found: LogDevice | None, server: ServerLog, cards: tuple[CardName, ...]) -> tuple[str | None, str]:
    """(target without its feature suffixes, a sentence where printed and real target differ).

    An override changes what is printed: where the card's name says another target, the name counts.
    """
    if found is None:
        printed = {d.target for d in server.devices if d.target}
        return (_base(printed.pop()), "") if len(printed) == 1 else (None, "")
    by_name = card_target(found.description, cards)
    printed_base = _base(found.target) if found.target else None
    if by_name and printed_base and by_name != printed_base and by_name.startswith("gfx"):
        return by_name, f"the log prints {printed_base} for a card that is {by_name}: an override is set"
    return printed_base or by_name, ""


def with_targets(server: ServerLog, cards: tuple[CardName, ...]) -> ServerLog:
    """The server with the targets of those devices whose lines print none and whose card's name tells it."""
    devices = []
    for found in server.devices:
        known = card_target(found.description, cards) if found.target is None and found.description else None
        devices.append(replace(found, target=known, by_name=True) if known else found)
    return replace(server, devices=tuple(devices))


def card_target(name: str, cards: tuple[CardName, ...]) -> str | None:
    """The target of the longest catalogue name that the printed name contains; None when two targets claim it."""
    lowered = name.lower()
    best: list[CardName] = []
    for card in cards:
        place = lowered.find(card.name.lower())
        if place >= 0 and not lowered[place + len(card.name) : place + len(card.name) + 1].isalnum():
            if best and len(card.name) < len(best[0].name):
                continue
            best = [c for c in best if len(c.name) == len(card.name)] + [card]
    targets = {card.target for card in best}
    return targets.pop() if len(targets) == 1 else None


def _base(printed: str) -> str:
    return printed.split(":", 1)[0]


_BY_BACKEND: Mapping[Backend, tuple[Component, ...]] = {
    Backend.VULKAN: (Component.GGML_BACKEND, Component.VULKAN_DRIVER),
    Backend.ROCM: (Component.GGML_BACKEND, Component.HIP, Component.KERNEL_DRIVER),
    Backend.CUDA: (Component.GGML_BACKEND, Component.CUDA),
    Backend.SYCL: (Component.GGML_BACKEND,),
    Backend.METAL: (Component.GGML_BACKEND,),
    Backend.CPU: (Component.GGML_CORE, Component.HOST_CPU),
}


def components(
    top: CrashPattern | None,
    outcome: OutcomeKind | None,
    frames: tuple[Frame, ...],
    on: Backend,
    kernel: Iterable[KernelEvent],
    driver: str,
) -> tuple[Component, ...]:
    """Candidates, most likely first: the deciding pattern's, else the innermost frame's, else the backend's. A
    pattern names the parts of all backends that print its line; an address in a library is believed on any."""
    found: list[Component] = []
    for event in kernel:
        if event.kind in (KernelEventKind.RAS, KernelEventKind.XID):
            found.append(Component.HARDWARE)
        if event.module:
            found += parts_of(event.module)
    said = own(top.components, on) if top is not None else ()
    if top is not None and top.rank >= 60:
        found += said
    else:
        found += _frames(frames, on)
        if not found and outcome in (OutcomeKind.CRASH, OutcomeKind.ABORT):
            found += _BY_BACKEND.get(on, ())
        if not found:
            found += said
    exchangeable = "AMD open-source driver" in driver or "proprietary" in driver
    if exchangeable and (Component.VULKAN_DRIVER in found or outcome is OutcomeKind.OOM):
        # AMDVLK and the closed driver refuse allocations that RADV grants; they are the first to exchange
        found = [Component.VULKAN_DRIVER, *found]
    unique = tuple(c for c in dict.fromkeys(found) if c is not Component.UNKNOWN)
    return unique or (Component.UNKNOWN,)


_NO_CODE = ("gpu-no-kernel-image", "gpu-invalid-device-function", "hip-no-binary", "hip-no-code-object")


def context(
    parts: tuple[Component, ...],
    server: ServerLog,
    outcome: OutcomeKind | None,
    top: CrashPattern | None,
    signal: str | None = None,
) -> tuple[Component, ...]:
    """What the server adds to the candidates: Ollama ships the build and estimates the memory; an override for
    another chip than the one the log names is the first thing to doubt; an illegal instruction is the host CPU's
    whatever the backend."""
    found = list(parts)
    if signal in ("SIGILL", "0xc000001d"):
        found = [Component.HOST_CPU, Component.CONFIGURATION]
    if signal == "SIGKILL" and (top is None or top.rank < 60):
        found = [Component.CONFIGURATION]  # somebody killed it: the kernel for its memory, or a supervisor
    if signal in ("0xc0000135", "0xc0000142") and found == [Component.UNKNOWN]:
        found = [Component.CONFIGURATION]  # Windows did not find, or could not start, a DLL of the program
    if server.runtime is Runtime.OLLAMA:
        ships = top is not None and top.id in _NO_CODE
        if ships or outcome is OutcomeKind.OOM:
            found.append(Component.OLLAMA)
    if server.runtime is Runtime.VLLM and found == [Component.UNKNOWN] and outcome is OutcomeKind.ERROR:
        found = [Component.VLLM, Component.CONFIGURATION]  # it gave up by itself: what it was asked, or how
    if any(n.kind == "override" for n in server.notes) and top is not None and top.outcome is OutcomeKind.ABORT:
        found = [Component.CONFIGURATION, *found]
    return tuple(dict.fromkeys(found))


_OLLAMA_PROBES = ("cuda_init", "nvml_init", "nvcuda_init", "cudart_init", "nvcuda_bootstrap", "cudart_bootstrap")
"""Ollama's own C functions that asked NVIDIA's libraries for GPUs (to 0.12)."""


def _frames(frames: tuple[Frame, ...], on: Backend) -> list[Component]:
    for frame in frames:
        known = parts_of(frame.module) if frame.module else ()
        if known:
            return list(known)
        name = frame.function
        if name.startswith(
            ("ggml_vk_", "ggml_backend_vk", "ggml_cuda", "ggml_sycl", "ggml_metal", "ggml_backend_cuda")
        ):
            return [Component.GGML_BACKEND, *(c for c in _BY_BACKEND.get(on, ()) if c is not Component.GGML_BACKEND)]
        if name.startswith("ggml_backend_sched"):
            return list(_BY_BACKEND.get(on, (Component.GGML_BACKEND, Component.GGML_CORE)))
        if name.startswith("ggml_"):
            return [Component.GGML_CORE]
        if name in _OLLAMA_PROBES:
            return [Component.OLLAMA, Component.CUDA, Component.KERNEL_DRIVER]
        if name.startswith(("ollamarunner.", "llamarunner.")):
            return [Component.OLLAMA]  # no C frame stands below it: its own code gave up
        if name.startswith(("llama_", "common_", "server_", "schema_to_grammar", "json_schema_to_grammar")):
            return [Component.LLAMA_CPP]
    return []
