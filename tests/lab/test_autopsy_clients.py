"""The promise: programs that carry llama.cpp inside them, other backends and Windows' forms are read as well: at
least how it ended, in which phase, on which backend, and who may be at fault."""

from __future__ import annotations

import io
from dataclasses import dataclass

import pytest

from stillruns.lab import autopsy
from stillruns.model.backend import Backend
from stillruns.model.component import Component
from stillruns.model.outcome import OutcomeKind
from stillruns.model.phase import Phase


@dataclass(frozen=True)
class Case:
    """A log of its form with values of its own, and what it tells. `component` is the likeliest candidate."""

    outcome: OutcomeKind
    signal: str | None
    phase: Phase
    backend: Backend
    component: Component
    program: str
    log: str


CASES = {
    "LM Studio on Vulkan loses the device": Case(
        OutcomeKind.DEVICE_LOST,
        None,
        Phase.UNKNOWN,
        Backend.VULKAN,
        Component.KERNEL_DRIVER,
        "LM Studio",
        (
            "2026-01-21 18:19:40 [DEBUG]\n"
            " load_backend: loaded Vulkan backend from "
            "C:\\Users\\u\\.lmstudio\\extensions\\backends\\ggml-vulkan.dll\n"
            "2026-01-21 18:19:40 [DEBUG]\n"
            " llama_model_load_from_file_impl: using device Vulkan0 (AMD Radeon RX 580 Series) "
            "(0000:03:00.0) - 7900 MiB free\n"
            "2026-01-21 18:19:44 [DEBUG]\n"
            " load_tensors: offloaded 20/33 layers to GPU\n"
            "2026-01-21 18:19:50 [DEBUG]\n"
            " [LLM Engine bindings] PredictWorker::Execute - caught exception: "
            "vk::Device::waitForFences: ErrorDeviceLost\n"
            "2026-01-21 18:19:50 [DEBUG]\n"
            " [lmstudio-llama-cpp] Error in predictTokens: vk::Device::waitForFences: ErrorDeviceLost\n"
        ),
    ),
    "LM Studio's loads, with a level before each text": Case(
        OutcomeKind.OOM,
        None,
        Phase.LOAD,
        Backend.VULKAN,
        Component.VULKAN_DRIVER,
        "LM Studio",
        (
            "[2026-01-14 11:07:45][DEBUG] ggml_vulkan: Found 1 Vulkan devices:\n"
            "[2026-01-14 11:07:45][DEBUG] ggml_vulkan: 0 = AMD Radeon RX 580 Series (AMD proprietary "
            "driver) | uma: 0 | fp16: 0 | warp size: 64 | shared memory: 32768 | int dot: 0 | matrix "
            "cores: none\n"
            "[2026-01-14 11:07:46][DEBUG] llama_model_load_from_file_impl: using device Vulkan0 (AMD "
            "Radeon RX 580 Series) (0000:03:00.0) - 7900 MiB free\n"
            "[2026-01-14 11:07:46][DEBUG] load_tensors: loading model tensors, this can take a "
            "while... (mmap = true)\n"
            "[2026-01-14 11:07:48][DEBUG] ggml_vulkan: Device memory allocation of size 1059303232 failed.\n"
            "ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory\n"
            "alloc_tensor_range: failed to allocate Vulkan0 buffer of size 1059303232\n"
            "[2026-01-14 11:07:48][DEBUG] llama_model_load: error loading model: unable to allocate "
            "Vulkan0 buffer\n"
            "[2026-01-14 11:07:48][ERROR] [LM Studio] Failed to load model. Error: error loading "
            "model: unable to allocate Vulkan0 buffer\n"
        ),
    ),
    "LM Studio's prompt without rocBLAS files": Case(
        OutcomeKind.ABORT,
        None,
        Phase.PROMPT,
        Backend.ROCM,
        Component.ROCBLAS,
        "LM Studio",
        (
            "[2026-01-08 20:56:30][DEBUG] ggml_cuda_init: found 1 ROCm devices:\n"
            "  Device 0: AMD Radeon RX 5700 XT, gfx1010:xnack- (0x1010), VMM: no, Wave Size: 32\n"
            "[2026-01-08 20:56:32][DEBUG] Total prompt tokens: 9\n"
            "Prompt tokens to decode: 9\n"
            "BeginProcessingPrompt\n"
            "[2026-01-08 20:56:32][DEBUG] \n"
            "rocBLAS error: Cannot read "
            "/home/u/.lmstudio/extensions/backends/vendor/linux-llama-rocm-vendor-v3/rocblas/library/Te"
            "nsileLibrary.dat: Illegal seek for GPU arch : gfx1010\n"
            " List of available TensileLibrary Files :\n"
            "[2026-01-08 20:56:32][DEBUG] "
            '"/home/u/.lmstudio/extensions/backends/vendor/linux-llama-rocm-vendor-v3/rocblas/library/T'
            'ensileLibrary_lazy_gfx1100.dat"\n'
        ),
    ),
    "LM Studio's rounded code": Case(
        OutcomeKind.CRASH,
        "0xc0000409",
        Phase.UNKNOWN,
        Backend.UNKNOWN,
        Component.UNKNOWN,
        "",
        (
            "[2026-01-08 20:56:30][ERROR] The model has crashed without additional information. (Exit "
            "code: 18446744072635812000)\n"
        ),
    ),
    "LM Studio without a code": Case(
        OutcomeKind.ERROR,
        None,
        Phase.UNKNOWN,
        Backend.UNKNOWN,
        Component.UNKNOWN,
        "",
        ("[2026-01-08 20:56:30][ERROR] The model has crashed without additional information. (Exit code: null)\n"),
    ),
    "koboldcpp without code for the card": Case(
        OutcomeKind.ABORT,
        None,
        Phase.PROMPT,
        Backend.CUDA,
        Component.CONFIGURATION,
        "koboldcpp",
        (
            "***\n"
            "Welcome to KoboldCpp - Version 1.84.2\n"
            "For command line arguments, please refer to --help\n"
            "***\n"
            "Auto Selected CUDA Backend...\n"
            "Initializing dynamic library: koboldcpp_cublas.dll\n"
            "==========\n"
            "ggml_cuda_init: found 1 CUDA devices:\n"
            "  Device 0: Tesla K80, compute capability 3.7, VMM: yes\n"
            "load_tensors: offloaded 33/33 layers to GPU\n"
            "load_tensors:        CUDA0 model buffer size =  4095.05 MiB\n"
            "llama_init_from_model: n_ctx         = 4224\n"
            "Load Text Model OK: True\n"
            "Starting Kobold API on port 5001 at http://localhost:5001/api/\n"
            "Processing Prompt (25 / 25 tokens)\n"
            "ggml_cuda_compute_forward: ADD failed\n"
            "CUDA error: no kernel image is available for execution on the device\n"
            "  current device: 0, in function ggml_cuda_compute_forward at "
            "d:\\a\\koboldcpp\\ggml\\src\\ggml-cuda\\ggml-cuda.cu:2325\n"
            "  err\n"
            "d:\\a\\koboldcpp\\ggml\\src\\ggml-cuda\\ggml-cuda.cu:75: CUDA error\n"
        ),
    ),
    "koboldcpp dies in the load": Case(
        OutcomeKind.CRASH,
        "0xc0000005",
        Phase.LOAD,
        Backend.VULKAN,
        Component.VULKAN_DRIVER,
        "koboldcpp",
        (
            "***\n"
            "Welcome to KoboldCpp - Version 1.82.4\n"
            "***\n"
            "Initializing dynamic library: koboldcpp_vulkan.dll\n"
            "ggml_vulkan: Found 1 Vulkan devices:\n"
            "ggml_vulkan: 0 = AMD Radeon RX 6600 XT (AMD proprietary driver) | uma: 0 | fp16: 1 | warp "
            "size: 32 | matrix cores: none\n"
            "llama_model_load_from_file_impl: using device Vulkan0 (AMD Radeon RX 6600 XT) - 7920 MiB free\n"
            "load_tensors: loading model tensors, this can take a while... (mmap = true)\n"
            "Traceback (most recent call last):\n"
            '  File "koboldcpp.py", line 5338, in <module>\n'
            '  File "koboldcpp.py", line 1064, in load_model\n'
            "OSError: exception: access violation reading 0x0000000000000018\n"
            "[12345] Failed to execute script 'koboldcpp' due to unhandled exception!\n"
        ),
    ),
    "koboldcpp dies in the prompt after a shift": Case(
        OutcomeKind.CRASH,
        "0xc0000005",
        Phase.PROMPT,
        Backend.VULKAN,
        Component.VULKAN_DRIVER,
        "koboldcpp",
        (
            "Welcome to KoboldCpp - Version 1.111.2\n"
            "Initializing dynamic library: koboldcpp_vulkan.dll\n"
            "ggml_vulkan: 0 = AMD Radeon RX 6600 XT (AMD proprietary driver) | uma: 0 | fp16: 1 | warp "
            "size: 32 | matrix cores: none\n"
            "load_tensors: offloaded 33/33 layers to GPU\n"
            "load_tensors:      Vulkan0 model buffer size =  4095.05 MiB\n"
            "Load Text Model OK: True\n"
            "[Context Shifting: Erased 106 tokens at position 9339]\n"
            "Processing Prompt [BATCH] (431 / 431 tokens)exception: access violation reading "
            "0x0000000000000010\n"
        ),
    ),
    "koboldcpp loses the device while it generates": Case(
        OutcomeKind.DEVICE_LOST,
        "SIGABRT",
        Phase.DECODE,
        Backend.VULKAN,
        Component.KERNEL_DRIVER,
        "koboldcpp",
        (
            "Welcome to KoboldCpp - Version 1.91\n"
            "Initializing dynamic library: koboldcpp_vulkan.so\n"
            "ggml_vulkan: 0 = AMD Radeon RX 580 Series (RADV POLARIS10) (radv) | uma: 0 | fp16: 0 | "
            "warp size: 64 | matrix cores: none\n"
            "Load Text Model OK: True\n"
            "Processing Prompt (25 / 25 tokens)\n"
            "Generating (12 / 120 tokens)terminate called after throwing an instance of 'vk::DeviceLostError'\n"
            "  what():  vk::Queue::submit: ErrorDeviceLost\n"
            "Aborted (core dumped)\n"
        ),
    ),
    "koboldcpp finds no memory": Case(
        OutcomeKind.OOM,
        None,
        Phase.LOAD,
        Backend.CUDA,
        Component.CONFIGURATION,
        "koboldcpp",
        (
            "Welcome to KoboldCpp - Version 1.108.2\n"
            "Initializing dynamic library: koboldcpp_cublas.dll\n"
            "ggml_cuda_init: found 1 CUDA devices:\n"
            "  Device 0: NVIDIA GeForce GTX 1070, compute capability 6.1, VMM: yes\n"
            "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 7825.94 MiB on device 0: "
            "cudaMalloc failed: out of memory\n"
            "alloc_tensor_range: failed to allocate CUDA0 buffer of size 8206000000\n"
            "llama_model_load: error loading model: unable to allocate CUDA0 buffer\n"
            "gpttype_load_model: error: failed to load model 'D:\\m.gguf'\n"
            "Load Text Model OK: False\n"
            "Error: Could not load text model: D:\\m.gguf\n"
        ),
    ),
    "llama-cpp-python on Windows": Case(
        OutcomeKind.CRASH,
        "0xc0000005",
        Phase.UNKNOWN,
        Backend.VULKAN,
        Component.VULKAN_DRIVER,
        "",
        (
            "llama_model_loader: loaded meta data with 26 key-value pairs and 339 tensors from "
            "/m/a.gguf (version GGUF V3 (latest))\n"
            "llm_load_tensors: offloading 32 repeating layers to GPU\n"
            "llm_load_tensors: offloaded 33/33 layers to GPU\n"
            "ggml_vulkan: Found 1 Vulkan devices:\n"
            "Vulkan0: Radeon RX 580 Series (AMD proprietary driver) | uma: 0 | fp16: 0 | warp size: 64\n"
            "Traceback (most recent call last):\n"
            '  File "C:\\app\\main.py", line 4, in <module>\n'
            '    llm = Llama(model_path="a.gguf", n_gpu_layers=-1)\n'
            '  File "C:\\py\\site-packages\\llama_cpp\\llama.py", line 371, in __init__\n'
            "    _LlamaModel(\n"
            "OSError: exception: access violation reading 0x0000000000000000\n"
        ),
    ),
    "llama-cpp-python finds no memory for the context": Case(
        OutcomeKind.OOM,
        None,
        Phase.RESERVE,
        Backend.ROCM,
        Component.CONFIGURATION,
        "",
        (
            "ggml_cuda_init: found 1 ROCm devices:\n"
            "  Device 0: AMD Radeon RX Vega, gfx900:xnack- (0x900), VMM: no, Wave Size: 64\n"
            "llama_model_load_from_file_impl: using device ROCm0 (AMD Radeon RX Vega) - 7900 MiB free\n"
            "load_tensors: offloaded 33/33 layers to GPU\n"
            "load_tensors:        ROCm0 model buffer size =  4095.05 MiB\n"
            "llama_context: n_ctx         = 131072\n"
            "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 16384.00 MiB on device 0: "
            "cudaMalloc failed: out of memory\n"
            "alloc_tensor_range: failed to allocate ROCm0 buffer of size 17179869184\n"
            "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache\n"
            "Traceback (most recent call last):\n"
            '  File "/app/main.py", line 4, in <module>\n'
            '    llm = Llama(model_path="a.gguf", n_gpu_layers=-1)\n'
            "ValueError: Failed to create llama_context\n"
        ),
    ),
    "SYCL loses the device": Case(
        OutcomeKind.DEVICE_LOST,
        None,
        Phase.PROMPT,
        Backend.SYCL,
        Component.KERNEL_DRIVER,
        "llama-server",
        (
            "build: 4700 (0123abcd) with Intel(R) oneAPI DPC++/C++ Compiler\n"
            "Found 1 SYCL devices:\n"
            "| 0| [level_zero:gpu:0]|                Intel Arc A770 Graphics|   12.55|    512|    "
            "1024|   32| 16225M|            1.3.29735|\n"
            "load_tensors: offloaded 33/33 layers to GPU\n"
            "load_tensors:        SYCL0 model buffer size =  4095.05 MiB\n"
            "main: server is listening on http://127.0.0.1:8080 - starting the main loop\n"
            "slot launch_slot_: id  3 | task 0 | processing task, is_child = 0\n"
            "slot update_slots: id  3 | task 0 | new prompt, n_ctx_slot = 4096, n_keep = 0, "
            "task.n_tokens = 30\n"
            "level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)\n"
            "Exception caught at file:/usr/src/llama.cpp/ggml/src/ggml-sycl/ggml-sycl.cpp, line:704, "
            "func:operator()\n"
            "SYCL error: CHECK_TRY_ERROR(q_dst.memcpy(ptr_dst, ptr_src, size).wait()): Exception "
            "caught in this line of code.\n"
            "  in function dev2dev_memcpy at /usr/src/llama.cpp/ggml/src/ggml-sycl/ggml-sycl.cpp:704\n"
            "/usr/src/llama.cpp/ggml/src/ggml-sycl/../ggml-sycl/common.hpp:155: SYCL error\n"
        ),
    ),
    "SYCL's native error": Case(
        OutcomeKind.DEVICE_LOST,
        None,
        Phase.INIT,
        Backend.SYCL,
        Component.KERNEL_DRIVER,
        "",
        (
            "Found 1 SYCL devices:\n"
            "main: llama backend init\n"
            "Native API failed. Native API returns: 20 (UR_RESULT_ERROR_DEVICE_LOST)\n"
            "Exception caught at file:D:/a/ggml-sycl.cpp, line:3000\n"
        ),
    ),
    "Metal finds no memory": Case(
        OutcomeKind.OOM,
        None,
        Phase.PROMPT,
        Backend.METAL,
        Component.CONFIGURATION,
        "llama-server",
        (
            "ggml_metal_device_init: GPU name:   Apple M1\n"
            "load_tensors: offloaded 33/33 layers to GPU\n"
            "load_tensors: Metal model buffer size =  4095.05 MiB\n"
            "main: server is listening on http://127.0.0.1:8080\n"
            "slot launch_slot_: id  0 | task 0 | processing task\n"
            "slot update_slots: id  0 | task 0 | new prompt, n_ctx_slot = 4096, n_keep = 0, "
            "n_prompt_tokens = 30\n"
            "ggml_metal_synchronize: error: command buffer 0 failed with status 5\n"
            "error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)\n"
            "llama_decode: failed to decode, ret = -3\n"
        ),
    ),
    "a PowerShell that prints the code": Case(
        OutcomeKind.CRASH,
        "0xc0000005",
        Phase.LOAD,
        Backend.VULKAN,
        Component.VULKAN_DRIVER,
        "",
        (
            "build: 6936 (0123abcd) with clang version 19.1.5 for x86_64-pc-windows-msvc\n"
            "load_backend: loaded Vulkan backend from C:\\llama\\ggml-vulkan.dll\n"
            "ggml_vulkan: 0 = AMD Radeon RX 7900 XT (AMD proprietary driver) | uma: 0 | fp16: 1 | warp "
            "size: 64 | matrix cores: KHR_coopmat\n"
            "load_tensors: loading model tensors, this can take a while... (mmap = true)\n"
            "load_tensors: offloaded 30/49 layers to GPU\n"
            "load_tensors:      Vulkan0 model buffer size = 10000.00 MiB\n"
            "PS C:\\llama> echo $LASTEXITCODE\n"
            "-1073741819\n"
        ),
    ),
    "Windows' event log": Case(
        OutcomeKind.CRASH,
        "0xc0000005",
        Phase.UNKNOWN,
        Backend.UNKNOWN,
        Component.VULKAN_DRIVER,
        "",
        (
            "Faulting application name: llama-server.exe, version: 0.0.0.0, time stamp: 0x690\n"
            "Faulting module name: amdvlk64.dll, version: 2.0.353.0, time stamp: 0x68f\n"
            "Exception code: 0xc0000005\n"
            "Fault offset: 0x0000000000abcdef\n"
        ),
    ),
    "vLLM without code for the card": Case(
        OutcomeKind.ERROR,
        None,
        Phase.LOAD,
        Backend.ROCM,
        Component.CONFIGURATION,
        "vllm",
        (
            "INFO 03-07 01:19:00 [__init__.py:244] Automatically detected platform rocm.\n"
            "INFO 03-07 01:19:01 [api_server.py:1287] vLLM API server version 0.9.1\n"
            "INFO 03-07 01:19:02 [gpu_model_runner.py:1595] Starting to load model /m/x...\n"
            "INFO 03-07 01:19:12 [default_loader.py:272] Loading weights took 5.0 seconds\n"
            "(EngineCore_0 pid=100) ERROR 03-07 01:19:24 [core.py:586] RuntimeError: HIP error: "
            "invalid device function\n"
            "(EngineCore_0 pid=100) ERROR 03-07 01:19:24 [core.py:586] HIP kernel errors might be "
            "asynchronously reported at some other API call\n"
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
        ),
    ),
    "vLLM refuses the type": Case(
        OutcomeKind.ERROR,
        None,
        Phase.INIT,
        Backend.CUDA,
        Component.VLLM,
        "vllm",
        (
            "INFO 04-29 21:35:50 [__init__.py:239] Automatically detected platform cuda.\n"
            "INFO 04-29 21:35:52 [api_server.py:1043] vLLM API server version 0.8.1\n"
            "ERROR 04-29 21:35:55 [engine.py:448] Bfloat16 is only supported on GPUs with compute "
            "capability of at least 8.0. Your Tesla P40 GPU has compute capability 6.1. You can use "
            "float16 instead by explicitly setting the `dtype` flag in CLI, for example: --dtype=half.\n"
            "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. "
            "Your Tesla P40 GPU has compute capability 6.1.\n"
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_other_programs_and_backends(name: str) -> None:
    """Outcome, signal, phase, backend and the first candidate, each from the log's own lines."""
    case = CASES[name]
    found = autopsy.perform(("-",), io.BytesIO(case.log.encode()))
    (incident,) = found.incidents
    assert (incident.outcome, incident.signal) == (case.outcome, case.signal)
    assert (incident.phase, incident.backend) == (case.phase, case.backend)
    assert incident.components[0] is case.component
    assert found.servers[0].program == case.program
    assert (incident.phase is Phase.UNKNOWN) == ("phase" in dict(incident.why_unknown))


def test_a_start_that_went_on_after_an_exception_is_none() -> None:
    """vLLM prints an exception on its way and becomes ready all the same."""
    log = (
        "INFO 04-29 21:35:52 [api_server.py:1043] vLLM API server version 0.8.1\n"
        "ImportError: an optional part is missing\n"
        "INFO:     Application startup complete.\n"
    )
    assert autopsy.perform(("-",), io.BytesIO(log.encode())).incidents == ()


def test_words_of_a_folder_of_documents_are_no_program() -> None:
    """A title in brackets and a number are no LM Studio line."""
    log = "[2026-01-08 20:56:30] [DEBUG] Segmentation\n-1073741000\n exception: access violation\n"
    assert autopsy.perform(("-",), io.BytesIO(log.encode())).incidents == ()
