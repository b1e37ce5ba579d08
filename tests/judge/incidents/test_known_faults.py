"""The promise: an incident is named a known issue only where a sign is seen and every condition holds."""

from __future__ import annotations

import io

import pytest

from stillruns.catalogue import load
from stillruns.lab import autopsy
from stillruns.model.autopsy import Incident

AT = "time=2026-03-01T10:00:0{}.000Z level=INFO source="


def _ollama(version: str, device: str, layers: str, model: str, end: str) -> str:
    """One load of Ollama's engine, ready, and how it ended."""
    return f"""\
{AT.format(0)}routes.go:1668 msg="Listening on 127.0.0.1:11434 (version {version})"
{AT.format(1)}types.go:42 msg="inference compute" {device} total="8.0 GiB" available="7.5 GiB"
{AT.format(2)}server.go:431 msg="starting runner" cmd="/bin/ollama runner --ollama-engine --model /m/b --port 40001"
{AT.format(2)}server.go:757 msg="loading model" "model layers"=25 requested=2
{AT.format(3)}ggml.go:136 msg="" architecture={model} file_type=Q8_0 name="" description="" num_tensors=9
{AT.format(3)}ggml.go:494 msg="offloaded 2/25 layers to GPU"
{AT.format(3)}device.go:240 msg="model weights" device={layers} size="112.8 MiB"
{AT.format(4)}server.go:1388 msg="llama runner started in 2.00 seconds"
{end}"""


VEGA_VULKAN = 'id=0 library=Vulkan compute=0.0 name=Vulkan0 description="AMD Radeon RX Vega (RADV VEGA10)" driver=0.0'
VEGA_ROCM = 'id=0 library=ROCm compute=gfx900 name=ROCm0 description="AMD Radeon RX Vega" driver=60342.13'
PASCAL = 'id=0 library=CUDA compute=6.1 name=CUDA0 description="NVIDIA GeForce GTX 1080" driver=13.0'
AMPERE = 'id=0 library=CUDA compute=8.6 name=CUDA0 description="NVIDIA GeForce RTX 3090" driver=13.0'
MI50 = 'id=0 library=ROCm compute=gfx906 name=ROCm0 description="AMD Instinct MI50" driver=60342.13'
SEGV = """\
SIGSEGV: segmentation violation
PC=0x7f0000000001 m=5 sigcode=1 addr=0x3a8000
signal arrived during cgo execution

goroutine 77 gp=0xc000000001 m=5 mp=0xc000000002 [syscall]:
runtime.cgocall(0x1, 0x2)
\truntime/cgocall.go:167 +0x4b
github.com/ollama/ollama/ml/backend/ggml._Cfunc_ggml_backend_sched_graph_compute_async(0x1, 0x2)
\t_cgo_gotypes.go:979 +0x4a
github.com/ollama/ollama/runner/ollamarunner.(*Server).computeBatch(0x1, {0x0, {0x1, 0x2}, {0x3, 0x4}, {0x5, 0xb}})
\tgithub.com/ollama/ollama/runner/ollamarunner/runner.go:716 +0x862
"""


def _cuda_error(what: str, op: str = "SCALE", kind: str = "CUDA") -> str:
    return f"""\
ggml_cuda_compute_forward: {op} failed
{kind} error: {what}
  current device: 0, in function ggml_cuda_compute_forward at /src/ggml/src/ggml-cuda/ggml-cuda.cu:2568
  err
"""


def _llama(build: str, devices: str, end: str, kind: str = "ROCm") -> str:
    """A llama-server that loaded a model and took a prompt."""
    return f"""\
build: {build} (0123abcd) with cc (GCC) 14.2.1 for x86_64-linux-gnu
{devices}llama_model_loader: loaded meta data with 26 key-value pairs and 339 tensors from /m/a.gguf (version GGUF V3)
llama_model_loader: - kv   0:                       general.architecture str              = llama
load_tensors: offloading 32 repeating layers to GPU
load_tensors: offloaded 33/33 layers to GPU
load_tensors:        {kind}0 model buffer size =  4095.05 MiB
llama_context: n_ctx         = 4096
main: server is listening on http://127.0.0.1:8080
slot launch_slot_: id  0 | task 0 | processing task
{end}"""


def _rocm(target: str, card: str = "AMD Radeon Graphics") -> str:
    device = f"  Device 0: {card}, {target}:xnack- (0x900), VMM: no, Wave Size: 64\n"
    return "ggml_cuda_init: found 1 ROCm devices:\n" + device


def _vulkan(driver: str) -> str:
    return (
        "ggml_vulkan: Found 1 Vulkan devices:\n"
        f"ggml_vulkan: 0 = Radeon 8060S Graphics ({driver}) | uma: 1 | fp16: 1 | warp size: 64 | matrix cores: none\n"
    )


def _rocblas(path: str, target: str) -> str:
    file = f"{path}/rocblas/library/TensileLibrary.dat"
    return f"rocBLAS error: Cannot read {file}: No such file for GPU arch : {target}\n"


ASSERT = "/src/ggml/src/ggml-cuda/fattn-common.cuh:900: GGML_ASSERT(max_blocks_per_sm > 0) failed\n"
LOST = """\
terminate called after throwing an instance of 'vk::DeviceLostError'
  what():  vk::Queue::submit: ErrorDeviceLost
"""
RING = "kernel: amdgpu 0000:03:00.0: ring comp_1.1.0 timeout, signaled seq=100, emitted seq=102\n"
FAULT = "Memory access fault by GPU node-1 (Agent handle: 0x55) on address 0x7f00. Reason: Page not present.\n"


def _alloc(size: int) -> str:
    return (
        f"ggml_vulkan: Device memory allocation of size {size} failed.\n"
        f"ggml_gallocr_reserve_n: failed to allocate Vulkan0 buffer of size {size}\n"
        "graph_reserve: failed to allocate compute buffers\n"
    )


CASES = {
    "ollama-qwen35-vulkan-deltanet-set": (
        _ollama("0.17.4", VEGA_VULKAN, "Vulkan0", "qwen35", SEGV),
        {
            "fixed version": _ollama("0.17.5", VEGA_VULKAN, "Vulkan0", "qwen35", SEGV),
            "other backend": _ollama("0.17.4", VEGA_ROCM, "ROCm0", "qwen35", SEGV),
            "other model": _ollama("0.17.4", VEGA_VULKAN, "Vulkan0", "llama", SEGV),
        },
    ),
    "ollama-cuda13-libraries-on-pascal": (
        _ollama(
            "0.11.11",
            PASCAL,
            "CUDA0",
            "llama",
            _cuda_error("no kernel image is available for execution on the device"),
        ),
        {
            "fixed version": _ollama(
                "0.12.0",
                PASCAL,
                "CUDA0",
                "llama",
                _cuda_error("no kernel image is available for execution on the device"),
            ),
            "other card": _ollama(
                "0.11.11",
                AMPERE,
                "CUDA0",
                "llama",
                _cuda_error("no kernel image is available for execution on the device"),
            ),
            "other error": _ollama(
                "0.11.11", PASCAL, "CUDA0", "llama", _cuda_error("an illegal memory access was encountered")
            ),
        },
    ),
    "ollama-gfx906-solve-tri": (
        _ollama("0.20.0", MI50, "ROCm0", "qwen35", _cuda_error("invalid device function", "SOLVE_TRI", "ROCm")),
        {
            "other operation": _ollama(
                "0.20.0", MI50, "ROCm0", "qwen35", _cuda_error("invalid device function", "ADD", "ROCm")
            ),
            "other model": _ollama(
                "0.20.0", MI50, "ROCm0", "llama", _cuda_error("invalid device function", "SOLVE_TRI", "ROCm")
            ),
        },
    ),
    "ollama-gemma4-flash-attention-before-turing": (
        _ollama(
            "0.20.3", PASCAL, "CUDA0", "gemma4", "/src/ggml/src/ggml-cuda/fattn.cu:400: GGML_ASSERT(false) failed\n"
        ),
        {
            "fixed version": _ollama(
                "0.20.4",
                PASCAL,
                "CUDA0",
                "gemma4",
                "/src/ggml/src/ggml-cuda/fattn.cu:400: GGML_ASSERT(false) failed\n",
            ),
            "newer card": _ollama(
                "0.20.3",
                AMPERE,
                "CUDA0",
                "gemma4",
                "/src/ggml/src/ggml-cuda/fattn.cu:400: GGML_ASSERT(false) failed\n",
            ),
        },
    ),
    "cuda-code-newer-than-driver": (
        _ollama("0.30.0", PASCAL, "CUDA0", "llama", _cuda_error("device kernel image is invalid")),
        {"other error": _ollama("0.30.0", PASCAL, "CUDA0", "llama", _cuda_error("unspecified launch failure"))},
    ),
    "rocm-640-rocblas-without-gfx906": (
        _llama("5000", _rocm("gfx906"), _rocblas("/opt/rocm-6.4.0/lib", "gfx906")),
        {
            "other card": _llama("5000", _rocm("gfx1010"), _rocblas("/opt/rocm-6.4.0/lib", "gfx1010")),
            "a bundle's files": _llama("5000", _rocm("gfx906"), _rocblas("/usr/lib/app", "gfx906")),
        },
    ),
    "rocblas-never-shipped-rdna": (
        _llama("5000", _rocm("gfx1010"), _rocblas("/opt/rocm/lib", "gfx1010")),
        {"a card that is shipped": _llama("5000", _rocm("gfx1100"), _rocblas("/opt/rocm/lib", "gfx1100"))},
    ),
    "rocblas-never-shipped-vega-apu": (
        _llama("5000", _rocm("gfx90c"), _rocblas("/opt/rocm/lib", "gfx90c")),
        {
            "a card of the same code that was shipped": _llama(
                "5000", _rocm("gfx900"), _rocblas("/usr/lib/app", "gfx900")
            )
        },
    ),
    "rocm-640-rocblas-without-gfx900": (
        _llama("5000", _rocm("gfx900"), _rocblas("/opt/rocm-6.4.0/lib", "gfx900")),
        {
            "other card": _llama("5000", _rocm("gfx1010"), _rocblas("/opt/rocm-6.4.0/lib", "gfx1010")),
            "a bundle's files": _llama("5000", _rocm("gfx900"), _rocblas("/usr/lib/app", "gfx900")),
        },
    ),
    "rocblas-gone-gfx803": (
        _llama("5000", _rocm("gfx803"), _rocblas("/opt/rocm/lib", "gfx803")),
        {"other card": _llama("5000", _rocm("gfx900"), _rocblas("/opt/rocm/lib", "gfx900"))},
    ),
    "llama-cpp-rdna2-flash-attention-occupancy": (
        _llama("10591", _rocm("gfx1030"), ASSERT),
        {
            "other card": _llama("10591", _rocm("gfx1201"), ASSERT),
            "other assertion": _llama("10591", _rocm("gfx1030"), ASSERT.replace("max_blocks_per_sm > 0", "n > 0")),
        },
    ),
    "llama-cpp-b4819-rocm-flash-attention-fault": (
        _llama("4819", _rocm("gfx906"), FAULT),
        {
            "newer build": _llama("4900", _rocm("gfx906"), FAULT),
            "older build": _llama("4818", _rocm("gfx906"), FAULT),
            "other card": _llama("4819", _rocm("gfx1100"), FAULT),
        },
    ),
    "vulkan-amdgpu-job-timeout": (
        _llama("9000", _vulkan("radv"), RING + LOST, "Vulkan"),
        {
            "no ring": _llama("9000", _vulkan("radv"), LOST, "Vulkan"),
            "other backend": _llama("9000", _rocm("gfx1151"), RING + FAULT),
        },
    ),
    "amdvlk-single-allocation-limit": (
        _llama("6060", _vulkan("AMD open-source driver"), _alloc(2300000000), "Vulkan"),
        {
            "RADV": _llama("6060", _vulkan("radv"), _alloc(2300000000), "Vulkan"),
            "small": _llama("6060", _vulkan("AMD open-source driver"), _alloc(268435456), "Vulkan"),
        },
    ),
    "llama-cpp-vulkan-no-rebar-b3831": (
        _llama("3831", _vulkan("AMD proprietary driver"), _alloc(268435456), "Vulkan"),
        {
            "before": _llama("3830", _vulkan("AMD proprietary driver"), _alloc(268435456), "Vulkan"),
            "long after": _llama("6060", _vulkan("AMD proprietary driver"), _alloc(268435456), "Vulkan"),
        },
    ),
    "ollama-vulkan-qwen25vl": (
        _ollama("0.12.11", VEGA_VULKAN, "Vulkan0", "qwen25vl", SEGV),
        {
            "other version": _ollama("0.13.0", VEGA_VULKAN, "Vulkan0", "qwen25vl", SEGV),
            "other model": _ollama("0.12.11", VEGA_VULKAN, "Vulkan0", "qwen3vl", SEGV),
        },
    ),
    "ollama-rocm-0115-invalid-device-function": (
        _ollama(
            "0.11.5",
            'id=0 library=rocm compute=gfx1100 name=0 description="RX 7900 XTX" driver=6.7',
            "ROCm0",
            "llama",
            _cuda_error("invalid device function", "MUL_MAT", "ROCm"),
        ),
        {
            "older": _ollama(
                "0.11.4",
                'id=0 library=rocm compute=gfx1100 name=0 description="RX 7900 XTX" driver=6.7',
                "ROCm0",
                "llama",
                _cuda_error("invalid device function", "MUL_MAT", "ROCm"),
            )
        },
    ),
}


def incidents(text: str) -> tuple[Incident, ...]:
    """The incidents of one log."""
    return autopsy.perform(("-",), io.BytesIO(text.encode())).incidents


@pytest.mark.parametrize("name", CASES)
def test_named_where_everything_fits(name: str) -> None:
    """Version, backend, target, model and the deciding line fit: the incident carries the issue's id."""
    (found,) = incidents(CASES[name][0])
    assert name in found.known_issues
    issue = next(i for i in load.known_issues() if i.id == name)
    assert issue.title in found.explanation
    assert not issue.fixed_in or found.next_step.startswith(f"Use {issue.fixed_in} or newer.")


@pytest.mark.parametrize(("name", "other"), [(name, other) for name in CASES for other in CASES[name][1]])
def test_not_named_where_one_condition_fails(name: str, other: str) -> None:
    """One thing is different: it is not that issue, nor said to be possible."""
    (found,) = incidents(CASES[name][1][other])
    assert name not in found.known_issues
    assert name not in dict(found.why_unknown).get("known_issues", "")


def test_what_the_log_does_not_tell_is_said() -> None:
    """Without the version line the issue is not named, but the reader learns what to look up."""
    whole = CASES["cuda-code-newer-than-driver"][0]
    assert incidents(whole)[0].known_issues
    text = CASES["llama-cpp-rdna2-flash-attention-occupancy"][0]
    cut = "".join(line for line in text.splitlines(True) if "Device 0" not in line)
    (found,) = incidents(cut)
    assert found.known_issues == ()
    assert "rdna2" in dict(found.why_unknown)["known_issues"]
    assert "the target" in dict(found.why_unknown)["known_issues"]


def test_every_issue_with_signs_has_a_case_or_a_reason() -> None:
    """An entry that can be named has a log here that names it."""
    elsewhere = {
        "llama-cpp-second-interrupt-abort": "test_second_interrupt",
        "ollama-rocm-without-gfx900-gfx906": "test_discovery_without_code",
        "ollama-vulkan-context-shift": "test_context_shift",
        "ollama-rocm7-driver-too-old": "test_probe_that_times_out",
        "refuted-override-1030-on-vega": "test_refuted_override",
        "vllm-no-code-for-pascal": "test_vllm_on_pascal",
    }
    signed = {i.id for i in load.known_issues() if i.signatures or i.patterns or i.lines or i.frames}
    assert signed == {*CASES, *elsewhere}


def test_second_interrupt() -> None:
    """The abort after a second stop signal is none of the GPU's."""
    text = _llama("10434", _rocm("gfx906"), "Received second interrupt, terminating immediately.\n")
    (found,) = incidents(text + "terminate called without an active exception\n")
    assert found.known_issues == ("llama-cpp-second-interrupt-abort",)


def test_discovery_without_code() -> None:
    """rocBLAS refuses gfx906 in the probe of an Ollama that left the target out; the release before had it."""
    text = f"""\
{AT.format(0)}routes.go:1668 msg="Listening on 127.0.0.1:11434 (version 0.12.5)"
{AT.format(1)}server.go:431 msg="starting runner" cmd="/usr/bin/ollama runner --ollama-engine --port 40001"
{_rocblas("/usr/lib/ollama/rocm", "gfx906")}{AT.format(2)}runner.go:464 msg="failure during GPU discovery" \
OLLAMA_LIBRARY_PATH="[/usr/lib/ollama /usr/lib/ollama/rocm]" error="runner crashed"
{AT.format(3)}types.go:60 msg="inference compute" id=cpu library=cpu compute="" name=cpu total="32.0 GiB"
"""
    (found,) = incidents(text)
    assert found.known_issues == ("ollama-rocm-without-gfx900-gfx906",)
    (before,) = incidents(text.replace("0.12.5", "0.12.3"))
    assert before.known_issues == ()


def test_probe_that_times_out() -> None:
    """ROCm's probe hangs: named where the line says which library; without it only possible."""
    text = f"""\
{AT.format(0)}routes.go:1668 msg="Listening on 127.0.0.1:11434 (version 0.30.0)"
{AT.format(2)}runner.go:464 msg="failure during GPU discovery" OLLAMA_LIBRARY_PATH="[/usr/lib/ollama/rocm]" \
error="failed to finish discovery before timeout"
"""
    (found,) = incidents(text)
    assert (found.outcome, found.phase.value) == (None, "discover")
    assert found.known_issues == ("ollama-rocm7-driver-too-old",)
    (untold,) = incidents(text.replace("/rocm]", "]"))
    assert "the backend" in dict(untold.why_unknown)["known_issues"]
    cpu = f'{AT.format(3)}types.go:60 msg="inference compute" id=cpu library=cpu name=cpu total="32.0 GiB"\n'
    (fell,) = incidents(text + cpu)
    assert fell.known_issues == ("ollama-rocm7-driver-too-old",)
    (other,) = incidents((text + cpu).replace("/rocm]", "/vulkan]"))
    assert other.known_issues == ()
    gpu = f'{AT.format(3)}types.go:42 msg="inference compute" {VEGA_VULKAN} total="8.0 GiB"\n'
    assert incidents(text + gpu) == ()


def test_context_shift() -> None:
    """The shift before the access violation, on Vulkan and in that release."""
    end = f"""\
{AT.format(5).replace("INFO", "DEBUG")}cache.go:286 msg="context limit hit - shifting" id=0 limit=4096 input=4096
Exception 0xc0000005 0x8 0x1f0 0x7ff800000000
PC=0x7ff800000000
signal arrived during external code execution
"""
    text = _ollama("0.14.2", VEGA_VULKAN, "Vulkan0", "qwen3", end)
    (found,) = incidents(text)
    assert found.known_issues == ("ollama-vulkan-context-shift",)
    (later,) = incidents(text.replace("0.14.2", "0.15.0"))
    assert later.known_issues == ()


def test_refuted_override() -> None:
    """10.3.0 on a Vega that the log names: the refuted advice is named; on a card that it fits it is not."""
    override = "HSA_OVERRIDE_GFX_VERSION=10.3.0 ./llama-server -m /m/a.gguf -ngl 9\n"
    text = override + _llama(
        "5000", _rocm("gfx1030", "Radeon RX Vega 56"), _cuda_error("invalid device function", "ADD", "ROCm")
    )
    (found,) = incidents(text)
    assert found.target == "gfx900"
    assert found.known_issues == ("refuted-override-1030-on-vega",)
    (fits,) = incidents(text.replace("Radeon RX Vega 56", "AMD Radeon RX 6700 XT"))
    assert fits.known_issues == ()
    served = f"""\
{AT.format(0)}routes.go:1600 msg="server config" env="map[HSA_OVERRIDE_GFX_VERSION:10.3.0 OLLAMA_DEBUG:false]"
"""
    rocm = 'id=0 library=ROCm compute=gfx1030 name=ROCm0 description="Radeon RX Vega 64" driver=60342.13'
    error = _cuda_error("invalid device function", "ADD", "ROCm")
    (of_ollama,) = incidents(served + _ollama("0.12.0", rocm, "ROCm0", "llama", error))
    assert of_ollama.known_issues == ("refuted-override-1030-on-vega",)


def test_vllm_on_pascal() -> None:
    """The wheel has no code for the card; without a line that names the card it is only possible."""
    text = """\
INFO 06-12 10:00:00 [__init__.py:244] Automatically detected platform cuda.
INFO 06-12 10:00:01 [api_server.py:1287] vLLM API server version 0.9.1
ERROR 06-12 10:00:09 [core.py:515] RuntimeError: CUDA error: no kernel image is available for execution on the device
"""
    (found,) = incidents(text)
    assert found.known_issues == ()
    assert "vllm-no-code-for-pascal" in dict(found.why_unknown)["known_issues"]
