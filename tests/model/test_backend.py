"""A device or buffer name belongs to one backend, in every spelling that ggml prints."""

from __future__ import annotations

import pytest

from stillruns.model.backend import Backend, backend_of_device, on_host


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("Vulkan0", Backend.VULKAN),
        ("Vulkan_Host", Backend.VULKAN),
        ("ROCm1", Backend.ROCM),
        ("CUDA0_Split", Backend.CUDA),
        ("RPC0[127.0.0.1:50052]", Backend.RPC),
        ("CPU", Backend.CPU),
        ("CPU_Mapped", Backend.CPU),
        ("CPU_REPACK", Backend.CPU),
        ("AMX", Backend.CPU),
        ("Radeon RX Vega", Backend.UNKNOWN),
    ],
)
def test_names(name: str, backend: Backend) -> None:
    """`AMX` is the CPU's matrix unit: a cpu trial that held weights there ran on the CPU, and is not void."""
    assert backend_of_device(name) is backend


@pytest.mark.parametrize(
    ("buffer", "host"),
    [
        ("CPU", True),
        ("CPU_Mapped", True),
        ("AMX", True),
        ("Vulkan_Host", True),
        ("ROCm_Host", True),
        ("Vulkan0", False),
        ("CUDA_Split", False),
        ("Metal_Mapped", False),
        ("MTL0_Mapped", False),
    ],
)
def test_where_buffers_lie(buffer: str, host: bool) -> None:
    """Pinned memory is the host's; a file that is mapped into a device is the device's."""
    assert on_host(buffer) is host
