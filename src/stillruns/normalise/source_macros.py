"""What a target's compile path is in ggml's GPU headers, by evaluating the macros, at file:line."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stillruns.model.source_build import MacroFact, Place
from stillruns.normalise.preprocess import Preprocessed, preprocess

_HIP = "vendors/hip.h"
_COMMON = "ggml-cuda/common.cuh"
_FAMILIES = ("GCN5", "GCN4", "GCN", "CDNA3", "CDNA2", "CDNA1", "CDNA", "RDNA4", "RDNA3", "RDNA2", "RDNA1", "RDNA")
_SWITCHES = {
    "FAST_FP16_AVAILABLE": "fast FP16",
    "AMD_MFMA_AVAILABLE": "matrix cores (MFMA)",
    "AMD_WMMA_AVAILABLE": "matrix cores (WMMA)",
    "FLASH_ATTN_AVAILABLE": "flash attention kernels",
    "V_DOT2_F32_F16_AVAILABLE": "FP16 dot product (v_dot2)",
}
_DOT = (
    ("__builtin_amdgcn_sdot4", "hardware (sdot4)"),
    ("__builtin_amdgcn_sudot4", "hardware (sudot4)"),
    ("v_mul_i32_i24", "emulated (six instructions for one)"),
    ("int8x4_t va", "emulated (plain C)"),
)


def read(project: str, texts: dict[str, str], targets: tuple[str, ...]) -> dict[str, tuple[MacroFact, ...]]:
    """Facts by target; empty where the tree has no ggml GPU headers."""
    hip = next((path for path in sorted(texts) if path.endswith(_HIP)), "")
    common = next((path for path in sorted(texts) if path.endswith(_COMMON)), "")
    if not common:
        return {}
    return {
        target: tuple(_facts(project, texts, hip, common, target)) for target in targets if "generic" not in target
    }


def predefined(target: str) -> dict[str, str]:
    """What clang defines when it compiles HIP for a target."""
    names = {"GGML_USE_HIP": "1", "__HIP_PLATFORM_AMD__": "1", "__HIP_DEVICE_COMPILE__": "1", f"__{target}__": "1"}
    number = target.removeprefix("gfx")
    names[f"__GFX{number[:-2]}__"] = "1"
    return names


def _facts(project: str, texts: dict[str, str], hip: str, common: str, target: str) -> Iterator[MacroFact]:
    vendor = preprocess(texts.get(hip, ""), predefined(target))
    whole = preprocess(texts[common], vendor.defined)

    def place(path: str, number: int) -> Place:
        lines = texts[path].split("\n")
        return Place(project, path, number, lines[number - 1].strip()[:200])

    family = next((name for name in _FAMILIES if name in vendor.places), "")
    if family:
        yield MacroFact("family", family, place(hip, vendor.places[family]))
    for line in whole.lines:
        dot = next((value for sign, value in _DOT if sign in line.text), "")
        if dot:
            yield MacroFact("dp4a", dot, place(common, line.number))
            break
    for name, shown in _SWITCHES.items():
        if name in whole.places:
            yield MacroFact(shown, "yes", place(common, whole.places[name]))
        else:
            number = _mention(texts[common], name)
            if number:
                yield MacroFact(shown, "no", place(common, number))
    wave = _wave(whole)
    if wave:
        yield MacroFact("wave size", wave[1], place(common, wave[0]))


def _mention(text: str, name: str) -> int:
    found = re.search(rf"#\s*define\s+{name}\b", text)
    return text.count("\n", 0, found.start()) + 1 if found else 0


def _wave(whole: Preprocessed) -> tuple[int, str] | None:
    """The compiled `return` of ggml_cuda_get_physical_warp_size."""
    inside = False
    for line in whole.lines:
        if "ggml_cuda_get_physical_warp_size()" in line.text and "{" in line.text:
            inside = True
        elif inside:
            found = re.search(r"return\s+(\w+)", line.text)
            if found:
                return line.number, found[1]
            if line.text.startswith("}"):
                return None
    return None
