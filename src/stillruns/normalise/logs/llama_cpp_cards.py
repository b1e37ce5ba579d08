"""Whether the devices that a llama.cpp program lists are ones that it can compute on: a software renderer is the CPU,
and a CUDA build whose every architecture is newer than the card has no code for it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stillruns.model.backend import Backend, is_software
from stillruns.model.server_log import LogDevice, Note

_ARCH = re.compile(r"\d{3,4}")


def software(devices: Sequence[LogDevice]) -> Note | None:
    """Every GPU that is listed is a Vulkan driver that computes on the CPU."""
    gpus = [d for d in devices if d.backend not in (Backend.CPU, Backend.UNKNOWN)]
    if not gpus or not all(is_software(f"{d.description} {d.driver}") for d in gpus):
        return None
    text = (
        f"Vulkan lists only a software renderer ({gpus[0].description}): it computes on the CPU. Install the card's "
        "Vulkan driver (mesa-vulkan-drivers, or the vendor's), and let the program see /dev/dri"
    )
    return Note("fallback", text, tuple(d.ref for d in gpus[:5]))


def no_code(archs: str, devices: Sequence[LogDevice]) -> Note | None:
    """`ARCHS = 600,610,750` beside a card of compute capability 5.2: neither machine code nor PTX of a later
    architecture runs on an earlier one. A list with an earlier entry says nothing: PTX of it may be compiled on the
    spot. `archs` is what `system_info` prints (`__CUDA_ARCH_LIST__`: capability times 100)."""
    built = [int(arch) for arch in _ARCH.findall(archs)]
    cards = [d for d in devices if d.backend is Backend.CUDA and (d.target or "").startswith("sm_")]
    left = [d for d in cards if built and int((d.target or "")[3:]) * 10 < min(built)]
    if not left:
        return None
    names = ", ".join(dict.fromkeys(f"{d.description} ({d.target})" for d in left))
    text = (
        f"this build's CUDA code begins at {min(built)} (ARCHS = {archs[:120]}): nothing of it runs on {names}. "
        "Use a build whose list has it (CUDA 12 or older), or the Vulkan build"
    )
    return Note("build", text, tuple(d.ref for d in left[:5]))
