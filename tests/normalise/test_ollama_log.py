"""The promise: an Ollama log is read as it was meant, in every generation, and never as more than it says."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from stillruns.catalogue import load
from stillruns.model.applied import Answer
from stillruns.model.backend import Backend, Runtime
from stillruns.model.evidence import parse_ref
from stillruns.model.phase import Phase
from stillruns.model.server_log import LogLine, ServerLog
from stillruns.normalise.logs import ollama, seam, streams
from stillruns.normalise.logs.reader import lines

GOLDEN = Path(__file__).parents[1] / "golden" / "ollama"
CASES = sorted(path.stem for path in GOLDEN.glob("*.raw"))


def servers(data: bytes) -> tuple[ServerLog, ...]:
    """Every server of a log, split as the program splits it."""
    numbers = count()
    catalogue = streams.Catalogue({r: load.grammar(r) for r in streams.RUNTIMES}, load.patterns())
    splitter = streams.Splitter("s0", catalogue, streams.default_openers(), lambda: f"srv{next(numbers)}")
    for line in lines(data):
        splitter.take(line)
    return tuple(s for s in splitter.close().servers if s.runtime is Runtime.OLLAMA)


def read(entries: Iterable[LogLine]) -> tuple[ServerLog, ...]:
    """Every server of one stream."""
    return seam.read_all(ollama.Reader("srv0", "", "s0", load.grammar(Runtime.OLLAMA), load.patterns()), entries)


def plain(*texts: str) -> ServerLog:
    """One server from lines without an envelope."""
    entries = [LogLine(number, text) for number, text in enumerate(texts, 1)]
    (found,) = read(entries)
    return found


def number(ref: str | None) -> int | None:
    """The line of a ref."""
    return parse_ref(ref)[1] if ref else None


def shown(server: ServerLog) -> dict[str, Any]:
    """What a golden file states of one server, as JSON would hold it."""
    return {
        "name": server.name,
        "version": [server.version.low, server.version.high, server.version.how],
        "libraries": [[b.backend.value, b.library.rsplit("/", 1)[-1]] for b in server.backends_loaded],
        "devices": [[d.name, d.target, d.driver] for d in server.devices],
        "runners": [
            [
                r.engine,
                r.requested_layers,
                r.applied_layers,
                r.total_layers,
                r.backend.value,
                r.device,
                number(r.ready),
            ]
            for r in server.runners
        ],
        "requests": [
            [number(q.last), q.status, q.runner, q.requested_layers, q.applied_layers, q.applied.value, q.reused]
            for q in server.requests
        ],
        "rates": [[q.prompt_tokens, q.tokens, q.rate] for q in server.requests if q.tokens],
        "endings": [
            [number(e.ref), e.kind, e.signal, e.phase.value, number(e.phase_ref), e.runner, e.request]
            for e in server.endings
            if not e.secondary
        ],
        "echoes": [[number(e.ref), e.kind] for e in server.endings if e.secondary],
        "troubles": [[number(t.ref), t.pattern, t.phase.value] for t in server.troubles],
        "phases": [s.phase.value for s in server.phases],
        "notes": [n.kind for n in server.notes],
    }


@pytest.mark.parametrize("case", CASES)
def test_golden_log(case: str) -> None:
    """Each golden log gives what its expectation states, server by server, and nothing that it does not hold."""
    expected = json.loads((GOLDEN / f"{case}.expect.json").read_text(encoding="utf-8"))
    assert expected["origin"] in ("real", "composed")
    found = servers((GOLDEN / f"{case}.raw").read_bytes())
    assert len(found) == len(expected["servers"])
    for server, wanted in zip(found, expected["servers"], strict=True):
        view = shown(server)
        for key, value in wanted.items():
            assert view[key] == value, f"{case}: {key} of {server.name}"


@pytest.mark.parametrize("case", CASES)
def test_every_place_is_right(case: str) -> None:
    """A ref names a line of the file, and its excerpt is that line's text."""
    data = (GOLDEN / f"{case}.raw").read_bytes()
    raw = data.decode().split("\n")
    for server in servers(data):
        assert server.texts
        for ref, text in server.texts:
            line = number(ref)
            assert line is not None and text.strip("…") in raw[line - 1]
        refs = {ref for ref, _ in server.texts}
        for request in server.requests:
            assert set(request.refs) <= refs
        for ending in server.endings:
            assert ending.ref in refs and set(ending.refs) <= refs


def test_an_empty_stream() -> None:
    """No line, no claim."""
    found = plain()
    assert (found.version.low, found.runners, found.requests, found.endings) == (None, (), (), ())
    assert found.last_phase is Phase.UNKNOWN


def test_a_restart_makes_a_second_server() -> None:
    """A container that is started again prints its version again: what was loaded before is gone."""
    listening = (
        'time=2026-05-02T10:00:0{}.0Z level=INFO source=routes.go:1 msg="Listening on [::]:11434 (version {})"'
    )
    entries = [LogLine(1, listening.format(0, "0.17.4")), LogLine(2, listening.format(5, "0.17.6"))]
    found = read(entries)
    assert [(s.id, s.version.low) for s in found] == [("srv0", "0.17.4"), ("srv0.2", "0.17.6")]


GIN = '[GIN] 2026/05/02 - 10:00:{} | {} | {:>13} |       127.0.0.1 | POST     "/api/generate"'


def start(second: str, port: int, model: str = "/m/a") -> str:
    """A runner's start."""
    return (
        f'time=2026-05-02T10:00:{second} level=INFO source=x.go:1 msg="starting runner" '
        f'cmd="/usr/bin/ollama runner --ollama-engine --model {model} --port {port}"'
    )


def asked(second: str, layers: int) -> str:
    """What the server was asked."""
    head = f"time=2026-05-02T10:00:{second} level=INFO source=x.go:1"
    return f'{head} msg="loading model" "model layers"=9 requested={layers}'


def applied(second: str, layers: int) -> str:
    """What it did."""
    return f'time=2026-05-02T10:00:{second} level=INFO source=x.go:1 msg="offloaded {layers}/9 layers to GPU"'


def test_two_models_leave_the_reader_in_doubt() -> None:
    """With two models loaded, an access line without a load could be either's."""
    found = plain(
        start("01.0Z", 1), asked("01.1Z", 9), applied("01.5Z", 9), GIN.format("03", 200, "2.5s"),
        start("05.0Z", 2, "/m/b"), asked("05.1Z", 3), applied("05.5Z", 3), GIN.format("07", 200, "2.5s"),
        GIN.format("09", 200, "1.5s"),
    )  # fmt: skip
    last = found.requests[-1]
    assert (last.runner, last.applied, last.applied_layers) == (None, Answer.UNKNOWN, None)
    assert "2 models" in last.why


def test_one_loaded_runner_settles_it() -> None:
    """`loaded runners count=1` says that the other model is gone."""
    found = plain(
        start("01.0Z", 1), asked("01.1Z", 9), applied("01.5Z", 9), GIN.format("03", 200, "2.5s"),
        start("05.0Z", 2, "/m/b"), asked("05.1Z", 3), applied("05.5Z", 3),
        'time=2026-05-02T10:00:05.6Z level=INFO source=sched.go:1 msg="loaded runners" count=1',
        GIN.format("07", 200, "2.5s"), GIN.format("09", 200, "1.5s"),
    )  # fmt: skip
    assert (found.requests[-1].runner, found.requests[-1].reused) == ("r2", True)


def test_layers_are_clipped_to_what_the_model_has() -> None:
    """num_gpu=999 asks for all: 9 of 9 is what was asked; 5 of 9 is not."""
    full = plain(start("01.0Z", 1), asked("01.1Z", 999), applied("01.5Z", 9), GIN.format("03", 200, "2.5s"))
    half = plain(start("01.0Z", 1), asked("01.1Z", 999), applied("01.5Z", 5), GIN.format("03", 200, "2.5s"))
    assert (full.requests[0].applied, half.requests[0].applied) == (Answer.YES, Answer.NO)


def test_a_load_of_another_request_is_not_its_own() -> None:
    """A runner that was started before the request began is no load of it, whatever the order of the lines."""
    found = plain(start("01.0Z", 1), asked("01.1Z", 9), applied("01.5Z", 9), GIN.format("20", 200, "1.5s"))
    (request,) = found.requests
    assert (request.reused, request.requested_layers, request.applied) == (True, None, Answer.UNKNOWN)
    assert request.runner == "r1" and request.applied_layers == 9


def test_call_sites_that_contradict_each_other() -> None:
    """Lines of two releases in one stream give no release at all."""
    found = plain(
        'time=2026-05-02T10:00:00.0Z level=INFO source=server.go:431 msg="starting runner" cmd="/o runner --port 1"',
        'time=2026-05-02T10:00:01.0Z level=INFO source=server.go:433 msg="starting runner" cmd="/o runner --port 2"',
    )
    assert (found.version.low, found.version.high) == (None, None)
    assert [n.kind for n in found.notes] == ["version"]


def planned(*lines: str, library: str = "cuda", layers: int = 33, requested: int = -1) -> ServerLog:
    """A server of 0.9 that plans, starts a runner, prints `lines` and serves a request."""
    at = "time=2025-07-20T10:01:0{}.000Z level=INFO source="
    return plain(
        at.format(0) + f"server.go:175 msg=offload library={library} layers.requested={requested} layers.model=33 "
        f"layers.offload={layers} layers.split=",
        at.format(0)
        + 'server.go:438 msg="starting llama server" cmd="/usr/bin/ollama runner --model /m/b --port 41001"',
        *lines,
        at.format(3) + 'server.go:637 msg="llama runner started in 2.00 seconds"',
        '[GIN] 2025/07/20 - 10:01:09 | 200 |  9.9s |       127.0.0.1 | POST     "/api/generate"',
    )


HOST = "load_tensors:   CPU_Mapped model buffer size =   908.23 MiB"
ONLY_CPU = "load_backend: loaded CPU backend from /usr/lib/ollama/libggml-cpu-haswell.so"


@pytest.mark.parametrize("library", ["cuda", "rocm"])
def test_a_plan_for_a_gpu_that_ends_on_the_cpu(library: str) -> None:
    """The note names the plan and the line that shows where the weights are; the request did not run as asked."""
    server = planned(ONLY_CPU, HOST, library=library)
    (note,) = server.notes
    assert note.kind == "fallback" and f"planned 33 of 33 layers for {library}" in note.text
    assert [number(ref) for ref in note.refs] == [1, 4]
    assert server.requests[0].applied is Answer.NO and server.runners[0].applied_layers == 0
    assert server.runners[0].layout is None


@pytest.mark.parametrize(
    ("lines", "options"),
    [
        ((), {}),
        ((ONLY_CPU,), {}),
        (("load_backend: loaded CUDA backend from /usr/lib/ollama/libggml-cuda.so", HOST), {}),
        ((HOST, "load_tensors:        CUDA0 model buffer size =  1918.35 MiB"), {}),
        (("load_tensors:        CUDA_Host model buffer size =  1918.35 MiB",), {}),
        ((ONLY_CPU, HOST), {"layers": 0}),
        ((ONLY_CPU, HOST), {"library": "cpu"}),
        ((ONLY_CPU, HOST), {"requested": 0}),
    ],
)
def test_no_fallback_without_proof(lines: tuple[str, ...], options: dict[str, Any]) -> None:
    """Without the lines of the weights, with a GPU library or a GPU's buffer, and where the server itself planned
    nothing for a GPU or nothing was asked of it, no fallback is told."""
    server = planned(*lines, **options)
    assert not [note for note in server.notes if note.kind == "fallback"]
    assert server.requests[0].applied is Answer.UNKNOWN


def test_a_gpu_beside_a_line_that_finds_none_leaves_it_open() -> None:
    """Lines of two servers that stand among each other (a container log without names) are no fallback of either: the
    plan may be the one's and the runner the other's."""
    found = plain(
        'time=2025-07-20T10:00:00.1Z level=INFO source=gpu.go:377 msg="no compatible GPUs were discovered"',
        'time=2025-07-20T10:00:00.2Z level=INFO source=types.go:130 msg="inference compute" id=GPU-1 library=cuda '
        'compute=6.1 driver=12.4 name="NVIDIA GeForce GTX 1080" total="8.0 GiB" available="7.1 GiB"',
        "time=2025-07-20T10:01:00.1Z level=INFO source=server.go:175 msg=offload library=cuda layers.requested=-1 "
        "layers.model=29 layers.offload=29",
        'time=2025-07-20T10:01:00.2Z level=INFO source=server.go:438 msg="starting llama server" '
        'cmd="/usr/bin/ollama runner --model /m/b --port 41001"',
        HOST,
        'time=2025-07-20T10:01:03.0Z level=INFO source=server.go:637 msg="llama runner started in 2.00 seconds"',
        '[GIN] 2025/07/20 - 10:01:09 | 200 |  9.9s |       127.0.0.1 | POST     "/api/generate"',
    )
    assert [(note.kind, tuple(map(number, note.refs))) for note in found.notes] == [("contradiction", (1,))]
    assert found.requests[0].applied is Answer.UNKNOWN and found.runners[0].applied_layers is None


def test_a_cache_on_a_device_tells_where_the_layers_are() -> None:
    """A runner whose log shows neither weights nor a count of layers."""
    server = planned("llama_kv_cache:      ROCm0 KV buffer size =   224.00 MiB", library="rocm")
    assert server.runners[0].backends == (Backend.ROCM,)
    server = planned("llama_kv_cache:        CPU KV buffer size =   224.00 MiB", library="rocm")
    assert server.runners[0].backends == ()
