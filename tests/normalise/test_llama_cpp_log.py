"""The promise: a llama.cpp log is read as it was meant, in every generation, and never as more than it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stillruns.catalogue import load
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.backend import Runtime
from stillruns.model.evidence import Cut, parse_ref
from stillruns.model.phase import Phase
from stillruns.model.server_facts import Offload, ServerFacts
from stillruns.normalise.logs import llama_cpp, ollama_model

GOLDEN = Path(__file__).parents[1] / "golden" / "llama_cpp"
CASES = sorted(path.stem for path in GOLDEN.glob("*.raw"))


def facts(data: bytes, cut: Cut | None = None) -> ServerFacts:
    """Read with the shipped catalogue."""
    return llama_cpp.read(data, "s0", load.grammar(Runtime.LLAMA_CPP), load.patterns(), cut)


def shown(found: ServerFacts, key: str) -> Any:
    """One expectation's side of the facts, as JSON would hold it."""
    if key == "offload":
        o = found.offload
        return (
            o.reason.value if isinstance(o, Absence) else [o.offloaded, o.total, o.repeating, o.output, o.overflowing]
        )
    if key == "buffers":
        by_device: dict[str, list[str]] = {}
        for buffer in found.buffers:
            by_device.setdefault(buffer.device, []).append(buffer.purpose)
        return by_device
    views: dict[str, Any] = {
        "version": found.version,
        "verbosity": found.verbosity,
        "devices": [d.name for d in found.devices],
        "targets": [d.target for d in found.devices],
        "used": [d.name for d in found.devices if d.used],
        "backends": [[backend.value, library] for backend, library, _ in found.backends_loaded],
        "phases": [span.phase.value for span in found.phases],
        "last_phase": found.last_phase.value,
        "troubles": [[t.pattern, t.phase.value, t.device] for t in found.troubles],
        "model_loaded": found.model_loaded is not None,
        "clean_end": found.clean_end is not None,
        "hidden": list(found.hidden),
        "notes": list(found.notes),
        "timings": [[t.prompt_tokens, t.predicted_tokens] for t in found.timings],
    }
    return views[key]


@pytest.mark.parametrize("case", CASES)
def test_golden_log(case: str) -> None:
    """Every golden log gives what stands beside it: what is named there is compared, `origin` says whence."""
    expect = json.loads((GOLDEN / f"{case}.expect.json").read_text())
    assert expect.pop("origin") in ("real", "composed")
    data = (GOLDEN / f"{case}.raw").read_bytes()
    found = facts(data)
    for part in expect.pop("note_contains", []):
        assert any(part in note for note in found.notes), found.notes
    for name, value in expect.pop("settings", {}).items():
        assert found.settings[name][0] == value
    for name, value in expect.pop("system_info", {}).items():
        assert found.system_info[name] == value
    assert {key: shown(found, key) for key in expect} == expect
    last = data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))
    assert found.lines == last
    for ref in [span.last for span in found.phases] + [t.ref for t in found.troubles]:
        assert 1 <= (parse_ref(ref)[1] or 0) <= last


def test_lines_hold_what_refs_say() -> None:
    """A ref leads to the very line in the bytes."""
    data = (GOLDEN / "vulkan-ngl2-b10092.raw").read_bytes()
    found = facts(data)
    rows = data.split(b"\n")
    assert isinstance(found.offload, Offload)
    assert b"offloaded 2/5" in rows[(parse_ref(found.offload.ref)[1] or 0) - 1]
    used = next(d for d in found.devices if d.used)
    assert b"using device Vulkan0" in rows[(parse_ref(used.used or "")[1] or 0) - 1]
    for buffer in found.buffers:
        assert b"buffer size" in rows[(parse_ref(buffer.ref)[1] or 0) - 1]


def test_empty_log() -> None:
    """Nothing in, nothing out: all absent, with the reason."""
    found = facts(b"")
    assert isinstance(found.offload, Absence)
    assert found.offload.reason is AbsenceReason.NOT_COLLECTED
    assert (found.devices, found.buffers, found.troubles, found.lines) == ((), (), (), 0)
    assert found.last_phase is Phase.UNKNOWN


def test_death_in_the_prompt_is_not_told_from_the_first_decode_steps() -> None:
    """After `init sampler` the newer builds print nothing: the phase is prompt, and a note says what is not known."""
    data = (GOLDEN / "vulkan-all-b10434.raw").read_bytes()
    at = data.index(b"print_timing")
    found = facts(data[: data.rindex(b"\n", 0, at) + 1])
    assert found.last_phase is Phase.PROMPT
    assert any("decode" in note for note in found.notes)


def test_debug_lines_tell_decode() -> None:
    """With -lv 5 each token has its line, so that a death while decoding reads as decode, without the note."""
    data = (GOLDEN / "lv5-b10068.raw").read_bytes()
    at = data.index(b"n_decoded = 2")
    found = facts(data[: data.index(b"\n", at) + 1])
    assert found.last_phase is Phase.DECODE


def test_idle_is_no_phase() -> None:
    """A server that died while it waited died in no phase: the log does not say more."""
    data = (GOLDEN / "vulkan-all-b10434.raw").read_bytes()
    at = data.index(b"all slots are idle")
    assert facts(data[: data.index(b"\n", at) + 1]).last_phase is Phase.UNKNOWN


def test_death_before_the_layer_line_is_not_zero_layers() -> None:
    """Cut off in the load: an absence that names the phase, never `0 layers`."""
    data = (GOLDEN / "vulkan-ngl2-b10092.raw").read_bytes()
    found = facts(data[: data.index(b"load_tensors: offloading output")])
    assert isinstance(found.offload, Absence)
    assert found.offload.reason is AbsenceReason.NOT_COLLECTED
    assert "load" in found.offload.detail
    assert found.last_phase is Phase.LOAD


def test_quiet_log_that_ends_in_the_load() -> None:
    """At -lv 3 a death in load, reserve or warm-up looks the same: said so, and the layers are hidden."""
    data = (GOLDEN / "lv3-b10068.raw").read_bytes()
    found = facts(data[: data.index(b"load_model: initializing")])
    assert isinstance(found.offload, Absence)
    assert found.offload.reason is AbsenceReason.HIDDEN
    assert any("warmup look alike" in note for note in found.notes)


def test_cut_capture() -> None:
    """What may lie in the part that a bounded capture left out is not claimed to be missing from the server."""
    data = (GOLDEN / "vulkan-ngl2-b10092.raw").read_bytes()
    head = data.index(b"load_tensors: offloading output")
    tail = data.index(b"llama_context: constructing")
    found = facts(data[:head] + data[tail:], Cut(head, tail - head))
    assert isinstance(found.offload, Absence)
    assert "cut out" in found.offload.detail
    assert any("cut out" in note for note in found.notes)


def test_flood_is_bounded() -> None:
    """A flood of one error keeps its first lines and counts the rest."""
    found = facts(b"ggml_vulkan: device lost on Vulkan0\n" * 5000)
    assert len(found.troubles) == 200
    assert found.troubles[0].device == "Vulkan0"
    assert any("4800 further" in note for note in found.notes)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("print_info: file type   = Q4_K - Medium", "Q4_K"),
        ("print_info: file type   = (guessed) Q4_0", "Q4_0"),
        ("print_info: file type   = all F32", ""),
        ("0.00.031.009 I print_info: file type   = F16", "F16"),
        ("llm_load_print_meta: model ftype      = Q8_0", "Q8_0"),
        ('time=2026-03-04T05:06:07Z level=INFO source=ggml.go:141 msg="" architecture=llama file_type=MXFP4 name=x',
         "MXFP4"),
        ("llama_model_loader: - kv   7:  general.name str = print_info: file type   = F16", ""),
        ("srv  log_server_r: request: print_info: file type   = F16 ", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_type_of_the_weights(line: str, expected: str) -> None:
    """The line of each runtime names the type of the weights; a model's or a prompt's text does not."""
    assert facts(f"{line}\n".encode()).file_type == expected


def test_the_last_load_names_the_type() -> None:
    """Of several loads the last counts, and in a log with time stamps a line without one is a text."""
    first = "0.00.030.117 I main: loading\n0.00.031.009 I print_info: file type   = Q4_0\n"
    second = "0.01.031.009 I print_info: file type   = F16\n"
    assert facts((first + second).encode()).file_type == "F16"
    assert facts((first + "print_info: file type   = F16\n").encode()).file_type == "Q4_0"


@pytest.mark.parametrize(
    "announced", ["srv    load_model: loading draft model '/d.gguf'",
                  "0.00.165.254 I common_speculative_init_result: loading draft model '/d.gguf'"],
)  # fmt: skip
def test_a_draft_does_not_name_the_type(announced: str) -> None:
    """A draft in F16 beside a model in Q4_0 does not make the model's weights fine."""
    head = "llama_model_loader: loaded meta data with 23 key-value pairs and 12 tensors from {} (version GGUF V3)"
    log = [head.format("/m.gguf"), "print_info: file type   = Q4_0", announced.split(" I ")[-1]]
    log += [head.format("/d.gguf"), "print_info: file type   = F16", "srv  llama_server: model loaded"]
    if announced.startswith("0."):
        log = [f"0.00.165.254 I {line}" for line in log]
    assert facts("\n".join(log).encode()).file_type == "Q4_0"


LOGS = sorted(path for name in ("llama_cpp", "ollama", "autopsy") for path in (GOLDEN.parent / name).rglob("*.raw"))


@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_one_pass_finds_the_type_that_a_walk_of_its_own_finds(path: Path) -> None:
    """In every golden log."""
    data = path.read_bytes()
    told = [kind for _, kind in ollama_model.file_types(data)]
    assert facts(data).file_type == (told[-1] if told else "")
