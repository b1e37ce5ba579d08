"""The promise: the ways in which people paste (prompts, wrapped commands, programs around llama.cpp, lines of the
kernel) hide nothing of what a log says, and make no incident of what is none."""

from __future__ import annotations

import io

import pytest

from stillruns.lab import autopsy
from stillruns.model.autopsy import Autopsy
from stillruns.model.backend import Backend
from stillruns.model.component import Component
from stillruns.model.outcome import OutcomeKind
from stillruns.model.phase import Phase


def pasted(text: str) -> Autopsy:
    """A text as standard input."""
    return autopsy.perform(("-",), io.BytesIO(text.encode()))


@pytest.mark.parametrize(
    ("lines", "asked"),
    [
        (">> sudo ~/llama.cpp/build/bin/main \\\n    -ngl 17 -m a.gguf", 17),
        ("me@box:~/src/llama.cpp/build $ ./bin/llama-cli -m a.gguf -ngl 17 -t 4", 17),
        ("[me@box llama.cpp]$ ./llama-server -m a.gguf --n-gpu-layers 17", 17),
        ("PS C:\\models> .\\llama-cli.exe -m a.gguf -ngl 17", 17),
        ("llama -i -m a.gguf -ngl 17", 17),
        ("llama-cli -m a.gguf -b 128\n  -p x -ngl 17", 17),
        ("./llava -m a.gguf \\\n        --temp 0.1 -ngl 17 -mg 0", 17),
        ("(venv) me@box:~/kobold> python koboldcpp.py --usevulkan --gpulayers 17 --model a.gguf", 17),
        ("Namespace(model='a.gguf', gpulayers=17, port=5001)", 17),
        ("10:11:12-130415 INFO     Using gpu_layers=17 | ctx_size=8192 | cache_type=fp16", 17),
        ("llama-cli -m a.gguf -b 128\nso I wrote -ngl 17 there", None),
        ("I asked for gpu_layers=17 and got nothing", None),
    ],
)
def test_what_was_asked(lines: str, asked: int | None) -> None:
    """The number of layers of a command line behind any prompt, over several lines, and of the programs in front."""
    found = pasted(
        f"{lines}\nllama_model_loader: loaded meta data with 20 key-value pairs and 1 tensors from a.gguf\n"
    )
    runners = [runner for server in found.servers for runner in server.runners]
    assert {runner.requested_layers for runner in runners} - {None} == ({asked} if asked else set())


def test_a_count_that_is_renewed_in_its_line() -> None:
    """KoboldCpp ends its line of progress when the prompt is done: an error in between stands behind the count."""
    counted = "Processing Prompt [BLAS] (512 / 2048 tokens)"
    error = (
        "CUDA error: out of memory\n  current device: 0, in function ggml_cuda_pool_malloc_vmm at ggml-cuda.cu:7001\n"
        "  cuMemSetAccess(address, size, &access, 1)\n"
    )
    (found,) = pasted(counted + error).incidents
    assert (found.outcome, found.phase, found.backend) == (OutcomeKind.OOM, Phase.PROMPT, Backend.CUDA)
    assert pasted(f"{counted}\n").incidents == ()


HEAD = """\
build: 5000 (abcdef01) with cc for x86_64-linux-gnu
llama_model_load_from_file_impl: using device CUDA0 (NVIDIA Example) - 8000 MiB free
llama_model_loader: loaded meta data with 20 key-value pairs and 291 tensors from a.gguf (version GGUF V3 (latest))
llama_model_loader: - kv   0:                       general.architecture str              = llama
"""


def test_a_log_that_is_cut_in_the_description_of_the_model() -> None:
    """What stands in the model is printed in one go: a log that ends there was cut. One that ends in the load may
    have been a hang, and stays unknown."""
    for count in (2, 3, 4):
        cut = pasted("\n".join(HEAD.splitlines()[:count]) + "\n")
        assert cut.incidents == (), count
        assert "excerpt" in [note.kind for note in cut.warnings]
    (unknown,) = pasted(
        f"{HEAD}load_tensors: loading model tensors, this can take a while... (mmap = true)\n"
    ).incidents
    assert unknown.outcome is None


def test_ollama_cut_in_the_description_of_the_model() -> None:
    """The same of a runner; a line of the server's after it shows that time went on."""
    start = (
        'time=2025-02-03T04:05:06.100Z level=INFO source=server.go:380 msg="starting llama server" '
        'cmd="/usr/lib/ollama/runners/cuda_v12/ollama_llama_server --model /m/sha256-00 --port 4000"\n'
    )
    kv = "llama_model_loader: - kv   0:                       general.architecture str              = llama\n"
    waits = 'time=2025-02-03T04:10:06.100Z level=INFO source=server.go:589 msg="waiting for llama runner to start"\n'
    assert pasted(start + kv).incidents == ()
    assert [i.outcome for i in pasted(start + kv + waits).incidents] == [None]


def test_a_model_that_was_not_loaded() -> None:
    """The line that says so is an incident by itself; where the program then loads, it is none."""
    failed = "llama_model_load: error loading model: read error: Input/output error\n"
    (found,) = pasted(failed).incidents
    assert (found.outcome, found.phase) == (OutcomeKind.ERROR, Phase.LOAD)
    head = HEAD.split("\n", 1)[1]
    lived = f"{head}{failed}{head}main: model loaded\nmain: server is listening on http://127.0.0.1:8080\n"
    assert pasted(lived).incidents == ()


def test_rocblas_falls_back() -> None:
    """rocBLAS goes on without hipBLASLt, and without XF32; a matrix for which it has nothing ends the work."""
    for line in (
        "rocBLAS error: No hipBLASLt solution found",
        "rocBLAS warning: hipBlasLT failed, falling back to tensile. ",
        "rocBLAS error: No Tensile solution found for XF32, fall back to FP32",
    ):
        assert pasted(f"{line}\n").incidents == (), line
    (found,) = pasted("rocBLAS error: No Tensile solution found\n").incidents
    assert found.outcome is OutcomeKind.ABORT


RING = (
    "[  100.000001] amdgpu 0000:03:00.0: amdgpu: ring comp_1.1.0 timeout, signaled seq=10, emitted seq=12\n"
    "[  100.000002] amdgpu 0000:03:00.0: amdgpu: GPU reset begin!\n"
)


def test_who_dies_beside_a_lost_gpu() -> None:
    """Another program's death after a reset is an effect; a server's own is what ended."""
    death = (
        "[  101.500000] {}[77]: segfault at 8 ip 0000700000000000 sp 0000700000000100 error 4 in libx.so.1[7000+60]\n"
    )
    (foreign,) = pasted(RING + death.format("shell-worker")).incidents
    assert (foreign.outcome, foreign.signal) == (OutcomeKind.DEVICE_LOST, None)
    (own,) = pasted(RING + death.format("llama-server")).incidents
    assert (own.outcome, own.signal) == (OutcomeKind.CRASH, "SIGSEGV")


def test_queues_that_the_gpu_does_not_give_up() -> None:
    """The kernel's compute driver waits in vain for the GPU: whatever ran there hangs."""
    (found,) = pasted(
        "[   60.000001] amdgpu 0000:03:00.0: HIQ MQD's queue_doorbell_id0 is not 0, Queue preemption time out\n"
        "[   60.000005] amdgpu: Failed to evict process queues\n"
    ).incidents
    assert found.outcome is OutcomeKind.DEVICE_LOST and Component.KERNEL_DRIVER in found.components
    assert "queues" in found.explanation


def test_an_oops_of_the_driver_and_a_mere_warning() -> None:
    """A kernel that fails in the GPU's driver is an incident of the driver; a warning prints a function, too."""
    where = "[   50.000009] RIP: 0010:amdgpu_example_free+0x15/0xa0 [amdgpu]\n"
    who = "[   50.000007] CPU: 3 UID: 0 PID: 4242 Comm: ollama Tainted: P           O       6.12.0 #1\n"
    oops = "[   50.000001] BUG: unable to handle page fault for address: 0000000000000142\n"
    warning = (
        "[   50.000001] WARNING: CPU: 3 PID: 4242 at drivers/gpu/drm/amd/amdgpu/example.c:77 amdgpu_example_free\n"
    )
    (found,) = pasted(oops + who + where).incidents
    assert (found.outcome, found.components) == (OutcomeKind.CRASH, (Component.KERNEL_DRIVER,))
    assert "amdgpu_example_free" in found.explanation and "ollama" in found.detail
    assert pasted(warning + who + where).incidents == ()


def test_an_exit_code_of_64_bits_that_nobody_knows() -> None:
    """LM Studio's rounded code says that the engine ended, even where it is none of Windows' names."""
    (found,) = pasted(
        "(Exit code: 18446744073709515000). Unknown error. Try a different model and/or config.\n"
    ).incidents
    assert (found.outcome, found.signal, found.phase) == (OutcomeKind.ERROR, None, Phase.LOAD)


@pytest.mark.parametrize(
    ("lines", "backend"),
    [
        ("ggml_init_cublas: found 1 CUDA devices:\n  Device 0: NVIDIA GeForce GTX 1070\n", Backend.CUDA),
        ("ggml_init_cublas: found 1 ROCm devices:\n  Device 0: , compute capability 9.0, VMM: no\n", Backend.ROCM),
    ],
)
def test_devices_of_2023(lines: str, backend: Backend) -> None:
    """Builds of 2023 print a card's name alone, or no name at all."""
    (server,) = pasted(lines).servers
    assert [device.backend for device in server.devices] == [backend]


@pytest.mark.parametrize(
    ("lines", "backend"),
    [
        ("CUDA error: no kernel image is available for execution on the device", Backend.UNKNOWN),
        (
            "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
            "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
            Backend.CUDA,
        ),
        ("llama_model_load: error loading model: unable to allocate CUDA_Host buffer", Backend.CUDA),
        ("rocblaslt error: Could not load x\nCUDA error: CUBLAS_STATUS_X when calling `f`", Backend.ROCM),
    ],
)
def test_whose_error_it_is(lines: str, backend: Backend) -> None:
    """PyTorch for ROCm says HIP where PyTorch for CUDA says CUDA; buffers have their backend's name."""
    (found,) = pasted(f"{lines}\n").incidents
    assert found.backend is backend


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        (
            "ERROR 08-08 10:37:45 [engine.py:4] CUDA error: no kernel image is available for execution on the device",
            OutcomeKind.ERROR,
        ),
        (
            "CUDA Error: no kernel image is available for execution on the device /src/ln_fwd.cuh 236",
            OutcomeKind.ERROR,
        ),
        (
            "[TensorRT-LLM][ERROR] CUDA runtime error in cub::f(a, b): no kernel image is available for execution on "
            "the device (/src/a.cu:3)",
            OutcomeKind.ERROR,
        ),
        ("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", OutcomeKind.ERROR),
        ("RuntimeError: HIP error: out of memory", OutcomeKind.OOM),
        ("CUDA error: no kernel image is available for execution on the device", OutcomeKind.ABORT),
    ],
)
def test_exceptions_and_aborts(line: str, outcome: OutcomeKind) -> None:
    """Python's programs raise, and their loggers print the text alone; ggml's own line, which is the same, aborts."""
    (found,) = pasted(f"{line}\n").incidents
    assert found.outcome is outcome


def test_deaths_of_several_days() -> None:
    """A searched log of the kernel: each death is one, and one that stands in two files is the same."""
    deaths = [
        f"Mar  {day} 09:36:48 box kernel: koboldcpp[{pid}]: segfault at 215003fcc ip 00007f78774f9c97 sp "
        "00007f69217f67f0 error 4 in libcuda.so.570.86.15[7f78771cf000+cf9000]\n"
        for day, pid in ((7, 300), (5, 100), (6, 200), (7, 300))
    ]
    found = pasted("".join(deaths)).incidents
    assert [(one.outcome, one.backend) for one in found] == [(OutcomeKind.CRASH, Backend.CUDA)] * 3
