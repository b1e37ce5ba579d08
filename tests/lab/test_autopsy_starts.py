"""The promise: a program that could not start, or that lives on without its GPU, is told as that, with its reason."""

from __future__ import annotations

import io

import pytest

from stillruns.lab import autopsy
from stillruns.model.autopsy import Incident
from stillruns.model.backend import Backend
from stillruns.model.component import Component
from stillruns.model.outcome import OutcomeKind
from stillruns.model.phase import Phase
from stillruns.report import autopsy_text

SYMBOL = "llama-server: symbol lookup error: /opt/l/libllama.so.0: undefined symbol: ggml_fixture"
REFUSED = {
    "version": "./llama-server: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by x.so)",
    "plain quotes": "llama-server: /lib/libm.so.6: version 'GLIBC_2.38' not found (required by llama-server)",
    "library": "x: error while loading shared libraries: libcudart.so.13: cannot open shared object file: No such",
    "class": "x: error while loading shared libraries: libcuda.so.1: wrong ELF class: ELFCLASS32",
    "symbol": SYMBOL,
    "relocation": "x: relocation error: x: symbol foo version V_2 not defined in file libc.so.6 with link time",
    "musl": "Error relocating /app/llama-server: _ZNSt7fixtureEv: symbol not found",
    "dyld": "dyld[12]: Symbol not found: _ggml_fixture",
    "kernel": "bash: ./llama-server: cannot execute binary file: Exec format error",
    "systemd": "ollama.service: Failed at step EXEC spawning /usr/bin/ollama: Exec format error",
    "python": "ImportError: libcudart.so.13: cannot open shared object file: No such file or directory",
    "ctypes": "OSError: /lib/libc.so.6: version `GLIBC_2.38' not found (required by /v/llama_cpp/lib/libllama.so)",
}


def one(text: str) -> Incident:
    """The only incident of a log."""
    found = autopsy.perform(("-",), io.BytesIO(text.encode()))
    assert len(found.incidents) == 1, [i.explanation for i in found.incidents]
    return found.incidents[0]


@pytest.mark.parametrize("line", REFUSED.values(), ids=REFUSED)
def test_a_program_that_cannot_start(line: str) -> None:
    """One line is all that it prints: an error at its start, of the configuration, that line quoted, with advice."""
    incident = one(line + "\n")
    assert incident.outcome is OutcomeKind.ERROR
    assert incident.phase is Phase.INIT
    assert Component.CONFIGURATION in incident.components
    assert incident.key_line is not None and incident.key_line.text == line
    assert incident.next_step and "No line" not in incident.explanation


def test_a_symbol_that_is_looked_up_late() -> None:
    """The loader binds functions when they are first called: the phase is that of the lines before."""
    before = (
        "0.00.037.886 I cmn  common_param: verbosity = 3\n0.00.039.417 I srv    load_model: loading model '/q.gguf'\n"
    )
    assert one(before + SYMBOL + "\n").phase is Phase.LOAD


def test_a_refused_tool_beside_a_healthy_server() -> None:
    """A tool of the same paste that the loader refused is no incident of the server that went on to answer."""
    text = """rocminfo: error while loading shared libraries: libhsa-runtime64.so.1: cannot open shared object file
$ ./llama-server -m q.gguf -ngl 99
load_tensors: offloaded 29/29 layers to GPU
main: server is listening on http://127.0.0.1:8080 - starting the main loop
prompt eval time =     100.00 ms /    10 tokens (   10.00 ms per token,   100.00 tokens per second)
       eval time =     500.00 ms /    50 tokens (   10.00 ms per token,   100.00 tokens per second)
"""
    assert autopsy.perform(("-",), io.BytesIO(text.encode())).incidents == ()


PROBE = """time=2026-01-05T10:00:00.000+01:00 level=INFO source=routes.go:1544 msg="Listening on 127.0.0.1:11434"
time=2026-01-05T10:00:00.200+01:00 level=INFO source=server.go:392 msg="starting runner" cmd="ollama runner --port 1"
rocBLAS error: Cannot read /l/rocblas/library/TensileLibrary.dat: No such file or directory for GPU arch : gfx803
time=2026-01-05T10:00:01.200+01:00 level=INFO source=runner.go:464 msg="failure during GPU discovery" \
OLLAMA_LIBRARY_PATH="[/l /l/rocm]" extra_envs=map[] error="runner crashed"
time=2026-01-05T10:00:02.000+01:00 level=INFO source=types.go:60 msg="inference compute" id=cpu library=cpu \
compute="" name=cpu description=cpu libdirs=ollama driver="" pci_id="" type="" total="31.2 GiB" available="28.0 GiB"
"""


def test_a_fallback_has_the_reason_that_its_probe_printed() -> None:
    """rocBLAS's line is of the probe that died: outcome ok (the server lives), it is the reason, its target
    counts, and nobody is said to have ended."""
    incident = one(PROBE)
    assert (incident.outcome, incident.phase, incident.target) == (OutcomeKind.OK, Phase.DISCOVER, "gfx803")
    assert incident.key_line is not None and incident.key_line.text.startswith("rocBLAS error: Cannot read")
    assert "went on, on the CPU" in incident.explanation and "ended" not in incident.explanation


def test_layers_that_were_ignored_are_no_failed_start() -> None:
    """A llama-server without a usable GPU runs on the CPU: a fallback (ok), not an error in its start."""
    incident = one(
        "warning: no usable GPU found, --gpu-layers option will be ignored\n"
        "load_tensors: offloaded 5/5 layers to GPU\nload_tensors:   CPU_Mapped model buffer size =  1000.00 MiB\n"
    )
    assert incident.outcome is OutcomeKind.OK
    assert incident.applied_layers == 0
    assert "failed" not in incident.explanation


@pytest.mark.parametrize("device", ["Metal", "MTL0"])
def test_weights_mapped_into_a_device_are_no_fallback(device: str) -> None:
    """Metal maps the model's file into the device: these layers run on the GPU, and nothing fell back."""
    found = autopsy.perform(
        ("-",),
        io.BytesIO(
            f"llama_model_load_from_file_impl: using device {device} (Apple M2) - 10922 MiB free\n"
            "load_tensors: offloaded 25/25 layers to GPU\n"
            f"load_tensors: {device}_Mapped model buffer size =   512.00 MiB\n"
            "load_tensors:   CPU_Mapped model buffer size =    96.00 MiB\n".encode()
        ),
    )
    (runner,) = found.servers[0].runners
    assert (runner.backend, runner.applied_layers, runner.total_layers) == (Backend.METAL, 25, 25)
    assert not found.incidents and not found.warnings


@pytest.mark.parametrize(
    ("cache", "compute", "backends"),
    [
        ("ROCm0 KV", "ROCm0", (Backend.ROCM,)),
        ("ROCm0 RS", "Vulkan0", (Backend.ROCM,)),  # where the layers are counts before who takes part
        ("CPU KV", "CUDA0", ()),
        ("", "CUDA0", (Backend.CUDA,)),
        ("", "CPU", ()),
    ],
)
def test_the_cache_stands_in_for_weights_that_no_line_tells(
    cache: str, compute: str, backends: tuple[Backend, ...]
) -> None:
    """Layers are where their cache is. A compute buffer alone is a part that takes part, and proves nothing beside a
    cache that is wholly the host's: builds for a GPU have one with no layer offloaded."""
    text = f"llama_kv_cache:      {cache} buffer size =   128.00 MiB\n" if cache else ""
    text += f"llama_context:      {compute} compute buffer size =   300.00 MiB\n"
    found = autopsy.perform(("-",), io.BytesIO(text.encode()))
    runners = found.servers[0].runners if found.servers else ()
    assert tuple(b for runner in runners for b in runner.backends) == backends


def test_the_kernels_kill_is_the_reason() -> None:
    """The kernel's line says who ended the runner and why: it is the key line, and the advice is of the machine's
    memory, not of the GPU's."""
    incident = one(
        "Mar 02 10:00:01 box ollama[871]: llama_model_loader: loaded meta data with 30 key-value pairs\n"
        "Mar 02 10:00:05 box kernel: Out of memory: Killed process 872 (ollama_llama_se) total-vm:3100kB\n"
        "Mar 02 10:00:06 box ollama[871]: time=2025-03-02T10:00:06.000+01:00 level=ERROR source=sched.go:456 "
        'msg="error loading llama server" error="llama runner process has terminated: signal: killed"\n'
    )
    assert (incident.outcome, incident.phase) == (OutcomeKind.OOM, Phase.LOAD)
    assert incident.key_line is not None and "Killed process 872" in incident.key_line.text
    assert "Offload fewer layers" not in incident.next_step
    assert "No line" not in incident.explanation


def test_a_childs_death_has_the_time_of_its_own_line() -> None:
    """Under journald each line has a time: a runner's death has its own, not that of the stream's first line."""
    first = "Mar 02 10:00:01 box ollama[902]: ggml_vulkan: Found 1 Vulkan devices:\n"
    died = "Mar 02 11:30:09 box ollama[902]: SIGSEGV: segmentation violation\n"
    assert one(first + died).time == "Mar 02 11:30:09"


def test_a_rocm_error_blames_no_cuda() -> None:
    """One pattern explains the line of CUDA and of ROCm; where the line says ROCm, CUDA is no candidate."""
    incident = one(
        "/b/ggml-cuda.cu:70: ROCm error\nROCm error: unspecified launch failure\n"
        "  current device: 0, in function ggml_backend_cuda_synchronize at /b/ggml-cuda.cu:2500\n"
    )
    assert Component.CUDA not in incident.components
    assert Component.HIP in incident.components


def test_a_text_that_is_no_log() -> None:
    """Words of a person are no healthy server: the first line says so, and what to give."""
    shown = autopsy_text.text(autopsy.perform(("-",), io.BytesIO(b"My GPU does not work since the update.\n")))
    assert "says nothing about the GPU" in shown
    assert "journalctl -u ollama" in shown


def test_a_backtrace_that_is_there_is_not_asked_for() -> None:
    """With frames in the log, the advice is not to get a backtrace."""
    incident = one(
        'Thread 1 "llama-cli" received signal SIGSEGV, Segmentation fault.\n'
        "#0  0x00007ffff1234567 in radv_fixture () from /usr/lib/libvulkan_radeon.so\n"
        "#1  0x00007ffff7000001 in ggml_vk_fixture(vk_device&) () from ./libggml-vulkan.so\n"
    )
    assert incident.frames and "backtrace" not in incident.next_step


def test_the_kernels_remarks_are_told() -> None:
    """A firmware file that is missing and a bus without atomics are no deaths, but may be why a GPU is missing."""
    found = autopsy.perform(
        ("-",),
        io.BytesIO(
            b"[  100.100001] amdgpu 0000:03:00.0: amdgpu: PCIE atomic ops is not supported\n"
            b"[  100.200001] kfd kfd: amdgpu: skipped device 1002:687f, PCI rejects atomics 730<0\n"
            b"[  101.000001] amdgpu: Direct firmware load for amdgpu/vega10_sos.bin failed with error -2\n"
        ),
    )
    told = [(note.text, note.refs) for note in found.warnings if note.kind == "kernel"]
    assert [refs for _, refs in told] == [("s0:L1",), ("s0:L2",), ("s0:L3",)]
    assert "amdgpu/vega10_sos.bin" in told[2][0]
    assert "says nothing about the GPU" not in autopsy_text.text(found)


def test_what_was_asked_of_the_oldest_schedulers() -> None:
    """0.1.38 to 0.1.44 print what was asked and an estimate; the runner's own command line has the estimate only."""
    line = "time=2024-05-05T10:00:10.000Z level=INFO source="
    found = autopsy.perform(
        ("-",),
        io.BytesIO(
            (
                f'{line}memory.go:133 msg="offload to gpu" layers.requested=2 layers.real=33 x="7 GiB"\n'
                f'{line}server.go:320 msg="starting llama server" cmd="/t/runners/cuda_v11/ollama_llama_server '
                '--model /m/x --ctx-size 2048 --n-gpu-layers 2 --port 40001"\n'
                "llm_load_tensors: offloaded 2/33 layers to GPU\n"
                f'{line}server.go:545 msg="llama runner started in 2.00 seconds"\n'
            ).encode()
        ),
    )
    runner = found.servers[0].runners[0]
    assert (runner.requested_layers, runner.applied_layers, runner.total_layers) == (2, 2, 33)


def test_a_weak_sign_is_not_said_to_be_survived() -> None:
    """A word of a crash in a person's sentence proves nothing; nor that anything went on after it."""
    text = b"main: server is listening on http://127.0.0.1:8080\nI get `Segmentation fault` sometimes.\n"
    found = autopsy.perform(("-",), io.BytesIO(text))
    assert found.incidents == ()
    assert not [note.text for note in found.warnings if "went on" in note.text]


def test_a_container_has_a_limit_of_its_own() -> None:
    """A kill in a memory cgroup does not say that the machine's memory was used up."""
    line = (
        "Mar 02 10:00:05 box kernel: Memory cgroup out of memory: Killed process 4242 (llama-server) total-vm:31kB\n"
    )
    assert "container" in one(line).explanation


def test_a_model_that_was_not_loaded_is_an_incident() -> None:
    """The end of a paste that says that the program gave up is an error in load, though the reason is cut off."""
    incident = one("srv    load_model: failed to load model, '/m/q.gguf'\nmain: exiting due to model loading error\n")
    assert (incident.outcome, incident.phase) == (OutcomeKind.ERROR, Phase.LOAD)
    assert "this line alone does not say why" in incident.explanation
