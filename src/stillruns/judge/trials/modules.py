"""Which part a mapped file belongs to."""

from __future__ import annotations

from stillruns.model.component import Component

MODULES: tuple[tuple[str, tuple[Component, ...]], ...] = (
    ("libggml-base", (Component.GGML_CORE,)),
    ("libggml-cpu", (Component.GGML_CORE, Component.GGML_BACKEND)),
    ("libggml-", (Component.GGML_BACKEND,)),
    ("libggml.", (Component.GGML_CORE,)),
    ("libvulkan", (Component.VULKAN_DRIVER,)),
    ("vulkan.", (Component.VULKAN_DRIVER,)),
    ("libvk", (Component.VULKAN_DRIVER,)),
    ("libVkICD", (Component.VULKAN_DRIVER,)),
    ("libVkLayer", (Component.VULKAN_DRIVER,)),
    ("libGLX_nvidia", (Component.VULKAN_DRIVER,)),
    ("libnvidia-", (Component.VULKAN_DRIVER,)),
    ("amdvlk", (Component.VULKAN_DRIVER,)),
    ("libgallium", (Component.VULKAN_DRIVER,)),
    ("libLLVM", (Component.VULKAN_DRIVER,)),
    ("libdrm", (Component.VULKAN_DRIVER, Component.KERNEL_DRIVER)),
    ("libamdhip64", (Component.HIP,)),
    ("libhiprtc", (Component.HIP,)),
    ("libamd_comgr", (Component.HIP,)),
    ("libhsa-runtime", (Component.HSA,)),
    ("librocblas", (Component.ROCBLAS,)),
    ("libTensile", (Component.ROCBLAS,)),
    ("libhipblaslt", (Component.HIPBLASLT,)),
    ("libhipblas", (Component.ROCBLAS,)),
    ("libMIOpen", (Component.MIOPEN,)),
    ("libsycl", (Component.GGML_BACKEND, Component.CONFIGURATION, Component.KERNEL_DRIVER)),
    ("libcuda", (Component.CUDA,)),
    ("libcublas", (Component.CUDA,)),
    ("libllama", (Component.LLAMA_CPP,)),
    ("libmtmd", (Component.LLAMA_CPP,)),
    ("llama-", (Component.LLAMA_CPP,)),
    ("ollama", (Component.OLLAMA,)),
)
"""Beginnings of the file name of the module that the instruction pointer was in, the longer before the shorter.

A crash inside the CPU backend during a device's trial is most often ggml's core handing it a wrong buffer (a tensor
of the device, or one whose allocation failed), hence both. Frames of libc, the loader and the C++ runtime (abort,
memcpy) say nothing about who called them and are not listed.
"""


def parts_of(module: str) -> tuple[Component, ...]:
    """The parts that a mapped file's name stands for, likeliest first; nothing for one that says nothing."""
    return next((parts for start, parts in MODULES if module.startswith(start)), ())
