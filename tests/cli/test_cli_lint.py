"""The promise: `stillruns lint` exits as DESIGN says, keeps its schema, and answers a wrong call in one sentence."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import jsonschema

from program import ROOT, stillruns

SCHEMA = json.loads((ROOT / "docs" / "schemas" / "lint.json").read_text())


def run(*args: str | Path, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """`stillruns lint ...`."""
    return stillruns("lint", *args, stdin=stdin, **env)


def test_no(tmp_path: Path) -> None:
    """Something is not read: exit 1, the verdict, its place, the corrected line."""
    done = run(
        "--no-path", "--no-config", "--", "./main", "-m", "x.gguf", "-ngl", "99", "--rocm-single-alloc", "--no-mmap"
    )
    assert done.returncode == 1
    assert "--rocm-single-alloc: never existed" in done.stdout
    assert "catalogue/flags.csv:" in done.stdout
    assert "./llama-cli -m x.gguf -ngl 99 --load-mode none" in done.stdout


def test_yes() -> None:
    """Everything is read and every value taken: exit 0, nothing on stderr."""
    done = run("--no-path", "--no-config", "--", "llama-server", "-m", "x", "-ngl", "99", "-fa", "on")
    assert (done.returncode, done.stderr) == (0, "")


def test_usage(tmp_path: Path) -> None:
    """Nothing to lint, a missing file, a bad --source: exit 2 and one sentence."""
    for args in ((), (tmp_path / "none",), ("-", "-"), ("--source", "x", "-"), ("--form", "poem", "-")):
        done = run(*args)
        assert done.returncode == 2, args
        assert "Traceback" not in done.stderr
    assert run("--source", "x=/no/such@v1", "--", "cmake", "-DGGML_HIP=ON").returncode == 2


def test_json_keeps_the_schema(tmp_path: Path) -> None:
    """One JSON document on stdout, for one recipe and for several, in every form."""
    page = ROOT / "docs" / "case-studies" / "mi50-recipe.sh"
    unit = tmp_path / "o.service"
    unit.write_text("[Service]\nEnvironment=OLLAMA_NUM_GPU=1\nExecStart=/usr/bin/ollama serve\n")
    done = run("--json", "--no-path", "--no-config", page)
    document = json.loads(done.stdout)
    jsonschema.validate(document, SCHEMA)
    assert document["corrected"].startswith("#!/bin/bash\n")
    done = run("--json", "--no-path", "--no-config", page, unit, "-", stdin="llama-cli --no-mmap\n")
    document = json.loads(done.stdout)
    jsonschema.validate(document, SCHEMA)
    assert document["corrected"] is None
    assert [recipe["form"] for recipe in document["recipes"]] == ["shell", "unit", "shell"]
    assert done.returncode == 1


def test_hostile_text_is_shown_not_sent() -> None:
    """Control characters of a recipe never reach the terminal."""
    done = run("--no-path", "--no-config", "-", stdin="llama-cli --a\x1b]0;x\x07b 'c\x1b[2J'\n")
    assert "\x1b" not in done.stdout.partition("corrected:")[0]


def test_a_hostile_file_name(tmp_path: Path) -> None:
    """Nor do those of its file's name."""
    page = tmp_path / "a\x1b]0;x\x07.sh"
    page.write_text("llama-cli --no-mmap\n")
    done = run("--no-path", "--no-config", str(page))
    assert done.stdout.startswith(f"{tmp_path}/a\\x1b]0;x\\x07.sh (shell)\n")


def test_the_corrected_recipe_cannot_act_on_a_terminal() -> None:
    """Control characters of a recipe are shown where it is printed to be copied; tabs and lines stay."""
    done = run("--no-path", "--no-config", "-", stdin="\tllama-cli --no-mmap # \x1b]0;x\x07\r\necho end\n")
    assert "\x1b" not in done.stdout and "\x07" not in done.stdout
    assert "\tllama-cli" in done.stdout and "\\x1b]0;x\\x07\necho end" in done.stdout
