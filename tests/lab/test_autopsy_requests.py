"""The promise: each request of an Ollama is shown with the condition that it ran under, whatever the age: layers,
context, batch and flash attention of the runner that served it, and whether it loaded that runner itself."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from stillruns.lab import autopsy
from stillruns.model.applied import Answer
from stillruns.report import autopsy_text


def _slog(second: int, site: str, message: str) -> str:
    return f"time=2026-03-07T01:19:{second:02d}.000+09:00 level=INFO source={site} {message}\n"


def _gin(second: int, took: str, path: str = "/api/generate") -> str:
    return f'[GIN] 2026/03/07 - 01:19:{second:02d} | 200 | {took:>12} |       127.0.0.1 | POST     "{path}"\n'


def _old(start: int, asked: int, layers: int, flags: str, attention: int) -> str:
    """The llama runner of 2024: the server's own estimate stands in the command line."""
    runner = "/tmp/ollama1/runners/rocm_v60102/ollama_llama_server"
    return (
        _slog(
            start, "memory.go:309", f'msg="offload to rocm" layers.requested={asked} layers.model=33 layers.offload=9'
        )
        + _slog(start, "server.go:393", f'msg="starting llama server" cmd="{runner} --model /m/b {flags}"')
        + "ggml_cuda_init: found 1 ROCm devices:\n  Device 0: AMD Radeon VII, compute capability 9.0, VMM: no\n"
        + f"llm_load_tensors: offloaded {layers}/33 layers to GPU\n"
        + "llm_load_tensors:      ROCm0 buffer size =  3847.55 MiB\n"
        + f"llama_new_context_with_model: flash_attn = {attention}\n"
        + _slog(start + 2, "server.go:632", 'msg="llama runner started in 2.00 seconds"')
    )


OLD = (
    _slog(0, "routes.go:1118", 'msg="Listening on 127.0.0.1:11434 (version 0.3.6)"')
    + _old(1, -1, 33, "--ctx-size 8192 --batch-size 512 --n-gpu-layers 33 --flash-attn --parallel 4 --port 40001", 1)
    + _gin(6, "5.5s")
    + _gin(9, "2.0s", "/api/chat")
    + _old(11, 2, 2, "--ctx-size 2048 --batch-size 256 --n-gpu-layers 2 --parallel 1 --port 40002", 0)
    + _gin(15, "4.5s")
    + _gin(18, "1.0s")
)
FLAGS = "--ctx-size 8192 --batch-size 512 -ngl 12 --flash-attn auto --parallel 1 --log-verbosity 4"
NEW = (
    _slog(0, "routes.go:1900", 'msg="Listening on 127.0.0.1:11434 (version 0.30.0)"')
    + _slog(1, "llama_server.go:400", f'msg="starting llama-server" cmd="/bin/llama-server --model /m/b {FLAGS}"')
    + "load_tensors: offloading 12 repeating layers to GPU\nload_tensors: offloaded 12/33 layers to GPU\n"
    + "load_tensors:        ROCm0 model buffer size =  1095.05 MiB\nllama_context: flash_attn    = auto\n"
    + "llama_context: Flash Attention was auto, set to disabled\n"
    + _slog(4, "llama_server.go:1118", 'msg="llama-server started in 3.00 seconds"')
    + _gin(6, "5.5s")
    + _gin(9, "2.0s", "/v1/chat/completions")
)


@pytest.mark.parametrize(
    ("log", "wanted"),
    [
        (
            OLD,
            [
                ("r1", False, "auto", 33, 2048, 512, "on"),
                ("r1", True, None, 33, 2048, 512, "on"),
                ("r2", False, 2, 2, 2048, 256, "0"),
                ("r2", True, None, 2, 2048, 256, "0"),
            ],
        ),
        (NEW, [("r1", False, 12, 12, 8192, 512, "disabled"), ("r1", True, None, 12, 8192, 512, "disabled")]),
    ],
)
def test_conditions_of_requests(log: str, wanted: list[tuple[object, ...]]) -> None:
    """A request's own load gives its condition; one that re-used a runner ran under that of another, and says so.
    Context is that of one sequence; attention is what llama.cpp resolved."""
    found = autopsy.perform(("-",), io.BytesIO(log.encode()))
    (server,) = found.servers
    got = [
        (r.runner, r.reused, r.requested_layers, r.applied_layers, r.context, r.batch, r.flash_attention)
        for r in server.requests
    ]
    assert got == wanted
    for request in server.requests:
        assert (request.applied is Answer.YES) == (not request.reused)
        assert ("no load of its own" in request.why) == request.reused
    text = autopsy_text.text(found)
    assert text.count("(re-used)") == sum(request.reused for request in server.requests)
    assert all(word in text for word in ("context", "batch", "flash"))


def test_layers_that_did_not_fit_are_told() -> None:
    """`N/N` with layers that overflow is not all on the GPU: the runner's line and the request say so, also where no
    line shows what was asked for."""
    log = (Path(__file__).parents[1] / "golden/llama_cpp/cuda-h200-ngl12.raw").read_text()
    fitted = "0.00.217.000 I llama_params_fit_impl:   - CUDA0 (NVIDIA H200): 12 layers ( 3 overflowing), 999 MiB used"
    before, loading, after = log.partition("0.00.221.233 I load_tensors: loading")
    found = autopsy.perform(("-",), io.BytesIO(f"{before}{fitted}\n{loading}{after}".encode()))
    (server,) = found.servers
    assert server.runners[0].overflowing == 3
    assert "applied 12/25 (3 of them only partly on the device)" in autopsy_text.text(found)
    assert all(
        "3 of 12 did not fit" in request.why for request in server.requests if request.requested_layers is None
    )
    assert server.requests
