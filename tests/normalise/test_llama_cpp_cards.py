"""The promise: a listed device on which the program cannot compute is named, and no other."""

from __future__ import annotations

import io

import pytest

from stillruns.lab import autopsy
from stillruns.model.backend import Backend
from stillruns.model.server_log import LogDevice
from stillruns.normalise.logs import llama_cpp_cards
from stillruns.normalise.system_info import features


def card(target: str | None, backend: Backend = Backend.CUDA, name: str = "Tesla M60") -> LogDevice:
    """A listed device."""
    return LogDevice(backend, "CUDA0", name, target, "s0:L1")


@pytest.mark.parametrize(
    ("archs", "target", "told"),
    [
        ("600,610,750", "sm_52", True),
        ("600,610,750", "sm_60", False),
        ("500,600,750", "sm_52", False),  # PTX of 500 may be compiled on the spot
        ("750", "sm_61", True),
        ("__CUDA_ARCH_LIST__", "sm_52", False),
        ("", "sm_52", False),
        ("600", None, False),
    ],
)
def test_code_for_later_cards_only(archs: str, target: str | None, told: bool) -> None:
    """Only where every architecture of the build is later than the card's is it said that nothing runs there."""
    note = llama_cpp_cards.no_code(archs, (card(target),))
    assert (note is not None) is told
    if note:
        assert "Tesla M60 (sm_52)" in note.text or "(sm_61)" in note.text


def test_amd_cards_are_no_matter_of_cuda_s_list() -> None:
    """The list is of the CUDA backend."""
    assert llama_cpp_cards.no_code("600", (card("gfx803", Backend.ROCM),)) is None


def test_a_software_renderer_is_the_cpu_only_when_it_is_alone() -> None:
    """llvmpipe beside a card is a usual guest."""
    soft = card(None, Backend.VULKAN, "llvmpipe (LLVM 17.0.6, 256 bits)")
    assert llama_cpp_cards.software((soft,)) is not None
    assert llama_cpp_cards.software((soft, card(None, Backend.VULKAN, "AMD Radeon RX 580"))) is None
    assert llama_cpp_cards.software(()) is None


def test_both_reach_the_report() -> None:
    """From the lines to the notes."""
    text = """ggml_cuda_init: found 1 CUDA devices:
  Device 0: Tesla M40, compute capability 5.2, VMM: yes
system_info: CUDA : ARCHS = 610,700 | USE_GRAPHS = 1 | CPU : SSE3 = 1 |
"""
    found = autopsy.perform(("-",), io.BytesIO(text.encode()))
    assert [note.kind for note in found.warnings] == ["build"]
    soft = "ggml_vulkan: 0 = llvmpipe (LLVM 15.0.7, 256 bits) (llvmpipe) | uma: 0 | fp16: 1 | warp size: 8\n"
    found = autopsy.perform(("-",), io.BytesIO(soft.encode()))
    assert [note.kind for note in found.warnings] == ["fallback"]


def test_a_list_without_threads_keeps_its_first_backend() -> None:
    """llama-box prints the features right behind `system_info:`."""
    assert features("system_info: CUDA : ARCHS = 600,610 | F16 = 1 | CPU : AVX = 1 |") == {
        "CUDA.ARCHS": "600,610",
        "CUDA.F16": "1",
        "AVX": "1",
    }
    assert features("system_info: n_threads = 2 / 4 | AVX = 1 |") == {"AVX": "1"}


def test_the_first_table_of_sycl_devices() -> None:
    """Early builds printed bytes and no driver."""
    text = (
        "found 1 SYCL devices:\n"
        "| 0|[level_zero:gpu:0]|     Intel(R) Arc(TM) A750 Graphics|       1.3|        448|    1024|     32|"
        "     8096681984|\n"
    )
    (server,) = autopsy.perform(("-",), io.BytesIO(text.encode())).servers
    (device,) = server.devices
    assert (device.backend, device.description) == (Backend.SYCL, "Intel(R) Arc(TM) A750 Graphics")
    assert device.memory_mib == 8096681984 / 1048576


def test_a_bench_table_that_lost_its_sign() -> None:
    """Pastes turn the sign between mean and spread into something else; the backend is still in the row."""
    text = (
        "| model          |       size |     params | backend    | ngl |            test |                  t/s |\n"
        "| -------------- | ---------: | ---------: | ---------- | --: | --------------: | -------------------: |\n"
        "| gemma3 1B Q4_0 | 700.00 MiB |   999.89 M | ROCm       |  99 |           tg128 |         41.25 _ 0.12 |\n"
    )
    (server,) = autopsy.perform(("-",), io.BytesIO(text.encode())).servers
    assert [runner.backend for runner in server.runners] == [Backend.ROCM]
