"""The promise: from real device code in a fake installation to the verdict, and damage costs one sentence."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import device_code
import machines
import sysroots
from stillruns.collect.gathering import NoCommands
from stillruns.collect.tree import FileTree
from stillruns.errors import UsageError
from stillruns.lab.machines.machine import CheckRequest, named_runtimes, read_machine
from stillruns.model.gate import Gate, GateStatus, Layer

GOLDEN = Path(__file__).parents[1] / "golden" / "code_objects"
RUNNER = "usr/local/lib/ollama/rocm/libggml-hip.so"
FOLDER = "usr/local/lib/ollama/rocm/rocblas/library"


def verdict(root: Path, layer: Layer, target: str = "gfx906") -> Gate:
    """One gate of an installation."""
    return machines.gate(machines.judged(machines.of(root), target), layer)


@pytest.mark.parametrize(
    ("name", "target", "status"),
    [("two.so", "gfx900", GateStatus.ALLOW), ("two.so", "gfx90a", GateStatus.BLOCK),
     ("generic.so", "gfx900", GateStatus.ALLOW), ("generic.so", "gfx906:sramecc+", GateStatus.ALLOW),
     ("generic.so", "gfx906", GateStatus.PARTIAL), ("twoc.so", "gfx906", GateStatus.PARTIAL)],
)  # fmt: skip
def test_compiled_objects(tmp_path: Path, name: str, target: str, status: GateStatus) -> None:
    """Libraries that clang made: exact and generic targets, compressed bundles, a target in some bundles only."""
    place = sysroots.write(tmp_path, RUNNER, b"")
    shutil.copy(GOLDEN / f"{name}.raw", place)
    gate = verdict(tmp_path, Layer.CODE_OBJECTS, target)
    assert gate.status is status, gate.reason
    assert gate.evidence[0].source == f"/{RUNNER}" and gate.evidence[0].sha256.startswith("sha256:")


def test_damaged_library(tmp_path: Path) -> None:
    """A cut file, absurd sizes, an empty file, a FIFO's place: unknown with one sentence, never a traceback."""
    whole = (GOLDEN / "two.so.raw").read_bytes()
    for data in (b"", b"\x7fELF", whole[:3000], whole[:64] + b"\xff" * 4000):
        sysroots.write(tmp_path, RUNNER, data)
        gate = verdict(tmp_path, Layer.CODE_OBJECTS)
        assert gate.status in (GateStatus.UNKNOWN, GateStatus.BLOCK, GateStatus.PARTIAL) and "\n" not in gate.reason


def test_filter_and_folder(tmp_path: Path) -> None:
    """Ollama's own folder: the layout tells the release's range; the index's mere existence passes the filter."""
    sysroots.write(tmp_path, RUNNER, (GOLDEN / "two.so.raw").read_bytes())
    sysroots.write(tmp_path, f"{FOLDER}/TensileLibrary_lazy_gfx900.dat", device_code.lazy_index("gfx900", [], []))
    machine = machines.of(tmp_path)
    (runtime,) = machine.runtimes
    assert (runtime.runtime, runtime.low, runtime.high) == ("ollama", "0.5.8", "0.24.0")
    assert [folder.folder for folder in machine.libraries] == [f"/{FOLDER}"]
    perhaps = machines.gate(machines.judged(machine, "gfx906"), Layer.RUNTIME_FILTER, "vulkan")
    assert perhaps.status is GateStatus.UNKNOWN and "in some of these releases" in perhaps.reason


def test_newer_layout(tmp_path: Path) -> None:
    """rocm_v7_2 is a release from 0.30 on: its file gate drops a target without an index."""
    sysroots.write(tmp_path, RUNNER.replace("/rocm/", "/rocm_v7_2/"), (GOLDEN / "two.so.raw").read_bytes())
    folder = FOLDER.replace("/rocm/", "/rocm_v7_2/")
    sysroots.write(
        tmp_path, f"{folder}/TensileLibrary_lazy_gfx1030.dat", device_code.lazy_index("gfx1030", ["a"], [])
    )
    gate = verdict(tmp_path, Layer.RUNTIME_FILTER)
    assert gate.status is GateStatus.BLOCK and "TensileLibrary_lazy_gfx906.dat is not there" in gate.reason
    assert "0.30.0 or newer" in gate.reason


def test_named_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--runtime: a folder, or the program in it, from the tree's root; on this machine from the working folder. What
    is not there is a sentence and not an answer without it."""
    sysroots.write(tmp_path, "srv/llama/llama-server", b"\x7fELF")
    tree = FileTree(tmp_path)
    assert named_runtimes(("/srv/llama", "srv/llama/llama-server"), tree) == ("/srv/llama", "/srv/llama")
    with pytest.raises(UsageError, match=r"^--runtime /nowhere: there is no such folder"):
        named_runtimes(("/nowhere",), tree)
    monkeypatch.chdir(tmp_path)
    assert named_runtimes(("srv/llama",), FileTree()) == (f"{tmp_path}/srv/llama",)


def test_a_source_without_lists(tmp_path: Path) -> None:
    """A tree that was given and tells nothing is not called missing."""
    (tmp_path / "tree").mkdir()
    asked = CheckRequest(sources=(("ollama", tmp_path / "tree", ""),))
    machine = read_machine(FileTree(tmp_path), NoCommands(), asked).machine
    gate = machines.gate(machines.judged(machine, "gfx900"), Layer.BUILD_FILTER)
    assert gate.status is GateStatus.UNKNOWN and gate.reason.startswith("what was given as source (ollama)")
