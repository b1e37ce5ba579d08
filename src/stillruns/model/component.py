"""Who may be at fault."""

from __future__ import annotations

from enum import Enum


class Component(str, Enum):
    """Candidates; a judgement names a list of them, most likely first."""

    KERNEL_DRIVER = "kernel driver"
    FIRMWARE = "firmware"
    HSA = "HSA"
    HIP = "HIP"
    CUDA = "CUDA"
    ROCBLAS = "rocBLAS"
    HIPBLASLT = "hipBLASLt"
    MIOPEN = "MIOpen"
    VULKAN_DRIVER = "Vulkan driver"
    GGML_BACKEND = "ggml backend"
    GGML_CORE = "ggml core"
    LLAMA_CPP = "llama.cpp"
    OLLAMA = "Ollama"
    VLLM = "vLLM"
    HARDWARE = "hardware"
    HOST_CPU = "host CPU"
    CONFIGURATION = "configuration"
    UNKNOWN = "unknown"
