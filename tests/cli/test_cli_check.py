"""The promise: `check` and `snapshot` as a person calls them: documents, exit codes, sentences, and nothing
written."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import jsonschema
import pytest

import program
import sysroots

SCHEMAS = Path(__file__).parents[2] / "docs/schemas"
SCHEMA = json.loads((SCHEMAS / "gates.json").read_text(encoding="utf-8"))


def stillruns(*words: str | Path, home: Path) -> subprocess.CompletedProcess[str]:
    """The program without a store."""
    return program.stillruns(*words, cwd=home, STILLRUNS_STORE=str(home / "no-store"), HOME=str(home))


@pytest.fixture()
def root(tmp_path: Path) -> Path:
    """An MI50 that Vulkan can use, and a runtime with that backend."""
    place = tmp_path / "root"
    sysroots.mi50(place)
    sysroots.write(place, "usr/lib/x86_64-linux-gnu/ggml/backends0/libggml-vulkan.so", b"\x7fELF")
    sysroots.vulkan(place)
    sysroots.host(place)
    sysroots.nodes(place, "dev/kfd", "dev/dri/renderD128", mode=0o666)
    return place


def listing(root: Path) -> list[str]:
    """Every path below a folder."""
    return sorted(str(path) for path in root.rglob("*"))


def test_json(root: Path, tmp_path: Path) -> None:
    """One document of the schema on stdout, exit code 0 for an open path, nothing written anywhere."""
    before = listing(tmp_path)
    done = stillruns("check", "--json", "--no-exec", "--sysroot", root, home=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    jsonschema.validate(document, SCHEMA)
    assert {(p["path"], p["status"]) for p in document["paths"]} == {
        ("rocm", "unknown"),
        ("vulkan", "open"),
        ("cpu", "unknown"),
    }
    assert all(gate["evidence"] for gate in document["gates"] if gate["status"] == "block")
    assert listing(tmp_path) == before


def test_an_empty_folder_is_no_store(root: Path, tmp_path: Path) -> None:
    """One that waits for its first run does not stop a check; one that was named is a slip."""
    store = tmp_path / "no-store"
    store.mkdir()
    words = ("check", "--json", "--no-exec", "--sysroot", root)
    done = stillruns(*words, home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    named = stillruns(*words, "--store", store, home=tmp_path)
    assert named.returncode == 3 and "there is no store at" in named.stderr
    assert not list(store.iterdir())


def test_text(root: Path, tmp_path: Path) -> None:
    """The matrix, a line a path, a line a card; places only when asked for."""
    done = stillruns("check", "--no-exec", "--sysroot", root, home=tmp_path)
    assert "why was my GPU skipped?" in done.stdout and "vulkan gfx906 04:00.0" in done.stdout
    assert all(len(line) <= 140 or "/" in line for line in done.stdout.splitlines())  # a long path is never broken
    assert "/sys/class/kfd" not in done.stdout
    shown = stillruns("check", "--no-exec", "--evidence", "--sysroot", root, home=tmp_path)
    assert "/sys/class/kfd/kfd/topology/nodes/1/properties L" in shown.stdout and "sha256:" in shown.stdout


def test_no_open_path(tmp_path: Path) -> None:
    """Exit code 1 when nothing is open."""
    (tmp_path / "empty").mkdir()
    done = stillruns("check", "--no-exec", "--target", "gfx906", "--sysroot", tmp_path / "empty", home=tmp_path)
    assert done.returncode == 1 and done.stderr == ""


@pytest.mark.parametrize(
    "words",
    [["--target", "vega"], ["--target", "gfx9-generic"], ["--sysroot", "/nonexistent"], ["--sysroot", "/dev/null"],
     ["--source", "ollama"],
     ["--source", "ollama=/nonexistent"], ["--model", "/dev/null"]],
    ids=str,
)  # fmt: skip
def test_usage(words: list[str], tmp_path: Path) -> None:
    """A wrong argument is one sentence and exit code 2."""
    (tmp_path / "empty").mkdir()
    more = [] if "--sysroot" in words else ["--sysroot", tmp_path / "empty"]
    done = stillruns("check", "--no-exec", *words, *more, home=tmp_path)
    assert done.returncode == 2 and done.stdout == "" and len(done.stderr.strip().splitlines()) == 1


def test_this_machine(tmp_path: Path) -> None:
    """The machine that runs the tests, whatever it is: an answer, no traceback, no fault of ours."""
    done = stillruns("check", "--json", "--no-exec", home=tmp_path)
    assert done.returncode in (0, 1) and "fault" not in done.stderr and done.stderr == ""
    jsonschema.validate(json.loads(done.stdout), SCHEMA)


def test_snapshot_and_back(root: Path, tmp_path: Path) -> None:
    """Packed here, judged there: the same paths."""
    packed = tmp_path / "machine.tar.zst"
    done = stillruns("snapshot", packed, "--no-exec", "--sysroot", root, home=tmp_path)
    assert done.returncode == 0 and "check --sysroot" in done.stdout
    here = json.loads(stillruns("check", "--json", "--sysroot", root, home=tmp_path).stdout)
    there = json.loads(stillruns("check", "--json", "--sysroot", packed, home=tmp_path).stdout)
    assert here["paths"] == there["paths"] and there["machine"] == str(packed)


def test_a_name_that_is_a_word_of_logs(root: Path, tmp_path: Path) -> None:
    """Somebody who packs a machine is told which names no rule can find everywhere."""
    sysroots.write(root, "etc/passwd", "root:x:0:0::/root:/bin/sh\nvega:x:1000:1000::/home/vega:/bin/sh")
    done = stillruns("snapshot", tmp_path / "m.tar.zst", "--no-exec", "--sysroot", root, home=tmp_path)
    assert done.returncode == 0 and "vega" in done.stderr and "before you send it" in done.stderr


def test_hostile_sysroot(root: Path, tmp_path: Path) -> None:
    """Loops, FIFOs, links out of the tree, huge and binary files in the places that are read: an answer, in time."""
    for path in ("proc/cpuinfo", "etc/group", "var/log/dmesg", "usr/share/vulkan/icd.d/pipe.json"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).unlink(missing_ok=True)
        os.mkfifo(root / path)
    sysroots.link(root, "opt/rocm", "rocm")
    sysroots.link(root, "usr/local/lib/ollama", "../../../usr/local/lib/ollama")
    sysroots.link(root, "etc/ld.so.conf", "/../../../../etc/shadow")
    sysroots.write(root, "var/lib/dpkg/status", bytes(range(256)) * 4096)
    sysroots.write(root, "var/log/kern.log", b"\xff" * (5 << 20))
    sysroots.write(root, "usr/lib/ollama/rocm/libggml-hip.so", b"\x7fELF" + b"\xff" * 10_000)
    done = stillruns("check", "--json", "--sysroot", root, home=tmp_path)
    assert done.returncode in (0, 1) and done.stderr == ""
    jsonschema.validate(json.loads(done.stdout), SCHEMA)


def test_builds(tmp_path: Path) -> None:
    """Which releases carry gfx906: Ollama up to 0.12.3, Debian's packages, not today's releases."""
    done = stillruns("check", "--builds", "--target", "gfx906", "--json", home=tmp_path)
    document = json.loads(done.stdout)
    jsonschema.validate(document, json.loads((SCHEMAS / "builds.json").read_text(encoding="utf-8")))
    ollama = {
        row["from"]: row["carries"]
        for row in document["builds"]
        if row["runtime"] == "ollama" and row["platform"] == "linux"
    }
    windows = {row["from"]: row["carries"] for row in document["builds"] if row["platform"] == "windows"}
    assert windows["v0.6.4"] is None  # the recipe is described, the list is not given: no guess
    assert ollama["v0.6.4"] and not ollama["v0.12.4"] and not ollama["v0.31.2"]
    assert {row["package"] for row in document["packages"]} >= {"librocblas4", "libggml0-backend-hip"}
    done = stillruns("check", "--builds", "--target", "gfx906", home=tmp_path)
    assert "librocblas4" in done.stdout
    yes, no = [line for line in done.stdout.splitlines() if line.startswith("ollama") and " linux " in line]
    assert "v0.1.20" in yes and "v0.12.3" in yes and "v0.12.4" in no and "newest read" in no


@pytest.mark.parametrize("target", ["foo", "sm_61"])
def test_builds_of_no_amd_target(target: str, tmp_path: Path) -> None:
    """The lists are of ROCm builds: a word that is no target, and NVIDIA's, get a sentence and no "no"."""
    done = stillruns("check", "--builds", "--target", target, home=tmp_path)
    assert done.returncode == 2 and done.stdout == "" and target in done.stderr


@pytest.mark.engine
def test_device_init_comes_last(tmp_path: Path) -> None:
    """The matrix is printed first; then the runtime is asked in a child, and what that adds is said."""
    done = stillruns("check", home=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    before, _, after = done.stdout.partition("after running the backends' own listings")
    assert "device init" in before and "unknown" in before
    assert "device init [cpu] allow" in after and "starts on this CPU" in after
