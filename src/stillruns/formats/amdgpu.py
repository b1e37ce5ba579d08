"""AMD's code objects: which processor an ELF header names, with which features, in which version of the format.

Source: LLVM's AMDGPUUsage ("ELF Code Object", header and e_flags). The table of processors was made by asking
llvm-readelf 19 and 22 for all 256 values; none of them differs between the two.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

from stillruns.formats.elf import EM_AMDGPU, HEADER
from stillruns.model.code_object import Feature

PROCESSORS: dict[int, str] = {
    0x20: "gfx600",
    0x21: "gfx601",
    0x22: "gfx700",
    0x23: "gfx701",
    0x24: "gfx702",
    0x25: "gfx703",
    0x26: "gfx704",
    0x28: "gfx801",
    0x29: "gfx802",
    0x2A: "gfx803",
    0x2B: "gfx810",
    0x2C: "gfx900",
    0x2D: "gfx902",
    0x2E: "gfx904",
    0x2F: "gfx906",
    0x30: "gfx908",
    0x31: "gfx909",
    0x32: "gfx90c",
    0x33: "gfx1010",
    0x34: "gfx1011",
    0x35: "gfx1012",
    0x36: "gfx1030",
    0x37: "gfx1031",
    0x38: "gfx1032",
    0x39: "gfx1033",
    0x3A: "gfx602",
    0x3B: "gfx705",
    0x3C: "gfx805",
    0x3D: "gfx1035",
    0x3E: "gfx1034",
    0x3F: "gfx90a",
    0x40: "gfx940",
    0x41: "gfx1100",
    0x42: "gfx1013",
    0x43: "gfx1150",
    0x44: "gfx1103",
    0x45: "gfx1036",
    0x46: "gfx1101",
    0x47: "gfx1102",
    0x48: "gfx1200",
    0x49: "gfx1250",
    0x4A: "gfx1151",
    0x4B: "gfx941",
    0x4C: "gfx942",
    0x4E: "gfx1201",
    0x4F: "gfx950",
    0x51: "gfx9-generic",
    0x52: "gfx10-1-generic",
    0x53: "gfx10-3-generic",
    0x54: "gfx11-generic",
    0x55: "gfx1152",
    0x58: "gfx1153",
    0x59: "gfx12-generic",
    0x5A: "gfx1251",
    0x5F: "gfx9-4-generic",
}
"""EF_AMDGPU_MACH, the lowest byte of e_flags."""

_VERSIONS = {0: 2, 1: 3, 2: 4, 3: 5, 4: 6}
"""EI_ABIVERSION -> version of the code object."""
_STATES = (Feature.NONE, Feature.ANY, Feature.OFF, Feature.ON)
_TARGET = re.compile(r"((?:gfx[0-9a-f]+(?:-[0-9]+)*(?:-generic)?)(?::[a-z]+[+-])*)\Z")


class Code(NamedTuple):
    """One code object's header. `target` has the features that are on or off, as the compiler writes them."""

    target: str
    processor: str
    xnack: Feature
    sramecc: Feature
    version: int | None
    generic_version: int


def header(data: bytes) -> Code | None:
    """What the first 64 bytes say; None for what is no code object of AMD's."""
    if len(data) < HEADER or data[:4] != b"\x7fELF" or data[4] != 2 or data[5] != 1:
        return None
    (machine,) = struct.unpack_from("<H", data, 18)
    if machine != EM_AMDGPU:
        return None
    (flags,) = struct.unpack_from("<I", data, 48)
    number = flags & 0xFF
    processor = PROCESSORS.get(number, f"unknown-{number:#04x}")
    abi = data[8]
    if abi >= 2:
        xnack, sramecc = _STATES[flags >> 8 & 3], _STATES[flags >> 10 & 3]
    else:  # code object v3 and older know on and not on
        xnack = Feature.ON if flags & 0x100 else Feature.UNKNOWN
        sramecc = Feature.ON if flags & 0x200 else Feature.UNKNOWN
    generic = flags >> 24 if abi >= 4 else 0
    return Code(spelled(processor, sramecc, xnack), processor, xnack, sramecc, _VERSIONS.get(abi), generic)


def spelled(processor: str, sramecc: Feature, xnack: Feature) -> str:
    """`gfx906:sramecc+:xnack-`: features in alphabetical order, those that are neither on nor off left out."""
    signs = {Feature.ON: "+", Feature.OFF: "-"}
    parts = [f":{name}{signs[state]}" for name, state in (("sramecc", sramecc), ("xnack", xnack)) if state in signs]
    return processor + "".join(parts)


def target_in(entry: str) -> str:
    """The target of a bundle entry's id (`hipv4-amdgcn-amd-amdhsa--gfx906:xnack-` -> `gfx906:xnack-`), or empty.

    The id is kind-triple-target; a triple has three or four parts and the target itself may hold hyphens
    (`gfx10-3-generic`), so the end is matched and not a count of parts.
    """
    found = _TARGET.search(entry)
    return found[1] if found else ""


def features_in(target: str) -> tuple[str, Feature, Feature]:
    """(processor, xnack, sramecc) of a target; what it does not say is any."""
    processor, *words = target.split(":")
    states = {"xnack": Feature.ANY, "sramecc": Feature.ANY}
    for word in words:
        states[word[:-1]] = Feature.ON if word.endswith("+") else Feature.OFF
    return processor, states["xnack"], states["sramecc"]
