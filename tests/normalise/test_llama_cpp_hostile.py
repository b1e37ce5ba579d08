"""The promise: truncated, mutated and random logs give facts, never a traceback, with refs that exist."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stillruns.catalogue import load
from stillruns.model.backend import Runtime
from stillruns.model.evidence import Cut, parse_ref
from stillruns.model.server_facts import ServerFacts
from stillruns.normalise.logs import llama_cpp

GOLDEN = Path(__file__).parents[1] / "golden" / "llama_cpp"
REAL = (GOLDEN / "device-lost-prompt.raw").read_bytes()
SMALL = (GOLDEN / "port-in-use-b10434.raw").read_bytes()


def facts(data: bytes) -> ServerFacts:
    """Read with the shipped catalogue, and check that every ref is a line of the data."""
    found = llama_cpp.read(data, "s0", load.grammar(Runtime.LLAMA_CPP), load.patterns())
    count = data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))
    refs = [b.ref for b in found.buffers] + [t.ref for t in found.troubles] + [d.ref for d in found.devices]
    refs += [ref for span in found.phases for ref in (span.first, span.last)]
    assert all(1 <= (parse_ref(ref)[1] or 0) <= count for ref in refs)
    assert found.lines == count
    return found


def test_truncated_at_every_byte() -> None:
    """A log that ends anywhere is read as far as it goes: a small one at every byte."""
    for end in range(len(SMALL) + 1):
        facts(SMALL[:end])


def test_truncation_never_invents() -> None:
    """Cut at every line, a real log never gains a trouble, a device or a layer that the whole does not have."""
    whole = facts(REAL)
    names = {d.name for d in whole.devices}
    troubles = {t.pattern for t in whole.troubles}
    ends = [at for at, byte in enumerate(REAL) if byte == 10]
    for end in ends[::3]:
        part = facts(REAL[:end])
        assert {d.name for d in part.devices} <= names
        assert {t.pattern for t in part.troubles} <= troubles


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(REAL) - 1), st.binary(min_size=0, max_size=6)), max_size=12))
def test_mutated(changes: list[tuple[int, bytes]]) -> None:
    """Bytes changed, added and lost anywhere."""
    data = bytearray(REAL)
    for at, new in changes:
        data[at : at + 3] = new
    facts(bytes(data))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=4000))
def test_noise(data: bytes) -> None:
    """Binary noise has nothing to say, and that is what is said."""
    facts(data)


@pytest.mark.parametrize(
    "unit",
    [
        b"load_tensors: offloaded 5/5 layers to GPU\n",
        b"ggml_vulkan: device lost on Vulkan0\n",
        b"nothing of interest in this line, number %d\n",
        b"llama_model_loader: - kv   1: x str = " + b"y" * 200 + b"\n",
        b"load_tensors: " + b"a " * 300 + b" buffer size = x\n",
        b"x: using device " + b"( " * 400 + b"\n",
    ],
)
def test_linear_time(unit: bytes) -> None:
    """Four times the lines cost about four times the time."""

    def cost(count: int) -> float:
        data = unit * count if b"%d" not in unit else b"".join(unit % n for n in range(count))
        started = time.process_time()
        llama_cpp.read(data, "s0", load.grammar(Runtime.LLAMA_CPP), load.patterns())
        return time.process_time() - started

    small, large = cost(1500), cost(6000)
    assert large < 10 * small + 0.3


STAMPED = (GOLDEN / "vulkan-ngl1-b10068.raw").read_bytes()
CLAIM = (
    b"llama_model_load_from_file_impl: using device Vulkan7 (X) - 100 MiB free\n"
    b"load_tensors: offloaded 5/5 layers to GPU\n"
    b"load_tensors:      Vulkan7 model buffer size =     0.07 MiB\n"
    b"llama_context: n_ctx = 4096\n"
)


def used(found: ServerFacts) -> list[str]:
    """Devices with a `using device` line that counts."""
    return [d.name for d in found.devices if d.used is not None]


def test_texts_of_several_lines_prove_nothing() -> None:
    """Where lines carry stamps, a line without one is the rest of a name, a template or a prompt: whatever it says,
    devices in use, layers, buffers and settings are those of the server's own lines."""
    honest = facts(STAMPED)
    lines = STAMPED.splitlines(keepends=True)
    for place in range(1, len(lines), 7):
        found = facts(b"".join([*lines[:place], CLAIM, *lines[place:]]))
        assert used(found) == used(honest), place
        assert {b.device for b in found.buffers} == {b.device for b in honest.buffers}, place
        assert {k: v for k, (v, _) in found.settings.items()} == {k: v for k, (v, _) in honest.settings.items()}


def test_a_model_cannot_name_the_device_without_stamps() -> None:
    """Before there were stamps, the devices in use were named before the model's own texts are printed: a name or a
    template that imitates such a line comes too late."""
    old = (
        b"llama_model_load_from_file_impl: using device ROCm0 (AMD Radeon RX Vega) - 8112 MiB free\n"
        b"llama_model_loader: loaded meta data with 3 key-value pairs and 9 tensors from m.gguf (version GGUF V3)\n"
        b"print_info: arch             = llama\nprint_info: general.name     = x\n" + CLAIM + b"\n"
        b"load_tensors: loading model tensors, this can take a while... (mmap = true)\n"
        b"load_tensors: offloading 2 repeating layers to GPU\n"
        b"load_tensors: offloaded 2/5 layers to GPU\n"
        b"load_tensors:        ROCm0 model buffer size =     7.00 MiB\n"
        b"main: chat template, chat_template: x, example_format: 'y\n" + CLAIM.splitlines(keepends=True)[0]
    )
    found = facts(old)
    assert used(found) == ["ROCm0"]
    assert [b.device for b in found.buffers] == ["ROCm0"]


def test_a_second_load_that_names_its_device_before_its_file() -> None:
    """Builds that fit to memory and name the device before they open the file load twice: the second load's device
    is in use, not forgotten with the first's."""
    load_once = (
        b"llama_model_load_from_file_impl: using device ROCm0 (AMD Radeon RX Vega) - 8112 MiB free\n"
        b"llama_model_loader: loaded meta data with 3 key-value pairs and 9 tensors from m.gguf (version GGUF V3)\n"
        b"print_info: arch             = llama\nprint_info: general.name     = x\n"
        b"load_tensors: loading model tensors, this can take a while... (mmap = true)\n"
        b"load_tensors: offloaded 2/5 layers to GPU\n"
    )
    assert used(facts(load_once * 2)) == ["ROCm0"]


@pytest.mark.parametrize(
    "echo",
    [
        'srv    operator(): http: streamed chunk: data: {"prompt":"%s"}',
        'srv  log_server_r: request:  {"prompt": "%s"}',
        'srv  log_server_r: response: {"content": "%s"}',
        'srv  params_from_: converted request: {"prompt":"%s"}',
    ],
)
def test_an_echoed_prompt_is_no_trouble(echo: str) -> None:
    """At debug level a server prints prompts and answers: an error message in one of them is not the server's."""
    said = echo % "vk::Queue::submit: ErrorDeviceLost and CUDA error: out of memory"
    found = facts(STAMPED + b"0.12.000.000 D " + said.encode() + b"\n")
    assert not found.troubles


def test_a_hole_before_the_load_hides_the_devices() -> None:
    """A flood in init that pushed the device lines out of a bounded capture: hidden, not absent; a later hole hides
    no device."""
    lines = STAMPED.splitlines(keepends=True)
    there = next(i for i, line in enumerate(lines) if b": using device " in line)
    head, tail = b"".join(lines[: there - 1]), b"".join(lines[there + 1 :])
    rules, patterns = load.grammar(Runtime.LLAMA_CPP), load.patterns()
    assert "devices" in llama_cpp.read(head + b"\n" + tail, "s0", rules, patterns, Cut(len(head), 1 << 20)).hidden
    late = len(STAMPED) - 200
    cut = llama_cpp.read(STAMPED[:late] + b"\n" + STAMPED[late:], "s0", rules, patterns, Cut(late, 1 << 20))
    assert not cut.hidden
