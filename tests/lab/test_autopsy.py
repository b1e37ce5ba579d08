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
