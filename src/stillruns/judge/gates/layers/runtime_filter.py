"""Runtime's own filter: what the runtime in place drops before it tries."""

from __future__ import annotations

import dataclasses

from stillruns.judge.gates import nvidia_filters
from stillruns.judge.gates.path_view import PathView, matches
from stillruns.model.absence import AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.gate_tables import RuntimeGate
from stillruns.model.kernel_library import KernelLibrary, LibraryState
from stillruns.model.machine import RuntimeInstall
from stillruns.model.raw import Cite
from stillruns.model.target import TargetId, from_override
from stillruns.model.version import between, older, parse

LAYER = Layer.RUNTIME_FILTER
_LEAST_MEMORY = 1 << 30
"""IGPUMemLimit (ollama/ollama discover/gpu.go:76@v0.9.6)."""
DECIDES = (
    "the filters of the installed release (Ollama's change with its version), and the files, switches and driver "
    "versions they look at"
)


def judge(view: PathView) -> Gate | None:
    """The strictest filter that the installed runtime applies to this path."""
    if view.target is None:
        return None
    ollama = next((runtime for runtime in view.machine.runtimes if runtime.runtime == "ollama"), None)
    if ollama is None:
        if not view.backend_libraries:
            return None
        text = (
            "llama.cpp drops no target; its Vulkan backend leaves integrated GPUs out beside others, and rasterisers"
        )
        return view.gate(LAYER, GateStatus.ALLOW, text if view.backend is Backend.VULKAN else text.split(";")[0])
    applying = [gate for gate in view.tables.gates if _applies(gate, ollama)]
    if not applying and ollama.version and parse(ollama.version) is None:
        text = f"Ollama calls itself {ollama.version}, which is no release: which filter it has is not known"
        return view.unknown(LAYER, text, AbsenceReason.UNPARSABLE, ollama.cite)
    if not applying and not (ollama.version or ollama.low):
        return view.unknown(
            LAYER, f"Ollama in {ollama.folder} does not tell its version: which filter it has is not known",
            AbsenceReason.NOT_COLLECTED, ollama.cite,
        )  # fmt: skip
    verdicts = [
        gate if _covers(rule, ollama) else _perhaps(view, gate, ollama)
        for rule in applying
        if (gate := _rule(view, rule, ollama)) is not None
    ]
    for status in (GateStatus.BLOCK, GateStatus.UNKNOWN, GateStatus.PARTIAL):
        found = [gate for gate in verdicts if gate.status is status]
        if found:
            return next((gate for gate in found if gate.doubt), found[0])
    text = verdicts[0].reason if verdicts else "no filter of this release applies to this path"
    return view.gate(LAYER, GateStatus.ALLOW, f"Ollama {_named(ollama)}: {text}", ollama.cite)


def _named(ollama: RuntimeInstall) -> str:
    if ollama.version:
        return ollama.version
    return f"{ollama.low} to {ollama.high}" if ollama.high else f"{ollama.low} or newer"


def _applies(rule: RuntimeGate, ollama: RuntimeInstall) -> bool:
    if rule.runtime != "ollama":
        return False
    if ollama.version:
        return between(ollama.version, rule.since, rule.until) is True
    if not ollama.low:
        return False
    starts_later = bool(ollama.high) and older(ollama.high, rule.since) is True
    ended = bool(rule.until) and older(rule.until, ollama.low) is True
    return not starts_later and not ended


def _covers(rule: RuntimeGate, ollama: RuntimeInstall) -> bool:
    """Whether every release that this one may be has the filter."""
    if ollama.version:
        return True
    starts = older(ollama.low, rule.since) is False
    ends = not rule.until or (bool(ollama.high) and older(rule.until, ollama.high) is False)
    return starts and ends


def _perhaps(view: PathView, gate: Gate, ollama: RuntimeInstall) -> Gate:
    """A filter that only some of the possible releases have decides nothing."""
    if gate.status is GateStatus.ALLOW:
        return gate
    text = f"Ollama {_named(ollama)}, which does not tell its version: in some of these releases {gate.reason}"
    found = view.perhaps(gate, text, AbsenceReason.NOT_COLLECTED)
    if view.backend is Backend.CUDA:  # what helps against these filters does no harm where they are not
        return dataclasses.replace(found, advice=gate.advice, weight=gate.weight)
    return found


def _rule(view: PathView, rule: RuntimeGate, ollama: RuntimeInstall) -> Gate | None:
    cite = Cite(rule.source, at=f"read {rule.read_on}", excerpt=rule.text)
    if rule.kind == "vulkan-off":
        return _vulkan(view, rule, cite) if view.backend is Backend.VULKAN else None
    if rule.kind == "integrated":
        return _integrated(view, rule, cite)
    if rule.kind in ("driver-floor", "newest-cuda"):
        return nvidia_filters.judge(view, rule, cite, ollama) if view.backend is Backend.CUDA else None
    if view.backend is not Backend.ROCM:
        return None
    if rule.kind == "probe":
        text = f"Ollama {_named(ollama)} initialises each device in a child and drops it silently when that dies"
        return view.unknown(LAYER, text, AbsenceReason.NOT_COLLECTED, cite)
    return _file(view, rule, ollama, cite)


def _file(view: PathView, rule: RuntimeGate, ollama: RuntimeInstall, cite: Cite) -> Gate:
    override = view.variable("HSA_OVERRIDE_GFX_VERSION", "ollama")
    if override and rule.kind == "list":
        return view.gate(LAYER, GateStatus.ALLOW, "HSA_OVERRIDE_GFX_VERSION is set, which skips the list", cite)
    wanted = (from_override(override[0]) if override else "") or view.processor
    folder = next(
        (f for f in view.machine.libraries if f.library == "rocBLAS" and f.folder.startswith(ollama.folder)), None
    )
    folder = folder or _linked(view)
    name = f"TensileLibrary_lazy_{wanted}.dat"
    if folder is None:
        return view.unknown(
            LAYER, f"it looks for {name}; no rocBLAS folder of it was found", AbsenceReason.NOT_INSTALLED, cite
        )
    state = folder.of(wanted).state
    holds = _holds(view, ollama, wanted)
    others = ("prefer-vulkan", "pin-release-with-target", "build-ollama-for-target")
    if folder.layout == "merged" or state in (LibraryState.ABSENT, LibraryState.INDEX_MISSING):
        return view.gate(
            LAYER, GateStatus.BLOCK,
            f"Ollama {_named(ollama)} drops {wanted}: {folder.folder}/{name} is not there", cite, weight=70,
            advice=f"give Ollama's rocBLAS folder the files of {wanted}, or use its Vulkan backend"
            if holds else f"use Ollama's Vulkan backend, or a build that holds {wanted}: rocBLAS's files alone would "
            "not bring the code that Ollama's own library lacks",
            workarounds=("rocblas-private-library-path", *others) if holds else others,
        )  # fmt: skip
    text = f"{name} exists, which is all that it looks at"
    if state in (LibraryState.INDEX_DAMAGED, LibraryState.FILES_MISSING):
        text += f" (although it is: {state.value})"
    return view.gate(LAYER, GateStatus.ALLOW, text, cite)


def _holds(view: PathView, ollama: RuntimeInstall, wanted: str) -> bool:
    """Whether a library of this Ollama may have code for the target: what was not read may."""
    info = view.tables.targets.get(wanted)
    codes = [view.code(library.path) for library in ollama.backends if library.backend == view.backend.value]
    return not codes or any(
        code is None or any(matches(entry, TargetId(wanted), info)[0] for entry in code.targets) for code in codes
    )


def _linked(view: PathView) -> KernelLibrary | None:
    for _, library in view.backend_libraries:
        folder = view.folder_of(library, "rocBLAS")
        if folder is not None:
            return folder
    return None


def _integrated(view: PathView, rule: RuntimeGate, cite: Cite) -> Gate | None:
    integrated = view.card.integrated if view.card else view.info.kind == "APU" if view.info else None
    if integrated is False or view.backend is Backend.CUDA:
        return None
    if rule.id == "ollama-integrated-1":
        return _little_memory(view, rule, cite)
    if integrated is None:
        text = f"whether the GPU is an integrated one is not known, and {rule.text}"
        return view.unknown(LAYER, text, AbsenceReason.NOT_COLLECTED, cite)
    allowed = view.variable("OLLAMA_IGPU_ENABLE", "ollama")
    if rule.id == "ollama-integrated-2" and allowed and allowed[0] not in ("", "0", "false"):
        return view.gate(LAYER, GateStatus.ALLOW, "OLLAMA_IGPU_ENABLE lets integrated GPUs in", cite)
    if rule.id == "ollama-integrated-2" and view.processor == "gfx1151" and view.backend is Backend.ROCM:
        return view.gate(LAYER, GateStatus.ALLOW, "gfx1151 is let in", cite)
    return view.gate(
        LAYER, GateStatus.BLOCK, f"an integrated GPU: {rule.text}", cite, weight=72,
        advice="set OLLAMA_IGPU_ENABLE=1 for the server", workarounds=("ollama-admit-igpu",),
    )  # fmt: skip


def _little_memory(view: PathView, rule: RuntimeGate, cite: Cite) -> Gate | None:
    """Up to 0.12.3 the memory that the driver tells decides, and no switch lets a GPU in."""
    state, node = (view.card.state, view.card.kfd) if view.card else (None, None)
    own = (state.vram if state is not None else None) or (node.memory if node is not None else 0)
    if not own:
        text = f"how much memory of its own the GPU has is not known, and {rule.text}"
        return view.unknown(LAYER, text, AbsenceReason.NOT_COLLECTED, cite)
    if own >= _LEAST_MEMORY:
        return None
    return view.gate(
        LAYER, GateStatus.BLOCK, f"the GPU has {own >> 20} MiB of its own: {rule.text}", cite, weight=72,
        advice="give the integrated GPU 1 GiB or more in the firmware's setup",
    )  # fmt: skip


def _vulkan(view: PathView, rule: RuntimeGate, cite: Cite) -> Gate:
    switch = view.variable("OLLAMA_VULKAN", "ollama")
    if switch and switch[0] not in ("", "0", "false"):
        return view.gate(
            LAYER, GateStatus.ALLOW, f"OLLAMA_VULKAN={switch[0]} in {switch[1].owner}", cite, switch[1].cite
        )
    return view.gate(
        LAYER, GateStatus.BLOCK, "Ollama's Vulkan backend stays off unless OLLAMA_VULKAN=1", cite, weight=74,
        advice="set OLLAMA_VULKAN=1 for the server (systemctl edit ollama)", workarounds=("prefer-vulkan",),
    )  # fmt: skip
