"""The promise of `stillruns trace`: one document by its schema, right exit codes, sentences instead of tracebacks."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import jsonschema
import pytest

import real_parts
from program import ROOT, stillruns

TREES = ROOT / "tests" / "trees"
SOURCES = [w for name in ("server", "engine", "client") for w in ("--source", f"{name}={TREES / name}")]


def run(*args: str, cwd: Path | None = None, store: Path) -> subprocess.CompletedProcess[str]:
    """`stillruns trace ...`."""
    return stillruns("trace", *args, "--store", store, cwd=cwd)


def test_document_follows_its_schema(tmp_path: Path) -> None:
    """--json prints one document of stillruns.trace/1, the same from the cache."""
    schema = json.loads((ROOT / "docs" / "schemas" / "trace.json").read_text())
    first = run("gpu_layers", "--json", *SOURCES, store=tmp_path / "s")
    document = json.loads(first.stdout)
    jsonschema.validate(document, schema)
    assert first.returncode == 0
    assert len(document["stages"]) <= 20
    assert run("gpu_layers", "--json", *SOURCES, store=tmp_path / "s").stdout == first.stdout
    assert list((tmp_path / "s" / "cache" / "trace").iterdir())


def test_text_says_what_matters(tmp_path: Path) -> None:
    """The table, the meaning with its places, the dropped value."""
    out = run("gpu_layers", *SOURCES, store=tmp_path / "s").stdout
    assert "whole-struct comparison" in out
    assert "negative: no -gl is passed" in out
    assert "meaning:" in out
    assert "it is not:" in out


def test_hostile_source(tmp_path: Path) -> None:
    """Control characters of a source tree never reach the terminal."""
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "arg.cpp").write_text(
        'void f(common_params & params) {\n add_opt(common_arg({"--zeal"}, "N", "x\x1b]0;title\x07y",\n'
        " [](common_params & params, int value) { params.zeal = value; }));\n}\n"
    )
    out = run("--zeal", "--source", f"llama.cpp={tmp_path}", store=tmp_path / "s").stdout
    assert "x\\x1b]0;title\\x07y" in out and "\x1b" not in out


def test_unknown_option(tmp_path: Path) -> None:
    """Exit code 1, what was searched, near spellings."""
    done = run("gpu_layer", *SOURCES, store=tmp_path / "s")
    assert done.returncode == 1
    assert "found nowhere" in done.stdout
    assert "gpu_layers" in done.stdout


@pytest.mark.parametrize("option", ["-gl", "--gpu-layers"])
def test_flags_are_options_too(tmp_path: Path, option: str) -> None:
    """A flag is asked for as it is written."""
    done = run(option, *SOURCES, store=tmp_path / "s")
    assert done.returncode == 0, done.stderr
    assert "flag parsed" in done.stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("x", "--source", "a=/nonexistent"), "no folder"),
        (("x", "--source", f"a={TREES}@v1"), "cannot be read at v1"),
        (("x", "--source", f"a={TREES}", "--source", f"a={TREES}"), "same name"),
        (("x", "--diff", "v1", "v2", "--source", f"a={TREES / 'server'}"), "v1"),
        (("", "--source", f"a={TREES}"), "one word"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path: Path, args: tuple[str, ...], said: str) -> None:
    """Exit code 2 and a sentence; no traceback."""
    if "v1" in said:
        real_parts.git()  # without it, the sentence says that it is missing
    done = run(*args, store=tmp_path / "s")
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_diff_says_what_changed(tmp_path: Path) -> None:
    """Two revisions of one repository: stages gone, new and read otherwise."""
    repo = tmp_path / "repo"
    repo.mkdir()
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]

    def git(*args: str) -> None:
        subprocess.run([real_parts.git(), *who, *args], cwd=repo, env=env, check=True, capture_output=True)

    git("init", "-q")
    for number, test in ((1, ">= 0"), (2, "> 0")):
        text = (
            (TREES / "server" / "run" / "start.go")
            .read_text()
            .replace("options.Layers > 0", f"options.Layers {test}")
        )
        (repo / "start.go").write_text(text)
        (repo / "options.go").write_text((TREES / "server" / "api" / "options.go").read_text())
        git("add", ".")
        git("commit", "-qm", str(number))
        git("tag", f"v{number}")
    done = run("--diff", "v1", "v2", "gpu_layers", cwd=repo, store=tmp_path / "s")
    assert done.returncode == 0, done.stderr
    assert "- !  >= 0: passes -gl" in done.stdout
    assert "+ !  > 0: passes -gl" in done.stdout
    document = json.loads(run("--diff", "v1", "v2", "gpu_layers", "--json", cwd=repo, store=tmp_path / "s").stdout)
    assert document["schema"] == "stillruns.trace-diff/1"
    assert document["changed"]
