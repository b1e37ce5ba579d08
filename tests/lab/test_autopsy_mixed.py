"""The promise: interleaved servers of several runtimes are told apart in every form in which journals and containers
write, each request under the condition that its runner was loaded with."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone

import pytest
from msgspec.structs import replace

from stillruns.lab import autopsy
from stillruns.model.applied import Answer
from stillruns.model.autopsy import Autopsy, Incident
from stillruns.model.backend import Backend, Runtime
from stillruns.model.outcome import OutcomeKind
from stillruns.model.phase import Phase
from stillruns.model.server_log import ServerLog

START = datetime(2026, 3, 7, 1, 19, 0, tzinfo=timezone(timedelta(hours=9)))
Line = tuple[datetime, str, int | None, str]


def _at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def _slog(seconds: float, site: str, message: str, level: str = "INFO") -> str:
    return f"time={_at(seconds).isoformat(timespec='milliseconds')} level={level} source={site} {message}"


def _gin(seconds: float, status: int, took: str) -> str:
    return f'[GIN] {_at(seconds):%Y/%m/%d - %H:%M:%S} | {status} | {took:>12} | 127.0.0.1 | POST     "/api/generate"'


def _load(start: float, port: int, asked: int, got: int, context: int, device: str, lines: list[str]) -> list[str]:
    """One load of Ollama's engine, to readiness a second later."""
    runner = f'cmd="/bin/ollama runner --ollama-engine --model /m/b --port {port}"'
    request = f"Operation:commit Parallel:1 BatchSize:512 FlashAttention:Enabled KvSize:{context} NumThreads:8"
    return [
        _slog(start, "server.go:431", f'msg="starting runner" {runner}'),
        _slog(start, "server.go:757", f'msg="loading model" "model layers"=25 requested={asked}'),
        _slog(start, "runner.go:1284", f'msg=load request="{{{request} GPULayers:{got}[ID:0 Layers:{got}(0..1)]}}"'),
        *lines,
        _slog(start, "ggml.go:494", f'msg="offloaded {got}/25 layers to GPU"'),
        _slog(start, "device.go:240", f'msg="model weights" device={device} size="112.8 MiB"'),
        _slog(start + 1, "server.go:1388", 'msg="llama runner started in 1.00 seconds"'),
    ]


def rocm() -> list[Line]:
    """Two layers; the second request starts no load."""
    card = "  Device 0: AMD Radeon RX Vega, gfx900:xnack- (0x900), VMM: no, Wave Size: 64"
    lines = [
        _slog(0, "routes.go:1663", 'msg="Listening on 127.0.0.1:11435 (version 0.17.7)"'),
        *_load(1, 40410, 2, 2, 4096, "ROCm0", ["ggml_cuda_init: found 1 ROCm devices:", card]),
        _gin(4, 200, "3.2s"),
        _gin(8, 200, "2.0s"),
    ]
    return [(_at(0.5 * n), "ollama-rocm", 1415, text) for n, text in enumerate(lines)]


def vulkan() -> list[Line]:
    """All layers; the runner dies in its first batch of 33 tokens."""
    card = "ggml_vulkan: 0 = AMD Radeon RX Vega (RADV VEGA10) (radv) | uma: 0 | fp16: 1 | warp size: 64"
    kind = _slog(1, "ggml.go:136", 'msg="" architecture=qwen35 file_type=Q8_0 name="" description=""')
    batch = "0x1, {0x0, {0x1, 0x2}, {0x3, 0x4}, {0x5, 0x21, 0x40}, {{0x6, 0x7}, 0x0}, 0x0}"
    lines = [
        _slog(0, "routes.go:1668", 'msg="Listening on 127.0.0.1:11434 (version 0.17.4)"'),
        *_load(1, 43149, -1, 25, 8192, "Vulkan0", [kind, "ggml_vulkan: Found 1 Vulkan devices:", card]),
        "SIGSEGV: segmentation violation",
        "PC=0x7f3f4470f1b5 m=11 sigcode=1 addr=0x3a8000",
        "signal arrived during cgo execution",
        "",
        "goroutine 874 gp=0xc000846380 m=11 mp=0xc000324008 [syscall]:",
        "github.com/ollama/ollama/ml/backend/ggml._Cfunc_ggml_backend_sched_graph_compute_async(0x7f3, 0x7f4)",
        "\t_cgo_gotypes.go:979 +0x4a fp=0xc0000baaa0 sp=0xc0000baa78 pc=0x5579b16c8b0a",
        f"github.com/ollama/ollama/runner/ollamarunner.(*Server).computeBatch({batch})",
        "\tgithub.com/ollama/ollama/runner/ollamarunner/runner.go:716 +0x862",
        _slog(
            4,
            "server.go:1610",
            'msg="post predict" error="Post \\"http://127.0.0.1:43149/completion\\": EOF"',
            "ERROR",
        ),
        _gin(4, 500, "3.5s"),
    ]
    return [(_at(0.2 + 0.2 * n), "ollama-vulkan", 1416, text) for n, text in enumerate(lines)]


def llama() -> list[Line]:
    """A llama-server on CUDA that answers one request."""
    lines = [
        "build: 6173 (0123abcd) with cc (GCC) 14.2.1 for x86_64-linux-gnu",
        "ggml_cuda_init: found 1 CUDA devices:",
        "  Device 0: NVIDIA GeForce GTX 1080, compute capability 6.1, VMM: yes",
        "llama_model_loader: loaded meta data with 26 key-value pairs and 339 tensors from /m/a (version GGUF V3)",
        "load_tensors: offloading 32 repeating layers to GPU",
        "load_tensors: offloading output layer to GPU",
        "load_tensors: offloaded 33/33 layers to GPU",
        "load_tensors:        CUDA0 model buffer size =  4095.05 MiB",
        "llama_context: n_ctx         = 2048",
        "llama_context: n_batch       = 1024",
        "llama_context: flash_attn    = 1",
        "main: server is listening on http://127.0.0.1:8080 - starting the main loop",
        "srv  update_slots: all slots are idle",
        "slot launch_slot_: id  0 | task 0 | processing task",
        "slot update_slots: id  0 | task 0 | new prompt, n_ctx_slot = 2048, n_keep = 0, n_prompt_tokens = 30",
        "prompt eval time =     100.00 ms /    30 tokens (    3.33 ms per token,   300.00 tokens per second)",
        "       eval time =    1000.00 ms /    20 tokens (   50.00 ms per token,    20.00 tokens per second)",
        "slot      release: id  0 | task 0 | stop processing: n_past = 49, truncated = 0",
        "srv  log_server_r: request: POST /completion 127.0.0.1 200",
    ]
    return [(_at(0.1 + 0.25 * n), "llama-server", 2000, text) for n, text in enumerate(lines)]


def vllm() -> list[Line]:
    """A vLLM that finds no memory for the weights."""
    lines = [
        "INFO 03-07 01:19:00 [__init__.py:244] Automatically detected platform rocm.",
        "INFO 03-07 01:19:01 [api_server.py:1287] vLLM API server version 0.9.1",
        "INFO 03-07 01:19:02 [gpu_model_runner.py:1595] Starting to load model /m/x...",
        "ERROR 03-07 01:19:04 [core.py:515] torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB.",
    ]
    return [(_at(0.3 + n), "vllm", 3000, text) for n, text in enumerate(lines)]


def kernel() -> list[Line]:
    """A page fault of a process that the journal does not name: Ollama's child."""
    fault = "amdgpu 0000:44:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:3 pasid:32771)"
    return [
        (_at(3.3), "kernel", None, fault),
        (_at(3.3), "kernel", None, "amdgpu 0000:44:00.0: amdgpu:  in process ollama pid 1500 thread ollama pid 1500"),
    ]


def _named(unit: str, pid: int | None) -> str:
    return f"{unit}[{pid}]" if pid else unit


def _short(month: str) -> Callable[[Line], str]:
    return lambda x: f"{month} {x[0]:%d %H:%M:%S} host {_named(x[1], x[2])}: {x[3]}"


def _utc(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")


def _journal_json(x: Line) -> str:
    body = {"__REALTIME_TIMESTAMP": str(int(x[0].timestamp() * 1e6)), "SYSLOG_IDENTIFIER": x[1], "MESSAGE": x[3]}
    return json.dumps(body | ({"_PID": str(x[2])} if x[2] else {}))


def _docker_json(x: Line) -> str:
    return json.dumps({"log": x[3] + "\n", "stream": "stderr", "time": _utc(x[0])})


JOURNALS: dict[str, Callable[[Line], str]] = {
    "short": _short("Mar"),
    "short, German": _short("Mär"),
    "short, German in full": _short("März"),
    "short, French": _short("mars"),
    "short, Japanese": _short(" 3月"),
    "short-precise": lambda x: f"Mar {x[0]:%d %H:%M:%S.%f} host {_named(x[1], x[2])}: {x[3]}",
    "short-iso": lambda x: f"{x[0]:%Y-%m-%dT%H:%M:%S%z} host {_named(x[1], x[2])}: {x[3]}",
    "short-iso-precise": lambda x: f"{x[0].isoformat(timespec='microseconds')} host {_named(x[1], x[2])}: {x[3]}",
    "json": _journal_json,
}
CONTAINERS: dict[str, Callable[[Line], str]] = {
    "compose": lambda x: f"{x[1] + '-1':<16} | {x[3]}",
    "compose with times": lambda x: f"{x[1] + '-1':<16} | {_utc(x[0])} {x[3]}",
    "service": lambda x: f"{x[1] + '.1.k3jd8s@host':<32}    | {x[3]}",
    "kubectl": lambda x: f"[pod/{x[1]}-7d9f/{x[1]}] {x[3]}",
    "kubectl with times": lambda x: f"[pod/{x[1]}-7d9f/{x[1]}] {_utc(x[0])} {x[3]}",
}
SINGLE: dict[str, Callable[[Line], str]] = {
    "plain": lambda x: x[3],
    "docker logs -t": lambda x: f"{_utc(x[0])} {x[3]}",
    "docker json-file": _docker_json,
    "CRI": lambda x: f"{_utc(x[0])} stderr F {x[3]}",
}


def _read(lines: Iterable[Line], form: Callable[[Line], str]) -> Autopsy:
    text = "".join(form(x) + "\n" for x in lines)
    return autopsy.perform(("-",), io.BytesIO(text.encode()))


def _check(found: Autopsy) -> None:
    """Everything that the four servers' lines tell."""
    servers = {s.runtime.value + (s.version.low or ""): s for s in found.servers}
    first, second = servers["ollama0.17.7"], servers["ollama0.17.4"]
    cuda = next(s for s in found.servers if s.runtime is Runtime.LLAMA_CPP)
    asked, reused = first.requests
    assert (asked.requested_layers, asked.applied_layers, asked.applied, asked.reused) == (2, 2, Answer.YES, False)
    assert (reused.requested_layers, reused.applied, reused.reused) == (None, Answer.UNKNOWN, True)
    assert reused.runner == asked.runner and "no load of its own" in reused.why
    assert (asked.context, asked.batch, asked.flash_attention) == (4096, 512, "Enabled")
    assert [(r.context, r.requested_layers, r.status) for r in second.requests] == [(8192, "auto", 500)]
    (answered,) = cuda.requests
    assert (answered.tokens, answered.context, answered.batch, answered.flash_attention) == (20, 2048, 1024, "1")
    assert [s.runners[0].backend for s in (first, second, cuda)] == [Backend.ROCM, Backend.VULKAN, Backend.CUDA]
    assert [d.target for s in (first, cuda) for d in s.devices] == ["gfx900:xnack-", "sm_61"]
    ends = {i.server: i for i in found.incidents if i.server}
    crash = ends.pop(second.id)
    assert (crash.outcome, crash.signal, crash.phase) == (OutcomeKind.CRASH, "SIGSEGV", Phase.PROMPT)
    assert crash.known_issues == ("ollama-qwen35-vulkan-deltanet-set",)
    (memory,) = ends.values()
    assert (memory.outcome, memory.backend, memory.phase) == (OutcomeKind.OOM, Backend.ROCM, Phase.LOAD)


@pytest.mark.parametrize("form", JOURNALS)
def test_interleaved_in_a_journal(form: str) -> None:
    """Two Ollama services, a llama-server, a vLLM and the kernel, line by line in one journal."""
    lines = sorted((*rocm(), *vulkan(), *llama(), *vllm(), *kernel()), key=lambda x: x[0])
    found = _read(lines, JOURNALS[form])
    _check(found)
    crash = next(i for i in found.incidents if i.signal == "SIGSEGV")
    assert any("page fault" in e.text for e in crash.evidence)
    assert all(i.server for i in found.incidents)
    assert all(i.time for i in found.incidents)


@pytest.mark.parametrize("form", CONTAINERS)
def test_interleaved_containers(form: str) -> None:
    """The same servers as containers of one file."""
    lines = sorted((*rocm(), *vulkan(), *llama(), *vllm()), key=lambda x: x[0])
    _check(_read(lines, CONTAINERS[form]))


@pytest.mark.parametrize("form", SINGLE)
def test_one_after_the_other(form: str) -> None:
    """A form that names no process: each server alone reads the same."""
    whole = [_read(lines, SINGLE[form]) for lines in (rocm(), vulkan(), llama(), vllm())]
    servers = [replaced for n, part in enumerate(whole) for replaced in _renamed(part, n)]
    incidents = tuple(i for n, part in enumerate(whole) for i in _moved(part, n))
    _check(Autopsy((), tuple(servers), incidents))


def _renamed(part: Autopsy, number: int) -> list[ServerLog]:
    return [replace(s, id=f"{number}-{s.id}") for s in part.servers]


def _moved(part: Autopsy, number: int) -> list[Incident]:
    return [replace(i, server=f"{number}-{i.server}") for i in part.incidents]
