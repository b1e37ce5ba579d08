"""The promise: what a binary says about itself is read from its own words, in every build's form."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.engine import Device
from stillruns.normalise import engine
from stillruns.normalise.system_info import features

GOLDEN = Path(__file__).parents[1] / "golden" / "engine"


def read(build: str) -> engine.EngineText:
    """The four outputs of one build (b3640 is composed, the others are real)."""
    return engine.read(
        *((GOLDEN / f"{build}.{kind}.raw").read_bytes() for kind in ("help", "devices", "version", "system"))
    )


@pytest.mark.parametrize("build", ["b10068", "b10092", "b10434"])
def test_real_builds(build: str) -> None:
    """All aliases, the accepted values, the devices and the CPU features of three real builds."""
    found = read(build)
    wanted = {
        "-ngl",
        "--gpu-layers",
        "--n-gpu-layers",
        "-t",
        "--threads",
        "-fa",
        "--flash-attn",
        "--list-devices",
        "-lv",
    }
    wanted |= {"--device", "-dev", "-fit", "--no-warmup", "--warmup", "-c", "--ctx-size", "-np", "--no-op-offload"}
    assert wanted <= found.flags
    assert len(found.flags) > 380
    assert found.values["-fa"] == found.values["--flash-attn"] == ("on", "off", "auto")
    assert found.values["--split-mode"] == ("none", "layer", "row", "tensor")
    assert found.values["-ctk"][:3] == ("f32", "f16", "bf16")
    assert "--device" not in found.values
    assert "-ngl" not in found.values
    assert found.devices == (Device("Vulkan0", "llvmpipe (LLVM 15.0.6, 256 bits)", 2048, 2048),)
    assert found.system_info["AVX2"] == "1"
    assert ("AVX512" in found.system_info) == (build != "b10068")


def test_removed_options_are_not_accepted() -> None:
    """An option that the help lists as removed is none that the binary accepts."""
    flags = read("b10434").flags
    assert "--draft-max" not in flags
    assert "--spec-draft-n-max" in flags
    assert "--load-mode" in flags
    assert "--no-mmap" in flags  # deprecated there, not gone


def test_versions() -> None:
    """The version's text, in its two forms."""
    assert read("b10068").version == "1 (571d0d5)"
    assert read("b10434").version == "0.1.0-dev (build 1, commit 7e4c0a9)"


def test_old_build() -> None:
    """b3640: indented help, no --list-devices, system_info in the server's own form."""
    found = read("b3640")
    assert {
        "-h",
        "--usage",
        "--version",
        "--verbosity",
        "--gpu-layers",
        "--lookup-cache-static",
        "-sm",
    } <= found.flags
    assert found.values == {"--rope-scaling": ("none", "linear", "yarn")}
    assert isinstance(found.devices, Absence)
    assert found.devices.reason is AbsenceReason.NOT_COLLECTED
    assert found.version == "3640 (7d787ed9)"
    assert found.system_info == {"AVX": "1", "AVX_VNNI": "0", "AVX2": "1", "AVX512": "0", "FMA": "1"}


def test_no_device_is_an_empty_list() -> None:
    """`(none)` is an answer: no device, which is not an absence."""
    assert engine.read(b"", b"Available devices:\n  (none)\n", b"", b"").devices == ()


def test_device_names_with_parentheses() -> None:
    """Names and descriptions keep their own parentheses and brackets."""
    raw = (
        b"Available devices:\n"
        b"  Vulkan0: AMD Radeon RX Vega (RADV VEGA10) (8176 MiB, 8112 MiB free)\n"
        b"  RPC0: 127.0.0.1:50052\n"
    )
    assert engine.read(b"", raw, b"", b"").devices == (
        Device("Vulkan0", "AMD Radeon RX Vega (RADV VEGA10)", 8176, 8112),
        Device("RPC0", "127.0.0.1:50052", None, None),
    )


def test_nothing_is_absent() -> None:
    """Empty outputs are absences with a reason, never defaults."""
    found = engine.read(b"", b"", b"", b"")
    assert found.flags == frozenset()
    assert isinstance(found.devices, Absence)
    assert isinstance(found.version, Absence)
    assert found.system_info == {}


def test_features_by_backend() -> None:
    """Features of other backends carry its name, the CPU's do not."""
    line = "system_info: n_threads = 8 (n_threads_batch = 8) / 16 | ROCm : NO_VMM = 1 | CPU : SSE3 = 1 | AVX2 = 1 | "
    assert features(line) == {"ROCm.NO_VMM": "1", "SSE3": "1", "AVX2": "1"}
    assert features("no such line") == {}


@given(st.binary(max_size=500))
def test_any_bytes(data: bytes) -> None:
    """Any bytes in any place are read or named."""
    engine.read(data, data, data, data)
    engine.read(b"-x, --yy " + data, b"Available devices:\n" + data, b"version: " + data, b"system_info: " + data)


def test_devices_that_cannot_be_listed_say_why() -> None:
    """A program that the loader refuses prints no list; its own words are the reason, the first about a trouble."""
    refused = b"note: x\nllama-server: /lib/libc.so.6: version `GLIBC_2.38' not found (required by llama-server)\n"
    found = engine.read(b"", refused, b"", b"")
    assert isinstance(found.devices, Absence)
    assert "'llama-server: /lib/libc.so.6: version `GLIBC_2.38' not found" in found.devices.detail


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"build: 3640\n", ""),
        (
            b"/a/llama-server: error while loading shared libraries: libgomp.so.1: cannot open shared object file: No"
            b" such file or directory\n",
            "it needs libgomp.so.1, which is not here; install the package that has it (Debian and Ubuntu: libgomp1)",
        ),
        (
            b"s: error while loading shared libraries: libx.so.3: cannot open shared object file: No such file\n",
            "it needs libx.so.3, which is not here; install the package that has it",
        ),
        (
            b"s: error while loading shared libraries: libx.so.3: wrong ELF class: ELFCLASS32\n",
            "error while loading shared libraries: libx.so.3: wrong ELF class: ELFCLASS32; take a build for this "
            "system, or build it here",
        ),
        (
            b"s: /lib/libc.so.6: version `GLIBC_2.38' not found (required by s)\n",
            "s: /lib/libc.so.6: version `GLIBC_2.38' not found (required by s); take a build for this system, or "
            "build it here",
        ),
    ],
)
def test_what_the_loader_refused(said: bytes, why: str) -> None:
    """A library that is missing is named with what brings it; every other refusal is quoted."""
    assert engine.refusal(said) == why
