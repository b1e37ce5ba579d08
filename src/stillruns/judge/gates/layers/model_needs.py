"""What the model needs: whether a missing kernel library matters for this target, runtime and model."""

from __future__ import annotations

from stillruns.judge.gates import override
from stillruns.judge.gates.layers import kernel_libraries
from stillruns.judge.gates.path_view import PathView
from stillruns.model.absence import AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.kernel_library import LibraryState
from stillruns.model.raw import Cite

LAYER = Layer.MODEL_NEEDS
DECIDES = (
    "which matrix products of ggml go through rocBLAS on this target, by the model's tensor types (--model FILE)"
)

_SOURCE = Cite("ggml-org/llama.cpp ggml/src/ggml-cuda/mmq.cu@b11434", at="ggml_cuda_should_use_mmq")
_ONLY_EXPERTS = ("gfx900", "gfx909", "gfx90c")
"""Targets where ggml's own integer kernels serve mixtures of experts only (GCN5 without a dot product)."""

_THERE = (LibraryState.COMPLETE, LibraryState.FALLBACK_ONLY, LibraryState.MIXED)


def judge(view: PathView) -> Gate | None:
    """`allow` when everything that is needed is there or not needed, `partial` when only some models would run."""
    if view.target is None or view.backend is not Backend.ROCM:
        return None
    return override.judged(view, _judge)


def _judge(view: PathView) -> Gate:
    folder, _ = kernel_libraries.chosen(view)
    state = folder.of(view.processor).state if folder is not None else None
    tail = "; hipBLASLt does not matter to ggml" + _lt(view)
    kind = view.machine.model
    if view.processor in _ONLY_EXPERTS:
        needs = "on this target quantised dense models need rocBLAS, mixtures of experts use ggml's own kernels"
        if kind == "moe quantised":
            needs = "this mixture of experts uses ggml's own kernels for its experts, rocBLAS for the rest"
        elif kind:
            needs = f"this model ({kind}) needs rocBLAS on this target"
    else:
        needs = "quantised weights use ggml's own kernels, F16 and F32 products and attention without -fa use rocBLAS"
    if state is None:
        text = f"{needs}; whether its kernels are there is not known{tail}"
        return view.unknown(LAYER, text, AbsenceReason.NOT_INSTALLED, _SOURCE)
    if state in _THERE:
        return view.gate(LAYER, GateStatus.ALLOW, f"{needs}; rocBLAS's kernels are there{tail}", _SOURCE)
    status = GateStatus.BLOCK if view.processor in _ONLY_EXPERTS and kind != "moe quantised" else GateStatus.PARTIAL
    return view.gate(
        LAYER, status, f"{needs}; rocBLAS's kernels are {state.value}{tail}", _SOURCE,
        weight=30 if status is GateStatus.BLOCK else 0,
        advice="use Vulkan, or force ggml's own kernels in a build of your own",
        workarounds=("force-mmq", "prefer-vulkan"),
    )  # fmt: skip


def _lt(view: PathView) -> str:
    """Said only where a hipBLASLt is here and has nothing for the target: people take that for the fault."""
    folders = [folder for folder in view.machine.libraries if folder.library == "hipBLASLt"]
    if folders and all(folder.of(view.processor).state is LibraryState.ABSENT for folder in folders):
        return f" (it has nothing for {view.processor}, as expected)"
    return ""
