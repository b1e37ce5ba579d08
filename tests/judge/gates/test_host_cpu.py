"""Tests of judge/gates/host_cpu.py: SIGILL foretold from system_info and /proc/cpuinfo."""

from __future__ import annotations

from stillruns.judge.gates.host_cpu import compare, missing

HASWELL = frozenset({"pni", "ssse3", "sse4_1", "sse4_2", "fma", "avx", "avx2", "f16c", "bmi1", "bmi2"})
AVX512 = {"avx512f", "avx512dq", "avx512cd", "avx512bw", "avx512vl"}
SAPPHIRE = HASWELL | AVX512 | {"avx512vbmi", "avx512_vnni", "avx512_bf16"}
PLAIN = dict.fromkeys(["SSE3", "SSSE3", "AVX", "AVX2", "F16C", "FMA", "BMI2", "LLAMAFILE", "OPENMP", "REPACK"], "1")
WIDE = {**PLAIN, "AVX512": "1", "AVX512_VBMI": "1", "AVX512_VNNI": "1"}


def test_avx512_on_a_haswell() -> None:
    """The whole family is named once, in one sentence."""
    said = compare(WIDE, HASWELL)
    assert said is not None and said.startswith("the binary is built for AVX-512, this CPU has none: expect SIGILL")
    assert missing(WIDE, HASWELL) == ("AVX-512",)


def test_a_part_of_avx512() -> None:
    """A CPU with AVX-512 but without its later members misses those by name."""
    skylake = SAPPHIRE - {"avx512vbmi", "avx512_vnni"}
    said = compare(WIDE, skylake)
    assert said is not None and "AVX-512 VBMI and AVX-512 VNNI, which this CPU has not" in said


def test_fitting_builds() -> None:
    """A build that fits, or that prints nothing, or a host that cannot be read, gives no sentence."""
    assert compare(PLAIN, HASWELL) is None
    assert compare(WIDE, SAPPHIRE) is None
    assert compare({}, HASWELL) is None
    assert compare(WIDE, frozenset()) is None
    assert compare({**PLAIN, "AVX512": "0"}, HASWELL) is None


def test_old_cpu() -> None:
    """Sandy Bridge has AVX but no AVX2, FMA, F16C, BMI2."""
    said = compare(PLAIN, frozenset(["pni", "ssse3", "avx"]))
    assert said is not None and "F16C, FMA, AVX2 and BMI2" in said


def test_arm() -> None:
    """ARM's names differ between 32 and 64 bits; either is enough."""
    wide = {"NEON": "1", "ARM_FMA": "1", "DOTPROD": "1", "SVE": "1", "MATMUL_INT8": "1"}
    assert missing(wide, frozenset({"asimd", "asimddp"})) == ("ARM I8MM", "SVE")
    assert missing({"NEON": "1"}, frozenset({"neon"})) == ()
