"""The promise: runtimes are found where their installers put them, and their folder bounds their release."""

from __future__ import annotations

from pathlib import Path

import pytest

import device_code
import machines
import sysroots
from stillruns.model.gate import GateStatus, Layer
from stillruns.model.machine import RuntimeInstall

BACKENDS = "home/u/.lmstudio/extensions/backends"
ENGINE = f"{BACKENDS}/llama.cpp-linux-x86_64-amd-rocm-avx2-1.57.0"
VENDOR = f"{BACKENDS}/vendor/linux-llama-rocm-vendor-v3"


def runtimes(root: Path) -> tuple[RuntimeInstall, ...]:
    """What is installed there."""
    return machines.of(root).runtimes


def library(root: Path, path: str, target: str = "gfx900") -> None:
    """A HIP backend that links what HIP backends link."""
    code = device_code.padded([device_code.bundle([(target, device_code.code(target, features=0x100))])])
    sections = [(".hip_fatbin", code), (".hipFatBinSegment", device_code.wrappers(1))]
    sysroots.write(root, path, device_code.library(sections, ["libamdhip64.so.6", "librocblas.so.4"]))


@pytest.mark.parametrize("home", ["home/u/.lmstudio", "home/u/.cache/lm-studio", "root/.lmstudio"])
def test_engines_of_lm_studio(tmp_path: Path, home: str) -> None:
    """An engine is a runtime of its own; its version stands in its folder's name."""
    library(tmp_path, f"{home}/extensions/backends/llama.cpp-linux-x86_64-amd-rocm-avx2-1.57.0/libggml-hip.so")
    (found,) = runtimes(tmp_path)
    assert (found.runtime, found.version, found.loaded) == ("LM Studio", "1.57.0", ())
    assert [backend.backend for backend in found.backends] == ["rocm"]


def test_libraries_that_an_engine_brings(tmp_path: Path) -> None:
    """The packages of libraries that the engine's manifest names are where its links lead: kernels of another folder
    prove nothing."""
    library(tmp_path, f"{ENGINE}/libggml-hip.so")
    sysroots.write(tmp_path, f"{ENGINE}/backend-manifest.json", f'{{"vendor_lib_package_names": ["{VENDOR[-26:]}"]}}')
    for name in ("libamdhip64.so.6", "librocblas.so.4"):
        sysroots.write(tmp_path, f"{VENDOR}/{name}", device_code.library())
    index = device_code.lazy_index("gfx1100", [], [])
    sysroots.write(tmp_path, f"{VENDOR}/rocblas/library/TensileLibrary_lazy_gfx1100.dat", index)
    index = device_code.lazy_index("gfx900", [], [])
    sysroots.write(tmp_path, "opt/rocm/lib/rocblas/library/TensileLibrary_lazy_gfx900.dat", index)
    machine = machines.of(tmp_path)
    assert machine.runtimes[0].loaded == (f"/{VENDOR}",)
    assert machine.runtimes[0].backends[0].links["librocblas.so.4"] == f"/{VENDOR}/librocblas.so.4"
    gate = machines.gate(machines.judged(machine, "gfx900"), Layer.KERNEL_LIBRARIES)
    assert gate.status is GateStatus.BLOCK and "used by LM Studio" in gate.reason, gate.reason


@pytest.mark.parametrize("text", ["", "[", "[1]", '{"vendor_lib_package_names": ["../../../etc", 7]}', "{" * 100_000])
def test_damaged_manifests(tmp_path: Path, text: str) -> None:
    """A manifest that says nothing, or leads elsewhere, brings nothing."""
    library(tmp_path, f"{ENGINE}/libggml-hip.so")
    sysroots.write(tmp_path, f"{ENGINE}/backend-manifest.json", text)
    assert runtimes(tmp_path)[0].loaded == ()


@pytest.mark.parametrize(
    ("names", "low", "high"),
    [
        (["libggml_hipblas.so", "runners/rocm/ollama_llama_server"], "0.4.0", "0.5.7"),
        (["libggml_cuda_v12.so"], "0.4.0", "0.5.7"),
        (["rocm/libggml-hip.so"], "0.5.8", "0.24.0"),
        (["cuda_v12/libggml-cuda.so", "cuda_v13/libggml-cuda.so"], "0.11.11", ""),
        (["cuda_v13/libggml-cuda.so", "rocm/libggml-hip.so"], "0.11.11", "0.24.0"),
        (["cuda_v13/libggml-cuda.so", "vulkan/libggml-vulkan.so"], "0.12.6", ""),
        (["cuda_v12/libggml-cuda.so", "llama-server", "libllama.so.0"], "0.30.0", ""),
        (["cuda_v13/libggml-cuda.so", "vulkan/libggml-vulkan.so", "libggml-base.so"], "0.12.6", "0.24.0"),
        (["cuda_v12/libggml-cuda.so", "libggml-base.so"], "0.5.8", "0.24.0"),
        (["libggml_hipblas.so", "cuda_v13/libggml-cuda.so"], "", ""),
        (["cuda_v12/libggml-cuda.so"], "", ""),
    ],
)
def test_the_folder_bounds_the_release(tmp_path: Path, names: list[str], low: str, high: str) -> None:
    """Everything that only some releases have bounds it; remains of two releases tell nothing."""
    for name in names:
        sysroots.write(tmp_path, f"usr/local/lib/ollama/{name}", device_code.library())
    (found,) = runtimes(tmp_path)
    assert (found.runtime, found.low, found.high) == ("ollama", low, high)


def test_backends_under_their_old_names(tmp_path: Path) -> None:
    """Up to 0.5.7 the libraries of Ollama's runners are libggml_hipblas and libggml_cuda_v*."""
    for name in ("libggml_hipblas.so", "libggml_cuda_v11.so", "libggml_cuda_v12.so", "libggml_base.so"):
        sysroots.write(tmp_path, f"usr/lib/ollama/{name}", device_code.library())
    (found,) = runtimes(tmp_path)
    assert [backend.backend for backend in found.backends] == ["cuda", "cuda", "rocm"]


def test_a_program_that_holds_its_backends(tmp_path: Path) -> None:
    """A llama-server that was linked with its backends is the library of each, by its device code and its links."""
    code = device_code.padded([device_code.bundle([("gfx906", device_code.code("gfx906", features=0x500))])])
    sections = [(".hip_fatbin", code), (".hipFatBinSegment", device_code.wrappers(1))]
    needed = ["libamdhip64.so.6", "librocblas.so.4", "libvulkan.so.1"]
    sysroots.write(tmp_path, "opt/llama.cpp/llama-server", device_code.library(sections, needed))
    machine = machines.of(tmp_path)
    (found,) = machine.runtimes
    assert [(b.backend, b.path) for b in found.backends] == [
        ("rocm", "/opt/llama.cpp/llama-server"),
        ("vulkan", "/opt/llama.cpp/llama-server"),
    ]
    assert "librocblas.so.4" in found.backends[0].links and found.cpu_variants == ("",)
    gate = machines.gate(machines.judged(machine, "gfx906"), Layer.CODE_OBJECTS)
    assert gate.status is GateStatus.ALLOW and "llama-server holds gfx906" in gate.reason


@pytest.mark.parametrize("needed", [["libggml.so", "libllama.so"], ["libc.so.6"]])
def test_programs_without_backends(tmp_path: Path, needed: list[str]) -> None:
    """One that takes its backends from libraries elsewhere, and one for the CPU, are no runtime of a GPU."""
    sysroots.write(tmp_path, "usr/bin/llama-server", device_code.library(needed=needed))
    assert runtimes(tmp_path) == ()


def test_koboldcpp(tmp_path: Path) -> None:
    """KoboldCpp's libraries bear its name."""
    for name in ("default", "hipblas", "cublas", "vulkan", "vulkan_noavx2", "clblast"):
        sysroots.write(tmp_path, f"opt/koboldcpp/koboldcpp_{name}.so", device_code.library())
    (found,) = runtimes(tmp_path)
    assert found.runtime == "koboldcpp" and [b.backend for b in found.backends] == [
        "cuda",
        "rocm",
        "vulkan",
        "vulkan",
    ]
