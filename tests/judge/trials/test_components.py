"""The promise: a failure is laid to parts that took part in it."""

from __future__ import annotations

from stillruns.judge.trials.components import own
from stillruns.model.backend import Backend
from stillruns.model.component import Component


def test_a_backend_is_laid_to_its_own_parts() -> None:
    """One line is printed for CUDA and ROCm: its pattern names both, and each device keeps what it has."""
    found = (Component.GGML_BACKEND, Component.CUDA, Component.HIP, Component.HARDWARE)
    assert own(found, Backend.CUDA) == (Component.GGML_BACKEND, Component.CUDA, Component.HARDWARE)
    assert own(found, Backend.ROCM) == (Component.GGML_BACKEND, Component.HIP, Component.HARDWARE)
    assert own(found, Backend.UNKNOWN) == found
    assert own((Component.HIP,), Backend.VULKAN) == (Component.UNKNOWN,)
