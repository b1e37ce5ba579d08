"""How far two computations that are held to be right differ, for one architecture, quantisation and card."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from stillruns.model.divergence import Divergence, Path


class Pair(str, Enum):
    """What was measured against the CPU reference."""

    CPU_PATH = "cpu path"
    """The same CPU build on its second healthy path."""
    CPU_BUILD = "cpu build"
    """Another CPU build: scalar against SIMD, AVX2 against AVX-512."""
    SOFTWARE = "software vulkan"
    """A Vulkan driver that computes on the CPU."""
    CARD = "card"
    """A real card: kept and shown, and never a floor, since nothing says that it is right."""


@dataclass(frozen=True, slots=True)
class KnownFloor:
    """`seen` is the divergence on one path, measured by the check `trial` of `run`. `device` is the card's own
    description, or the digest of the CPU build. `trusted` tells whether it serves as a floor."""

    architecture: str
    quantisation: str
    model: str
    device: str
    pair: Pair
    path: Path
    seen: Divergence
    run: str
    trial: str
    trusted: bool
