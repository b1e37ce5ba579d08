"""Host CPU: what each of ggml's CPU libraries needs, against /proc/cpuinfo."""

from __future__ import annotations

from stillruns.judge.path_view import PathView
from stillruns.model.absence import AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.raw import Cite

LAYER = Layer.HOST_CPU
DECIDES = "the variants of libggml-cpu beside the runtime, each by the features that its build turns on"

_SSE = ("sse4_2",)
_AVX2 = (*_SSE, "avx", "f16c", "fma", "avx2", "bmi2")
_AVX512 = (*_AVX2, "avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw")
NEEDS: dict[str, tuple[str, ...]] = {
    "x64": (),
    "sse42": _SSE,
    "sandybridge": (*_SSE, "avx"),
    "ivybridge": (*_SSE, "avx", "f16c"),
    "piledriver": (*_SSE, "avx", "f16c", "fma"),
    "haswell": _AVX2,
    "alderlake": (*_AVX2, "avx_vnni"),
    "skylakex": _AVX512,
    "cannonlake": (*_AVX512, "avx512vbmi"),
    "cascadelake": (*_AVX512, "avx512_vnni"),
    "icelake": (*_AVX512, "avx512vbmi", "avx512_vnni"),
    "cooperlake": (*_AVX512, "avx512_vnni", "avx512_bf16"),
    "zen4": (*_AVX512, "avx512vbmi", "avx512_vnni", "avx512_bf16"),
    "sapphirerapids": (*_AVX512, "avx512vbmi", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8"),
}
"""Variant -> flags of /proc/cpuinfo (llama.cpp ggml/src/CMakeLists.txt, ggml_add_cpu_backend_variant, b11434)."""


def judge(view: PathView) -> Gate | None:
    """`allow` when some variant runs here (the program takes the best at run time), `block` when none does."""
    if view.backend is not Backend.CPU:
        return None
    flags = view.machine.cpu_flags
    cite = Cite("/proc/cpuinfo", excerpt=view.machine.cpu_name)
    if not flags:
        return view.unknown(LAYER, "/proc/cpuinfo was not readable", AbsenceReason.NOT_COLLECTED)
    runtimes = [runtime for runtime in view.machine.runtimes if runtime.cpu_variants]
    if not runtimes:
        return view.unknown(
            LAYER,
            f"{view.machine.cpu_name}: no CPU library of a runtime was found here",
            AbsenceReason.NOT_INSTALLED,
            cite,
        )
    texts = []
    worst = GateStatus.ALLOW
    for runtime in runtimes:
        named = [variant for variant in runtime.cpu_variants if variant in NEEDS]
        if not named:
            texts.append(f"{runtime.folder} has one CPU library, whose needs its name does not tell")
            worst = GateStatus.UNKNOWN if worst is GateStatus.ALLOW else worst
            continue
        good = [variant for variant in named if set(NEEDS[variant]) <= flags]
        if good:
            best = max(good, key=lambda variant: len(NEEDS[variant]))
            texts.append(f"{runtime.folder}: {len(good)} of {len(named)} variants run here, {best} is the best")
        else:
            worst = GateStatus.BLOCK
            least = min(named, key=lambda variant: len(NEEDS[variant]))
            lacking = sorted(set(NEEDS[least]) - flags)
            texts.append(f"{runtime.folder}: no variant runs here, the least needs {', '.join(lacking)}")
    return view.gate(
        LAYER, worst, "; ".join(texts), cite, *(runtime.cite for runtime in runtimes), weight=50,
        absent=AbsenceReason.HIDDEN if worst is GateStatus.UNKNOWN else None,
        advice="take a build for a generic x86-64 CPU" if worst is GateStatus.BLOCK else "",
    )  # fmt: skip
