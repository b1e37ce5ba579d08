"""Whether a binary was built for CPU instructions that this host has not: SIGILL foretold, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from stillruns.model.wording import enumerated

NEEDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "SSE3": ("SSE3", ("pni",)),
    "SSSE3": ("SSSE3", ("ssse3",)),
    "AVX": ("AVX", ("avx",)),
    "F16C": ("F16C", ("f16c",)),
    "FMA": ("FMA", ("fma",)),
    "AVX2": ("AVX2", ("avx2",)),
    "BMI2": ("BMI2", ("bmi2",)),
    "AVX_VNNI": ("AVX-VNNI", ("avx_vnni",)),
    "AVX512": ("AVX-512", ("avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl")),
    "AVX512_VBMI": ("AVX-512 VBMI", ("avx512vbmi",)),
    "AVX512_VNNI": ("AVX-512 VNNI", ("avx512_vnni",)),
    "AVX512_BF16": ("AVX-512 BF16", ("avx512_bf16",)),
    "AMX_INT8": ("AMX", ("amx_int8", "amx_tile")),
    "NEON": ("NEON", ("asimd", "neon")),
    "ARM_FMA": ("ARM FMA", ("asimd", "vfpv4")),
    "FP16_VA": ("ARM FP16", ("asimdhp",)),
    "DOTPROD": ("ARM dot product", ("asimddp",)),
    "MATMUL_INT8": ("ARM I8MM", ("i8mm",)),
    "SVE": ("SVE", ("sve",)),
    "SME": ("SME", ("sme",)),
}
"""llama.cpp's name in `system_info` (ggml/src/ggml-cpu/ggml-cpu.cpp, the features of the CPU backend) -> what people
call it, and the flags in /proc/cpuinfo that it needs. On x86 all of them are needed; on ARM one is enough, where two
are given, since 32- and 64-bit kernels name the same thing differently."""

_EITHER = frozenset({"NEON", "ARM_FMA"})

_FAMILY = {"AVX512_VBMI": "AVX512", "AVX512_VNNI": "AVX512", "AVX512_BF16": "AVX512"}
"""When the whole family is missing, its members go without saying."""

_OFF = frozenset({"0", "", "false", "no"})


def missing(system_info: Mapping[str, str], cpuinfo_flags: AbstractSet[str]) -> tuple[str, ...]:
    """The features, by the names people use, that the build uses and this CPU has not."""
    lacking = []
    for key, (_, flags) in NEEDS.items():
        if system_info.get(key, "0") in _OFF:
            continue
        has = any(f in cpuinfo_flags for f in flags) if key in _EITHER else all(f in cpuinfo_flags for f in flags)
        if not has:
            lacking.append(key)
    return tuple(NEEDS[key][0] for key in lacking if _FAMILY.get(key) not in lacking)


def compare(system_info: Mapping[str, str], cpuinfo_flags: AbstractSet[str]) -> str | None:
    """`built for AVX-512, this CPU has none; ...`, or None when nothing is missing or nothing is known.

    `system_info` is what the binary prints about itself (`AVX512` -> `1`), `cpuinfo_flags` the words of the line
    `flags` (x86) or `Features` (ARM) of /proc/cpuinfo; an empty set means that it could not be read. A build that
    picks its CPU code at run time prints only what it picked, so that it is never blamed.
    """
    if not cpuinfo_flags:
        return None
    names = missing(system_info, cpuinfo_flags)
    if not names:
        return None
    lack = "this CPU has none" if len(names) == 1 else "which this CPU has not"
    built = f"the binary is built for {enumerated(names)}, {lack}"
    return f"{built}: expect SIGILL; use a build for this CPU or for a generic one"
