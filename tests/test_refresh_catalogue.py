"""The promise: one command recomputes the catalogue's tables from checkouts, and says by name what changed."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import real_parts

ROOT = Path(__file__).parent.parent
FLAG = """    add_opt(common_arg(
        {{"-x", "--{name}"}}, "N",
        "help", [](common_params & params, int value) {{ params.x = value; }}
    ).set_env("LLAMA_ARG_X"));
"""


def run(script: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """The copy of the script in a checkout of its own."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    argv = [sys.executable, str(script), *args]
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture()
def script(tmp_path: Path) -> Path:
    """The script beside a copy of the tables, so that the shipped ones stay as they are."""
    real_parts.git()  # the script asks it for a tree's release
    shutil.copytree(ROOT / "scripts", tmp_path / "repo" / "scripts")
    data = "src/stillruns/catalogue/data/options"
    shutil.copytree(ROOT / data, tmp_path / "repo" / data)
    return tmp_path / "repo" / "scripts" / "refresh_catalogue.py"


def git(folder: Path, *words: str) -> None:
    """Git with an identity of its own."""
    names = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }
    subprocess.run(
        [real_parts.git(), "-C", str(folder), *words], env={**os.environ, **names}, check=True, capture_output=True
    )


def test_llama_cpp(script: Path, tmp_path: Path) -> None:
    """Flags, variables, options and programs of a tree; `--check` writes nothing; a second run changes nothing."""
    tree = tmp_path / "llama.cpp"
    for folder in ("common", "tools/server", "ggml/src/ggml-vulkan"):
        (tree / folder).mkdir(parents=True)
    (tree / "common" / "arg.cpp").write_text(FLAG.format(name="exa"))
    (tree / "tools" / "server" / "CMakeLists.txt").write_text("set(TARGET llama-server)\n")
    (tree / "tools" / "server" / "server.cpp").write_text(
        "common_params_parse(argc, argv, p, LLAMA_EXAMPLE_SERVER);\n"
    )
    (tree / "ggml" / "src" / "ggml-vulkan" / "v.cpp").write_text('getenv("GGML_VK_NEW");\n')
    (tree / "CMakeLists.txt").write_text('option(LLAMA_NEW "x" OFF)\n')
    table = script.parents[1] / "src/stillruns/catalogue/data/options/llama_flags.csv"
    before = table.read_text()
    done = run(script, "--llama-cpp", f"{tree}@b1", "--check")
    assert done.returncode == 1
    assert table.read_text() == before
    done = run(script, "--llama-cpp", f"{tree}@b1")
    assert done.returncode == 0, done.stderr
    for line in ("  + -x --exa  common/arg.cpp:2@b1", "  + GGML_VK_NEW", "  + LLAMA_NEW", "  - -m --model"):
        assert any(row.startswith(line) for row in done.stdout.splitlines()), line
    with table.open(newline="") as file:
        assert [row["names"] for row in csv.DictReader(file)] == ["-x --exa"]
    assert run(script, "--llama-cpp", f"{tree}@b1").stdout == "nothing changed\n"


def test_ollama(script: Path, tmp_path: Path) -> None:
    """Every release tag counts: a name is there from its first to its last release."""
    tree = tmp_path / "ollama"
    tree.mkdir()
    git(tree, "init", "-q")
    for tag, names in (
        ("v0.1.0", ["OLLAMA_OLD"]),
        ("v0.2.0", ["OLLAMA_OLD", "OLLAMA_NEW"]),
        ("v0.10.0", ["OLLAMA_NEW"]),
    ):
        (tree / "a.go").write_text("package a\n" + "".join(f'var _ = os.Getenv("{name}")\n' for name in names))
        git(tree, "add", "-A")
        git(tree, "commit", "-qm", tag)
        git(tree, "tag", tag)
    done = run(script, "--ollama", str(tree))
    assert done.returncode == 0, done.stderr
    with (script.parents[1] / "src/stillruns/catalogue/data/options/readers.csv").open(newline="") as file:
        rows = {row["name"]: row for row in csv.DictReader(file) if row["owner"] == "ollama"}
    assert (rows["OLLAMA_OLD"]["first"], rows["OLLAMA_OLD"]["last"]) == ("v0.1.0", "v0.2.0")
    assert rows["OLLAMA_NEW"]["reader"] == "a.go:2@v0.10.0"


def test_rocm(script: Path, tmp_path: Path) -> None:
    """Variables of the HIP runtime's release flags and of ROCr; tests of theirs and debug flags do not count."""
    clr, rocr = tmp_path / "clr", tmp_path / "rocr"
    for folder in (clr / "rocclr", clr / "opencl", rocr / "runtime", rocr / "libhsakmt" / "tests"):
        folder.mkdir(parents=True)
    (clr / "rocclr" / "flags.hpp").write_text(
        'release(uint, GPU_NEW, 4, \\\n "x") \\\ndebug(bool, GPU_DEBUG, false, "x")\n'
    )
    (clr / "opencl" / "a.cpp").write_text('getenv("GPU_OF_OPENCL");\n')
    (rocr / "runtime" / "flag.h").write_text('os::GetEnvVar("HSA_NEW");\nos::IsEnvVarSet("HSA_TOO");\n')
    (rocr / "libhsakmt" / "tests" / "t.cpp").write_text('getenv("HSA_OF_A_TEST");\n')
    done = run(script, "--clr", f"{clr}@0123456789", "--rocr", str(rocr))
    assert done.returncode == 0, done.stderr
    data = script.parents[1] / "src/stillruns/catalogue/data/options"
    with (data / "readers.csv").open(newline="") as file:
        rows = {row["name"]: row for row in csv.DictReader(file) if row["owner"] in ("hip", "rocr")}
    assert rows.keys() == {"GPU_NEW", "HSA_NEW", "HSA_TOO"}
    assert rows["GPU_NEW"]["reader"] == "rocclr/flags.hpp:1@01234567"
    with (data / "searched.csv").open(newline="") as file:
        searched = {row["prefix"]: row["source"] for row in csv.DictReader(file) if row["owner"] in ("hip", "rocr")}
    assert searched.keys() == {"AMD_", "GPU_", "HIP_", "ROC_", "HSA_", "HSAKMT_", "ROCR_"}
    assert "ROCm/clr@01234567" in searched["HIP_"]


def test_not_a_checkout(script: Path, tmp_path: Path) -> None:
    """A folder without release tags is refused with advice."""
    done = run(script, "--ollama", str(tmp_path))
    assert done.returncode != 0
    assert "no release tags" in done.stderr
