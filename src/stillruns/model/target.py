"""Targets: their names, their features, and what a card of one of them is."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ID = re.compile(r"(gfx[0-9a-f]+(?:-[0-9]+)*(?:-generic)?|(?:sm|compute)_\d+[a-z]?)((?::[a-z]+[+-])*)\Z")


@dataclass(frozen=True, slots=True)
class TargetId:
    """`gfx906:sramecc+:xnack-` in parts. A feature is True (`+`), False (`-`), or None where the id says nothing."""

    processor: str
    sramecc: bool | None = None
    xnack: bool | None = None

    def __str__(self) -> str:
        """As the compiler writes it, features in alphabetical order."""
        text = self.processor
        for name, value in (("sramecc", self.sramecc), ("xnack", self.xnack)):
            if value is not None:
                text += f":{name}{'+' if value else '-'}"
        return text


@dataclass(frozen=True, slots=True)
class TargetInfo:
    """What the catalogue knows about a processor. `generic` is the generic target that serves it, or empty; `xnack`
    and `sramecc` say whether it has the feature; `atomics` is `yes`, `no` or a sentence with a condition; `dma_bits`
    the width of its DMA addresses; `kind` dGPU or APU."""

    target: str
    family: str
    kind: str
    products: str
    codenames: str
    generic: str
    xnack: bool
    sramecc: bool
    kfd: int
    override: str
    atomics: str
    dma_bits: int
    wave: int
    notes: str
    source: str
    read_on: str


def parse_target(text: str) -> TargetId | None:
    """The parts of a target id; None for what is none (an unknown feature included)."""
    found = _ID.match(text.strip())
    if not found:
        return None
    features: dict[str, bool] = {}
    for word in found[2].split(":"):
        if word:
            features[word[:-1]] = word.endswith("+")
    if set(features) - {"sramecc", "xnack"}:
        return None
    return TargetId(found[1], features.get("sramecc"), features.get("xnack"))


def from_kfd(version: int) -> str:
    """KFD's gfx_target_version to a processor: 90006 -> gfx906, 90010 -> gfx90a, 110501 -> gfx1151.

    Major is decimal, minor and stepping one hexadecimal digit each (linux drivers/gpu/drm/amd/amdkfd, rocminfo).
    Empty for 0 (a CPU) and for what is no such number.
    """
    if version < 10_000 or version > 999_999:
        return ""
    major, minor, step = version // 10_000, version // 100 % 100, version % 100
    if minor > 15 or step > 15:
        return ""
    return f"gfx{major}{minor:x}{step:x}"


def from_override(text: str) -> str:
    """HSA_OVERRIDE_GFX_VERSION to a processor: 9.0.10 -> gfx90a, 10.3.0 -> gfx1030; empty for another form.

    ROCr reads three decimal numbers (`%u.%u.%u`) and prints minor and stepping as hexadecimal digits.
    """
    found = re.fullmatch(r"(\d{1,2})\.(\d{1,2})\.(\d{1,2})", text.strip())
    if not found:
        return ""
    major, minor, step = (int(part) for part in found.groups())
    return f"gfx{major}{minor:x}{step:x}" if minor <= 15 and step <= 15 else ""
