"""Backends and runtimes by their names in specs, tables and JSON."""

from __future__ import annotations

from enum import Enum


class Backend(str, Enum):
    """The compute path inside a runtime."""

    ROCM = "rocm"
    VULKAN = "vulkan"
    CUDA = "cuda"
    CPU = "cpu"
    SYCL = "sycl"
    METAL = "metal"
    RPC = "rpc"
    UNKNOWN = "unknown"


class Runtime(str, Enum):
    """The program that serves the model."""

    LLAMA_CPP = "llama.cpp"
    OLLAMA = "ollama"
    VLLM = "vllm"
    OPENAI = "openai"
    """Any server that speaks the OpenAI protocol, attached by its address."""
    UNKNOWN = "unknown"


DEVICE_PREFIXES: dict[str, Backend] = {
    "ROCm": Backend.ROCM,
    "HIP": Backend.ROCM,
    "CUDA": Backend.CUDA,
    "Vulkan": Backend.VULKAN,
    "SYCL": Backend.SYCL,
    "Metal": Backend.METAL,
    "MTL": Backend.METAL,
    "RPC": Backend.RPC,
    "CPU": Backend.CPU,
    "AMX": Backend.CPU,  # the CPU backend's own buffer type for Intel's matrix unit
}
"""ggml's device and buffer names begin with these (`Vulkan0`, `ROCm_Host`, `CPU_Mapped`, `RPC0[127.0.0.1:50052]`)."""


def backend_of_device(name: str) -> Backend:
    """The backend that a ggml device or buffer name belongs to; UNKNOWN for a name of no known form."""
    for prefix, backend in DEVICE_PREFIXES.items():
        if name.startswith(prefix):
            return backend
    return Backend.UNKNOWN


def on_host(buffer: str) -> bool:
    """Whether a ggml buffer of this name lies in the host's memory: `CPU`, `CPU_Mapped`, and a device's pinned
    `Vulkan_Host`. `MTL0_Mapped` is a model file mapped into the device (llama.cpp,
    ggml/src/ggml-metal/ggml-metal.cpp:462 at b11434)."""
    return backend_of_device(buffer) is Backend.CPU or buffer.endswith("Host")


_SOFTWARE = ("llvmpipe", "lavapipe", "swiftshader")


def is_software(shown: str) -> bool:
    """Whether a GPU device of this description or driver is the CPU, as Mesa's and SwiftShader's drivers say."""
    return any(name in shown.lower() for name in _SOFTWARE)
