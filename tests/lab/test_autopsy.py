"""The promise: from a log alone, what was asked, what ran and why it died; unknown where the log does not say."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from pathlib import Path

import jsonschema
import pytest

from stillruns.lab import autopsy
from stillruns.model.applied import Answer
from stillruns.model.autopsy import Autopsy, Confidence
from stillruns.model.backend import Backend, Runtime
from stillruns.model.outcome import OutcomeKind
from stillruns.model.phase import Phase
from stillruns.normalise.logs.reader import lines, visible
from stillruns.report import autopsy_json, autopsy_text

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "autopsy"
CASES = sorted(path.name.removesuffix(".raw") for path in GOLDEN.glob("*.raw"))
SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "schemas" / "autopsy.json").read_text()))
SHARED = Path(os.environ.get("STILLRUNS_SHARED", ROOT.parent / "shared"))

sys.path.insert(0, str(ROOT / "scripts"))
import accuracy  # noqa: E402


def read(name: str) -> Autopsy:
    """One golden log."""
    return autopsy.perform((str(GOLDEN / f"{name}.raw"),), io.BytesIO())


def pasted(text: str) -> Autopsy:
    """A text as standard input."""
    return autopsy.perform(("-",), io.BytesIO(text.encode()))


@pytest.mark.parametrize("name", CASES)
def test_golden_log(name: str) -> None:
    """Every golden log gives what stands beside it: outcome, signal, phase, backend, component, target, layers."""
    found = read(name)
    expect = json.loads((GOLDEN / f"{name}.expect.json").read_text())["expect"]
    got = accuracy.summary(found)
    for field, wanted in expect.items():
        if field == "signal":
            assert found.incidents[0].signal == wanted
        elif field == "component":
            assert got[field][: len(wanted)] == wanted
        else:
            value = got[field]
            assert value == wanted or value == [wanted], (field, value)


@pytest.mark.parametrize("name", CASES)
def test_document_keeps_its_schema_and_its_refs(name: str) -> None:
    """The JSON document is valid, and every line that it quotes is the line of that number."""
    found = read(name)
    document = autopsy_json.document(found)
    SCHEMA.validate(document)
    raw = (GOLDEN / f"{name}.raw").read_bytes()
    whole: dict[int, list[str]] = {}
    for line in lines(raw):
        whole.setdefault(line.number, []).append(visible(line.text, 100_000))
    for incident in document["incidents"]:
        for excerpt in [*incident["evidence"], *([incident["key_line"]] if incident["key_line"] else [])]:
            number = int(excerpt["ref"].rpartition("L")[2])
            assert any(excerpt["text"].rstrip("…") in text for text in whole[number]), excerpt
    assert "\x1b" not in autopsy_text.text(found)


def test_kernel_lines_are_tied_by_pid() -> None:
    """The ring time-out of the server's own pid is evidence of its device loss; systemd's line lends the signal."""
    (incident,) = read("journal-ring-timeout").incidents
    assert [e.text for e in incident.evidence if "ring comp_1.0.0 timeout" in e.text]
    assert (incident.outcome, incident.signal, incident.phase) == (OutcomeKind.DEVICE_LOST, "SIGABRT", Phase.PROMPT)


def test_another_process_of_the_kernel_log_is_left_alone() -> None:
    """A segmentation fault of a browser in the same journal is no incident of the server."""
    found = pasted(
        "Mar 07 02:10:01 box llama-server[7]: main: server is listening on http://127.0.0.1:8080 - starting\n"
        "Mar 07 02:10:09 box kernel: firefox[9]: segfault at 8 ip 00007f sp 00007f error 4 in libxul.so[100,7f+4]\n"
    )
    assert found.incidents == ()


def test_a_reservation_that_is_tried_again_is_no_incident() -> None:
    """llama-server goes on without pipeline parallelism: what did not fit before is a note, not a failure."""
    found = pasted(
        "1.06.520.077 E ggml_backend_cuda_buffer_type_alloc_buffer: allocating 51000.00 MiB on device 1: cudaMalloc"
        " failed: out of memory\n"
        "1.06.520.084 E ggml_gallocr_reserve_n_impl: failed to allocate CUDA1 buffer of size 53477376000\n"
        "1.06.520.086 E graph_reserve: failed to allocate compute buffers\n"
        "1.06.520.107 W sched_reserve: compute buffer allocation failed, retrying without pipeline parallelism\n"
        "1.07.304.130 I srv    load_model: initializing, n_slots = 1, n_ctx_slot = 50176, kv_unified = 'false'\n"
    )
    assert found.incidents == ()


def test_fail_fast_after_a_named_error_is_an_abort() -> None:
    """On Windows abort() ends as 0xc0000409; Ollama's 200 in between does not part the error from the death."""
    found = pasted(
        'time=2025-05-03T10:00:00.100+02:00 level=INFO source=server.go:619 msg="llama runner started in 3.00'
        ' seconds"\n'
        "CUDA error: an illegal memory access was encountered\n"
        "  current device: 0, in function ggml_cuda_op_mul_mat at C:\\src\\ggml-cuda\\ggml-cuda.cu:1600\n"
        "  cudaGetLastError()\n"
        "C:\\src\\ggml-cuda\\ggml-cuda.cu:73: CUDA error\n"
        '[GIN] 2025/05/03 - 10:00:20 | 200 |    2.1000000s |       127.0.0.1 | POST     "/api/chat"\n'
        'time=2025-05-03T10:00:20.900+02:00 level=ERROR source=server.go:449 msg="llama runner terminated"'
        ' error="exit status 0xc0000409"\n'
    )
    (incident,) = found.incidents
    assert (incident.outcome, incident.signal, incident.backend) == (OutcomeKind.ABORT, "0xc0000409", Backend.CUDA)


def test_an_error_long_before_a_death_is_not_its_cause() -> None:
    """Requests that went well between an error and a later death part them."""
    well = '[GIN] 2025/05/03 - 10:00:%02d | 200 |    2.1000000s |       127.0.0.1 | POST     "/api/chat"\n'
    found = pasted(
        'time=2025-05-03T10:00:00.100+02:00 level=INFO source=server.go:619 msg="llama runner started in 3.00'
        ' seconds"\n'
        "CUDA error: out of memory\n" + "".join(well % n for n in range(1, 21)) + "SIGSEGV: segmentation violation\n"
    )
    assert [i.outcome for i in found.incidents][-1] is OutcomeKind.CRASH


def test_old_go_lines_are_ollama_s() -> None:
    """Before slog Ollama printed dates and `file.go:line`; a crash in its own probe for GPUs is in discovery."""
    found = pasted(
        "2024/01/20 09:00:01 routes.go:950: INFO Listening on 127.0.0.1:11434 (version 0.1.20)\n"
        "2024/01/20 09:00:02 gpu.go:93: INFO Detecting GPU type\n"
        "SIGSEGV: segmentation violation\n"
        "PC=0x7f00 m=1 sigcode=1\n"
        "signal arrived during cgo execution\n\n"
        "goroutine 1 [syscall]:\n"
        "runtime.cgocall(0x9b0000, 0xc0000e0000)\n"
        "\t/usr/local/go/src/runtime/cgocall.go:157 +0x4b fp=0xc0000e0000 sp=0xc0000e0000 pc=0x409b0b\n"
        "github.com/jmorganca/ollama/gpu._Cfunc_nvml_init(0x7f00, 0xc000490500)\n"
        "\t_cgo_gotypes.go:248 +0x3f fp=0xc0000e0000 sp=0xc0000e0000 pc=0x7b9cdf\n"
    )
    (incident,) = found.incidents
    assert (incident.outcome, incident.phase, incident.backend) == (
        OutcomeKind.CRASH,
        Phase.DISCOVER,
        Backend.UNKNOWN,
    )
    assert found.servers[0].runtime is Runtime.OLLAMA


def test_version_output_tells_no_phase_of_what_follows() -> None:
    """A report that begins with `--version` and goes on with an error line of another run: the phase is unknown."""
    found = pasted(
        "# ./llama-server --version\n"
        "ggml_cuda_init: found 1 CUDA devices:\n"
        "  Device 0: Tesla P40, compute capability 6.1, VMM: yes\n"
        "version: 6800 (abcdef012)\n"
        "CUDA error: CUBLAS_STATUS_INTERNAL_ERROR\n"
        "  current device: 0, in function ggml_cuda_op_mul_mat at /src/ggml/src/ggml-cuda/ggml-cuda.cu:1600\n"
    )
    (incident,) = found.incidents
    assert (incident.phase, incident.backend, incident.target) == (Phase.UNKNOWN, Backend.CUDA, "sm_61")


@pytest.mark.parametrize(
    ("line", "signal"),
    [
        (" The model has crashed without additional information. (Exit code: 18446744072635812000).", "0xc0000409"),
        (" The model has crashed without additional information. (Exit code: 18446744072635810000).", "0xc0000005"),
    ],
)
def test_windows_codes_that_javascript_rounded(line: str, signal: str) -> None:
    """LM Studio prints a 32-bit status as a 64-bit number, rounded to what a double holds."""
    (incident,) = pasted(f"llama.cpp\n{line}\n").incidents
    assert (incident.outcome, incident.signal) == (OutcomeKind.CRASH, signal)


@pytest.mark.parametrize(
    ("line", "signal"),
    [
        ("-1073741819", "0xc0000005"),
        ("engine ended: 3221226505", "0xc0000409"),
        ("(Exit code: 139). Please check settings and try loading the model again.", "SIGSEGV"),
        ("zsh: segmentation fault  ./main -m model.gguf", "SIGSEGV"),
        ("[2]  + 4242 abort      ./main -m model.gguf", "SIGABRT"),
    ],
)
def test_exit_codes_and_shells_that_say_it_their_way(line: str, signal: str) -> None:
    """PowerShell's $LASTEXITCODE alone, an unsigned status in a sentence, LM Studio's small codes, zsh's words."""
    (incident,) = pasted(f"llm_load_tensors: offloaded 9/33 layers to GPU\n{line}\n").incidents
    assert incident.signal == signal


@pytest.mark.parametrize(
    "line", ["eval time = -10737.41 ms", "n = 32212254720", "tokens: -1073741", "x-1073741819.5"]
)
def test_numbers_that_are_no_exit_codes(line: str) -> None:
    """A size, a time or a part of a longer number is no status of Windows."""
    assert pasted(f"llm_load_tensors: offloaded 9/33 layers to GPU\n{line}\n").incidents == ()


def test_a_piece_of_a_load_is_no_incident() -> None:
    """A paste that begins and ends in mid load says nothing of an end; one that shows the runner's start may."""
    load = (
        "Jun 23 20:18:29 box ollama[7]: llm_load_tensors: offloaded 9/28 layers to GPU\n"
        "Jun 23 20:18:30 box ollama[7]: llama_new_context_with_model: n_ctx      = 4096\n"
    )
    start = (
        "Jun 23 20:18:20 box ollama[7]: time=2024-06-23T20:18:20.000Z level=INFO source=server.go:435"
        ' msg="starting llama server" cmd="/tmp/runners/cpu/ollama_llama_server --model /m/sha256-00 --port 4000"\n'
    )
    piece = pasted(load)
    assert piece.incidents == ()
    assert [w.kind for w in piece.warnings] == ["excerpt"]
    assert [i.outcome for i in pasted(start + load).incidents] == [None]


def test_memory_in_use_is_an_echo() -> None:
    """ROCm's complaint while a process aborts does not displace the error that ended it, and blames no hardware."""
    echo = "Memory critical error by agent node-0 (Agent handle: 0x56) on address 0x7f55. Reason: Memory in use.\n"
    error = "ROCm error: invalid device function\n  current device: 0, in function ggml_cuda_compute_forward\n"
    (both,) = pasted(error + echo + "SIGABRT: abort\n").incidents
    assert both.pattern == "gpu-invalid-device-function"
    (alone,) = pasted("load_tensors: offloaded 9/33 layers to GPU\n" + echo).incidents
    assert "hardware" not in [c.value for c in (*both.components, *alone.components)]


def test_python_killed_for_memory_is_told_only_alone() -> None:
    """The kernel's line alone is what was asked about; beside a healthy server it is another program's."""
    kill = "[Sun Mar 24 23:54:53 2026] Out of memory: Killed process 6154 (python3) total-vm:18kB, anon-rss:14kB\n"
    (incident,) = pasted(kill).incidents
    assert (incident.outcome, incident.signal) == (OutcomeKind.OOM, "SIGKILL")
    healthy = "main: server is listening on http://127.0.0.1:8080 - starting the main loop\n"
    assert pasted(healthy + kill).incidents == ()


def test_an_illegal_instruction_is_the_host_s() -> None:
    """Whatever the GPU, an instruction that the CPU lacks points at the build for this CPU."""
    found = pasted(
        'time=2024-06-03T15:40:18.670+08:00 level=INFO source=types.go:71 msg="inference compute" id=0 library=rocm'
        ' compute=gfx1032 driver=5.7 name="AMD Radeon RX 6600" total="8.0 GiB" available="7.9 GiB"\n'
        "Error: llama runner process has terminated: exit status 0xc000001d\n"
    )
    (incident,) = found.incidents
    assert incident.components[0].value == "host CPU"


@pytest.mark.parametrize(
    "line",
    [
        "dockerd[900]: container 1 exited with code 137",
        "backup[77]: Aborted",
        "systemd[1]: nginx.service: Main process exited, code=killed, status=11/SEGV",
        "kernel: python3[9]: segfault at 8 ip 00007f sp 00007f error 4 in libpython3.11.so[100,7f+4]",
        "kernel: Out of memory: Killed process 9 (firefox) total-vm:4kB, anon-rss:4kB, file-rss:0kB",
    ],
)
def test_other_programs_of_a_journal_are_left_alone(line: str) -> None:
    """What befalls another program beside a healthy server is no incident of any server."""
    found = pasted(
        "Mar 07 02:10:01 box llama-server[7]: main: server is listening on http://127.0.0.1:8080 - starting\n"
        f"Mar 07 02:10:09 box {line}\n"
    )
    assert (found.incidents, len(found.servers)) == ((), 1)


def test_mixed_runtimes_are_told_apart() -> None:
    """A file into which an Ollama journal and a llama-cli run were pasted holds two servers."""
    found = read("mixed-paste")
    assert [s.runtime for s in found.servers] == [Runtime.OLLAMA, Runtime.LLAMA_CPP]
    assert found.incidents[0].server == found.servers[1].id


def test_silent_cpu_is_said() -> None:
    """`offloaded 5/5 layers to GPU` with every buffer on the host is 0 layers, and a note says so."""
    found = read("silent-cpu")
    (runner,) = found.servers[0].runners
    assert (runner.applied_layers, runner.total_layers, runner.backend) == (0, 5, Backend.CPU)
    assert any(note.kind == "fallback" for note in found.warnings)


def test_asked_layers_that_do_not_fit_are_no() -> None:
    """-ngl 20 of 33 that offloads 10 is not what was asked."""
    found = pasted(
        "$ llama-server -m a.gguf -ngl 20\n"
        "build: 5833 (1234abcd) with cc\n"
        "llama_model_load_from_file_impl: using device Vulkan0 (X) - 8000 MiB free\n"
        "llama_model_loader: loaded meta data with 3 key-value pairs and 2 tensors from a.gguf (version GGUF V3)\n"
        "load_tensors: offloaded 10/33 layers to GPU\n"
        "load_tensors:      Vulkan0 model buffer size =   100.00 MiB\n"
        "srv  llama_server: model loaded\n"
        "slot launch_slot_: id  0 | task 0 | processing task\n"
        "slot      release: id  0 | task 0 | stop processing: n_tokens = 64, truncated = 0\n"
    )
    (request,) = found.servers[0].requests
    assert (request.applied, request.requested_layers, request.applied_layers) == (Answer.NO, 20, 10)


@pytest.mark.parametrize(
    "text",
    [
        "common_fit_params: failed to fit params to free device memory: n_gpu_layers set by user, abort\n",
        "common_init_from_params: added <|x|> logit bias = -inf\n",
        "llama_perf_context_print: prompt eval time = 0.00 ms / 1 tokens (inf tokens per second)\n",
        "hipBLASLt error: Heuristic Fetch Failed!\n",
        "0.37.645.332 I srv  llama_server: model loaded\n",
        "I was killed by the Segmentation fault of my code; the server said Aborted twice.\n",
    ],
)
def test_misleading_lines_are_no_incident(text: str) -> None:
    """Lines that look like trouble and are none."""
    assert pasted(text).incidents == ()


def test_composed_patterns_never_say_high() -> None:
    """Confidence is `high` only where a real log stands behind what decided."""
    patterns = autopsy.knowledge().patterns
    for name in CASES:
        for incident in read(name).incidents:
            pattern = patterns.get(incident.pattern or "")
            if pattern is not None and pattern.origin == "composed" and pattern.rank >= 60:
                assert incident.confidence is not Confidence.HIGH


def test_equal_crashes_have_equal_signatures() -> None:
    """Addresses, offsets, arguments and library versions do not enter a signature; the function does."""

    def signature(name: str, address: str) -> str | None:
        return (
            pasted(
                f"Thread 1 received signal SIGSEGV, Segmentation fault.\n"
                f"#0  0x{address} in {name}(vk_context&, int) (x={address}) at /b/{address}/a.cpp:12\n"
                f"#1  0x{address} in ggml_backend_vk_graph_compute () from /usr/lib/libggml-vulkan.so.{address[0]}\n"
            )
            .incidents[0]
            .signature
        )

    assert signature("ggml_vk_add", "00007f10") == signature("ggml_vk_add", "00007fab")
    assert signature("ggml_vk_add", "00007f10") != signature("ggml_vk_mul", "00007f10")


def test_labelled_incidents_are_never_wrong() -> None:
    """On the labelled logs no field is wrong; how many are unknown, `make accuracy` prints."""
    tally = accuracy.incidents()
    if tally is None:
        pytest.skip("../shared/data/incidents is not there")
    wrong = [line for line in tally.lines if re.match(r"\s+wrong", line)]
    assert wrong == []


def test_real_server_logs() -> None:
    """24 real llama-server logs: backend and layers as their names say."""
    tally = accuracy.h200()
    if tally is None:
        pytest.skip("../shared/data/h200 is not there")
    assert [line for line in tally.lines if not line.lstrip().startswith("beyond")] == []


def test_the_old_layer_line_repeats_what_was_asked() -> None:
    """Until 2025 the line is -ngl itself, below the number of layers; a newer build may have chosen it (-fit)."""
    old = "llm_load_tensors: offloading 20 repeating layers to GPU\nllm_load_tensors: offloaded 20/33 layers to GPU\n"
    (server,) = pasted("Log start\n" + old).servers
    assert server.runners[0].requested_layers == 20
    (whole,) = pasted("Log start\n" + old.replace("20/33", "33/33")).servers
    assert whole.runners[0].requested_layers is None
    (newer,) = pasted("Log start\n" + old.replace("llm_load_tensors", "load_tensors")).servers
    assert newer.runners[0].requested_layers is None
    (cpu,) = pasted("ggml_cuda_init: found 1 ROCm devices:\nLog start\n" + old.replace("20", "0")).servers[:1]
    assert cpu.runners[0].requested_layers == 0


NO_KERNEL = """\
ggml_cuda_compute_forward: SCALE failed
CUDA error: no kernel image is available for execution on the device
"""


def test_the_first_kernel_of_a_build_without_code_is_the_prompt_s() -> None:
    """Ollama's runners have no warm-up; after an answered request, or of another error, the phase stays unknown."""
    ready = (
        'time=2026-01-02T03:04:05.000Z level=INFO source=server.go:1289 msg="llama runner started in 40 seconds"\n'
    )
    assert pasted(ready + NO_KERNEL).incidents[0].phase is Phase.PROMPT
    answered = '[GIN] 2026/01/02 - 03:04:09 | 200 |  2.0s |  127.0.0.1 | POST     "/api/generate"\n'
    assert pasted(ready + answered + NO_KERNEL).incidents[0].phase is Phase.UNKNOWN
    other = NO_KERNEL.replace(
        "no kernel image is available for execution on the device", "unspecified launch failure"
    )
    assert pasted(ready + other).incidents[0].phase is Phase.UNKNOWN
    assert pasted("Log start\n" + NO_KERNEL).incidents[0].phase is Phase.UNKNOWN


def test_a_failed_probe_without_an_end() -> None:
    """The probe's own line tells the phase; what was used then is unknown, and the reason says so."""
    line = (
        'time=2026-01-02T03:04:05.000Z level=INFO source=runner.go:464 msg="failure during GPU discovery" error="x"\n'
    )
    (found,) = pasted(line).incidents
    assert (found.outcome, found.phase, found.confidence) == (None, Phase.DISCOVER, Confidence.LOW)
    assert "after the probe failed" in dict(found.why_unknown)["outcome"]
    gpu = line.replace(
        '"failure during GPU discovery" error="x"', '"inference compute" id=0 library=Vulkan name=Vulkan0'
    )
    assert pasted(line + gpu).incidents == ()
