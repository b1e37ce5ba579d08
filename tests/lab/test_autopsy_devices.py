"""The promise: a server's devices carry target, memory and driver wherever its log has them, in all its ages."""

from __future__ import annotations

import io

import pytest

from stillruns.lab import autopsy
from stillruns.model.backend import Backend
from stillruns.model.server_log import LogDevice

SLOG = "time=2026-03-01T10:00:00.000Z level=INFO source="


def devices(text: str) -> tuple[LogDevice, ...]:
    """The devices of the only server in a log."""
    (server,) = autopsy.perform(("-",), io.BytesIO(text.encode())).servers
    return server.devices


OLLAMA = {
    "0.1.29 rocm": (
        f"""{SLOG}amd_linux.go:50 msg="AMD Driver: 6.3.6"
{SLOG}amd_linux.go:119 msg="amdgpu [0] gfx900 is supported"
{SLOG}amd_linux.go:246 msg="[0] amdgpu totalMemory 8176M"
{SLOG}amd_linux.go:247 msg="[0] amdgpu freeMemory  8170M"
""",
        (Backend.ROCM, "gfx900", 8176, 8170, ""),
    ),
    "0.1.33 rocm": (
        f"""{SLOG}amd_linux.go:217 msg="amdgpu memory" gpu=0 total="8.0 GiB"
{SLOG}amd_linux.go:218 msg="amdgpu memory" gpu=0 available="7.5 GiB"
{SLOG}amd_linux.go:276 msg="amdgpu is supported" gpu=0 gpu_type=gfx906
""",
        (Backend.ROCM, "gfx906", 8192, 7680, ""),
    ),
    "0.1.30 cuda": (
        f"""{SLOG}gpu.go:77 msg="Detecting GPU type"
{SLOG}gpu.go:169 msg="[nvidia-ml] NVML CUDA Compute Capability detected: 6.1"
""",
        (Backend.CUDA, "sm_61", None, None, ""),
    ),
    "0.2 cuda": (
        f'{SLOG}types.go:103 msg="inference compute" id=GPU-1 library=cuda compute=6.1 driver=12.2 '
        'name="NVIDIA GeForce GTX 1080" total="7.9 GiB" available="7.8 GiB"\n',
        (Backend.CUDA, "sm_61", 7.9 * 1024, 7.8 * 1024, "12.2"),
    ),
    "0.5 rocm": (
        f'{SLOG}types.go:123 msg="inference compute" id=0 library=rocm variant="" compute=gfx900 driver=6.7 '
        'name=1002:687f total="8.0 GiB" available="8.0 GiB"\n',
        (Backend.ROCM, "gfx900", 8192, 8192, "6.7"),
    ),
    "0.12.5 rocm": (
        f'{SLOG}types.go:112 msg="inference compute" id=0 library=ROCm compute=gfx1030 name=ROCm0 '
        'description="AMD Radeon RX 6800" libdirs=ollama,rocm driver=60342.13 pci_id=0000:06:00.0 type=discrete '
        'total="16.0 GiB" available="15.9 GiB"\n',
        (Backend.ROCM, "gfx1030", 16384, 15.9 * 1024, "60342.13"),
    ),
    "0.30 vulkan": (
        f'{SLOG}types.go:32 msg="inference compute" id=0 filter_id=0 library=Vulkan compute=0.0 name=Vulkan0 '
        'description="AMD Radeon RX Vega (RADV VEGA10)" libdirs=ollama,vulkan driver=0.0 pci_id=0000:44:00.0 '
        'type=discrete total="8.0 GiB" available="7.5 GiB"\n',
        (Backend.VULKAN, "gfx900", 8192, 7680, ""),
    ),
    "metal": (
        f'{SLOG}types.go:130 msg="inference compute" id=0 library=metal variant="" compute="" driver=0.0 name="" '
        'total="96.0 GiB" available="96.0 GiB"\n',
        (Backend.METAL, None, 98304, 98304, ""),
    ),
}


@pytest.mark.parametrize("age", OLLAMA)
def test_ollama_s_discovery(age: str) -> None:
    """What discovery prints about the one card of the machine."""
    text, wanted = OLLAMA[age]
    (found,) = devices(text)
    got = (found.backend, found.target, found.memory_mib, found.free_mib, found.driver)
    assert got[:2] == wanted[:2]
    assert (found.memory_mib, found.free_mib) == (
        pytest.approx(wanted[2]) if wanted[2] is not None else None,
        pytest.approx(wanted[3]) if wanted[3] is not None else None,
    )
    assert found.driver == wanted[4]


def test_a_runner_s_line_and_discovery_s_are_one_device() -> None:
    """Discovery names the target and the memory, the runner the driver: one device has all."""
    text = f"""\
{SLOG}types.go:112 msg="inference compute" id=0 library=Vulkan compute=0.0 name=Vulkan0 \
description="AMD Radeon RX Vega (RADV VEGA10)" driver=0.0 total="8.0 GiB" available="7.5 GiB"
{SLOG}server.go:431 msg="starting runner" cmd="/bin/ollama runner --ollama-engine --model /m/b --port 1"
ggml_vulkan: Found 1 Vulkan devices:
ggml_vulkan: 0 = AMD Radeon RX Vega (RADV VEGA10) (radv) | uma: 0 | fp16: 1 | warp size: 64
"""
    (found,) = devices(text)
    assert (found.name, found.driver, found.memory_mib, found.free_mib) == ("Vulkan0", "radv", 8192, 7680)


def test_memory_that_a_backend_reports() -> None:
    """An excerpt without discovery's line: the backend's own report and the scheduler's line tell the memory."""
    head = f"""\
{SLOG}server.go:431 msg="starting runner" cmd="/bin/ollama runner --ollama-engine --model /m/b --port 1"
{SLOG}sched.go:498 msg="gpu memory" id=a library=Vulkan available="7.0 GiB" free="7.5 GiB" minimum="457.0 MiB"
ggml_vulkan: 0 = AMD Radeon RX Vega (RADV VEGA10) (radv) | uma: 0 | fp16: 1 | warp size: 64
"""
    (found,) = devices(head)
    assert (found.memory_mib, found.free_mib) == (None, 7680)
    report = "ggml_backend_vk_get_device_memory device 0000:44:00.0 utilizing AMD specific memory reporting free: "
    (found,) = devices(head + report + "8043999232 total: 8573157376\n")
    assert (found.memory_mib, found.free_mib) == (8176, pytest.approx(7671.36, abs=0.01))
    second = head + "ggml_vulkan: 1 = AMD Radeon VII (RADV VEGA20) (radv) | uma: 0 | fp16: 1 | warp size: 64\n"
    assert [d.memory_mib for d in devices(second + report + "8043999232 total: 8573157376\n")] == [None, None]


LLAMA = {
    "listing with stamps": (
        "0.00.744.663 I cmn  common_param:   - Vulkan0 : Radeon RX Vega (RADV VEGA10) (8176 MiB, 7671 MiB free)\n",
        ("Vulkan0", "radv", "gfx900", 8176, 7671),
    ),
    "--list-devices": (
        "Available devices:\n  Vulkan0: AMD Radeon RX Vega (RADV VEGA10) (8176 MiB, 7671 MiB free)\n",
        ("Vulkan0", "radv", "gfx900", 8176, 7671),
    ),
    "ggml_cuda_init of 2026": (
        "ggml_cuda_init: found 1 CUDA devices (Total VRAM: 11172 MiB):\n"
        "  Device 0: NVIDIA GeForce GTX 1080 Ti, compute capability 6.1, VMM: yes, VRAM: 11172 MiB\n",
        ("CUDA0", "", "sm_61", 11172, None),
    ),
    "ggml_cuda_init of HIP": (
        "ggml_cuda_init: found 1 ROCm devices (Total VRAM: 32752 MiB):\n"
        "  Device 0: AMD Instinct MI50, gfx906:sramecc+:xnack- (0x906), VMM: no, Wave Size: 64, VRAM: 32752 MiB\n",
        ("ROCm0", "", "gfx906:sramecc+:xnack-", 32752, None),
    ),
    "using device": (
        "llama_model_loader: loaded meta data with 26 key-value pairs and 9 tensors from /m/a (version GGUF V3)\n"
        "llama_model_load_from_file_impl: using device Vulkan0 (RX 580 Series (RADV POLARIS10)) - 8012 MiB "
        "free\n",
        ("Vulkan0", "radv", "gfx803", None, 8012),
    ),
    "SYCL's table": (
        "Found 1 SYCL devices:\n"
        "| 0| [level_zero:gpu:0]|                Intel Arc A770 Graphics|   12.55|    512|    1024|   32| 16225M|"
        "            1.3.29735|\n",
        ("SYCL0", "1.3.29735", None, 15473, None),
    ),
    "Metal": (
        "ggml_metal_device_init: GPU name:   MTL0 (Apple M2 Pro)\n"
        "ggml_metal_device_init: recommendedMaxWorkingSetSize  = 22906.50 MB\n",
        ("MTL0", "", None, 21845, None),
    ),
    "Metal of 2024": (
        "ggml_metal_init: found device: Apple M1\nggml_metal_init: recommendedMaxWorkingSetSize  = 11453.25 MB\n",
        ("Metal", "", None, 10923, None),
    ),
}


@pytest.mark.parametrize("form", LLAMA)
def test_llama_cpp_s_lines(form: str) -> None:
    """What llama.cpp prints about one device, in each form."""
    text, wanted = LLAMA[form]
    (found,) = devices(text)
    total = round(found.memory_mib) if found.memory_mib is not None else None
    assert (found.name, found.driver, found.target, total, found.free_mib) == wanted


def test_the_first_memory_counts() -> None:
    """Free memory is what was there when the device was listed, not what a loaded model left."""
    text = """\
0.00.100.001 I cmn  common_param:   - Vulkan0 : NVIDIA H200 (143771 MiB, 143139 MiB free)
0.00.200.001 I llama_model_load_from_file_impl: using device Vulkan0 (NVIDIA H200) (0000:00:06.0) - 1 MiB free
"""
    (found,) = devices(text)
    assert (found.memory_mib, found.free_mib) == (143771, 143139)


def test_a_target_by_the_card_s_name_says_so() -> None:
    """Vulkan prints no target: the card's name tells it, marked; a printed one is not touched."""
    (named,) = devices("ggml_vulkan: 0 = AMD Radeon VII (RADV VEGA20) (radv) | uma: 0 | fp16: 1 | warp size: 64\n")
    assert (named.target, named.by_name) == ("gfx906", True)
    (printed,) = devices(
        "ggml_cuda_init: found 1 ROCm devices:\n  Device 0: AMD Radeon VII, gfx1030 (0x1030), VMM: no\n"
    )
    assert (printed.target, printed.by_name) == ("gfx1030", False)
    (other,) = devices("ggml_vulkan: 0 = Some Card (radv) | uma: 0 | fp16: 1 | warp size: 64\n")
    assert (other.target, other.by_name) == (None, False)
