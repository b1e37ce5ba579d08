"""Which drivers a cell ran with: the user-space one that its device's description names, and the kernel's."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stillruns.model.backend import Backend, is_software

_USER_SPACE = re.compile(
    r"\b(radv|llvmpipe|lavapipe|nvk|anv|turnip|amdvlk|AMD open-source driver|AMD proprietary driver)\b", re.IGNORECASE
)
_KERNEL: dict[Backend, tuple[str, ...]] = {
    Backend.ROCM: ("amdgpu",),
    Backend.CUDA: ("nvidia",),
    Backend.SYCL: ("xe", "i915"),
}
_BELOW = {"radv": ("amdgpu",), "amdvlk": ("amdgpu",), "nvk": ("nouveau",), "anv": ("i915", "xe")}
"""What a user-space driver stands on, where that is one of few."""
_VENDORS = {"amdgpu": r"AMD|Radeon", "nvidia": r"NVIDIA|GeForce|Tesla|Quadro", "i915": r"Intel", "xe": r"Intel"}


def of(backend: Backend, description: str | None, kernel: Mapping[str, str]) -> str | None:
    """`radv on amdgpu 6.18.16`; None where nothing names one.

    `kernel` maps the modules that were loaded to their versions (the kernel's own where a module has none). The
    description is what the runtime prints of the device.
    """
    shown = description or ""
    named = _USER_SPACE.search(shown)
    parts = [named[1].lower() if named[1].isalnum() else named[1]] if named else []
    if not is_software(shown):
        modules = _KERNEL.get(backend) or tuple(m for m, sign in _VENDORS.items() if re.search(sign, shown))
        modules = _BELOW.get(parts[0], modules) if parts else modules
        loaded = [f"{module} {kernel[module]}".strip() for module in modules if module in kernel]
        parts += [" or ".join(loaded)] if loaded else []
    return " on ".join(parts) or None
