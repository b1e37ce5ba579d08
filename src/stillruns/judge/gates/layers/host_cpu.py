"""Host CPU: what each of ggml's CPU libraries needs, against /proc/cpuinfo."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from stillruns.judge.gates.path_view import PathView
from stillruns.model.absence import AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.machine import RuntimeInstall
from stillruns.model.raw import Cite

LAYER = Layer.HOST_CPU
DECIDES = (
    "the variants of libggml-cpu beside the runtime, each by the features that its build turns on; of a GPU's path "
    "only what speaks against it"
)

_DOT = ("asimddp",)
_HALF = (*_DOT, "fphp", "asimdhp")
_SVE = (*_HALF, "sve")
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
    "armv8.0_1": (),
    "armv8.2_1": _DOT,
    "armv8.2_2": _HALF,
    "armv8.2_3": _SVE,
    "armv8.6_1": (*_SVE, "i8mm"),
    "armv8.6_2": (*_SVE, "i8mm", "sve2"),
    "armv9.2_1": (*_SVE, "i8mm", "sme"),
    "armv9.2_2": (*_SVE, "i8mm", "sve2", "sme"),
}
"""Variant -> flags of /proc/cpuinfo: the lines of ggml_add_cpu_backend_variant in llama.cpp's ggml/src/CMakeLists.txt
(494 to 531@b11434), the compiler's flags that each feature turns on (ggml/src/ggml-cpu/CMakeLists.txt), and what the
loader asks for (arch/x86/cpu-feats.cpp:269, arch/arm/cpu-feats.cpp with ggml-feats.h:102)."""


_PACKAGED = ("/usr/lib", "/usr/bin", "/opt/ollama")
"""Where builds of somebody else lie; what lies elsewhere may have been built for this very CPU. A build that is not
(GGML_NATIVE off) turns AVX, AVX2, BMI2, FMA and F16C on (llama.cpp, ggml/CMakeLists.txt:141 to 166@b11434)."""


def _called(variant: str) -> str:
    return f"libggml-cpu-{variant}.so" if variant else "libggml-cpu.so"


def judge(view: PathView) -> Gate | None:
    """`allow` when some variant runs here (the program takes the best at run time), `block` when none does. Of a
    GPU's path only what speaks against it: each runtime computes a part on the CPU."""
    if view.backend is not Backend.CPU:
        return _beside_a_gpu(view)
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
    worst, texts = _variants(view, runtimes)
    return view.gate(
        LAYER, worst, "; ".join(texts), cite, *(runtime.cite for runtime in runtimes), weight=50,
        absent=AbsenceReason.HIDDEN if worst is GateStatus.UNKNOWN else None,
        advice="take a build for a generic x86-64 CPU" if worst is GateStatus.BLOCK else "",
    )  # fmt: skip


def _beside_a_gpu(view: PathView) -> Gate | None:
    """A runtime of this path whose CPU libraries do not run here, or may well not: the others are looked at where
    there are any."""
    flags = view.machine.cpu_flags
    runtimes = {runtime.folder: runtime for runtime, _ in view.backend_libraries}
    if not flags or not runtimes or any(not runtime.cpu_variants for runtime in runtimes.values()):
        return None
    found = [_variants(view, [runtime]) for runtime in runtimes.values()]
    cite = Cite("/proc/cpuinfo", excerpt=view.machine.cpu_name)
    if all(status is GateStatus.BLOCK for status, _ in found):
        return view.gate(LAYER, GateStatus.BLOCK, found[0][1][0], cite, weight=79,
                         advice="take a build for a generic x86-64 CPU")  # fmt: skip
    lacking = sorted(set(_AVX2) - flags)
    foreign = all(
        runtime.cpu_variants == ("",) and (view.machine.container or runtime.folder.startswith(_PACKAGED))
        for runtime in runtimes.values()
    )
    if not lacking or not foreign or "sse2" not in flags:  # of another maker's instructions this says nothing
        return None
    text = (
        f"{next(iter(runtimes))} has one CPU library, built elsewhere: such builds use AVX2 and FMA unless they are "
        f"told not to, and this CPU lacks {', '.join(lacking)}"
    )
    return dataclasses.replace(
        view.unknown(LAYER, text, AbsenceReason.HIDDEN, cite), doubt=True, weight=62,
        advice="take a build for a generic x86-64 CPU, or build it on this host",
    )  # fmt: skip


def _variants(view: PathView, runtimes: Sequence[RuntimeInstall]) -> tuple[GateStatus, list[str]]:
    """The worst verdict over runtimes that have CPU libraries, and a sentence on each."""
    flags = view.machine.cpu_flags
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
        elif len(named) < len(runtime.cpu_variants):
            other = sorted(set(runtime.cpu_variants) - set(named))
            texts.append(
                f"{runtime.folder}: what {', '.join(map(_called, other))} needs is in no source that was read"
            )
            worst = GateStatus.UNKNOWN if worst is GateStatus.ALLOW else worst
        else:
            worst = GateStatus.BLOCK
            least = min(named, key=lambda variant: len(NEEDS[variant]))
            lacking = sorted(set(NEEDS[least]) - flags)
            texts.append(f"{runtime.folder}: no variant runs here, the least needs {', '.join(lacking)}")
    return worst, texts
