"""The promise: lint says what the real program does, runs nothing that it reads, and judges the guide as facts do."""

from __future__ import annotations

import csv
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from real_parts import llama_server
from stillruns.errors import EnvironmentLacks, UsageError
from stillruns.lab.linting import Request, lint
from stillruns.model.lint import LintItem, LintResult, Reading, ValueReading

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "docs" / "case-studies" / "mi50-recipe.sh"
PAGE = ROOT / "docs" / "case-studies" / "mi50-recipes.md"


def by_catalogue(path: Path) -> LintResult:
    """One file, no program asked."""
    return lint(Request(files=(str(path),), look_on_path=False, configuration=False))[0]


ARGUMENTS = [
    "-ngl 9",
    "-ngl all",
    "-ngl many",
    "--gpu_layers 9",
    "--gpu-layers=9",
    "-fa on",
    "-fa 1",
    "-fa -ngl 9",
    "-fa sometimes",
    "--rocm-single-alloc",
    "--no-mmap",
    "--load-mode none",
    "-sm layer",
    "-sm round-robin",
    "-ctk q8_0",
    "-ctk q9",
    "-nkvo",
    "-nkvo 1",
    "--low-vram",
    "-c 4k",
    "-c x4",
    "-ngl 9.5",
    "-c 4096",
    "--numa distribute",
    "--numa all",
    "-ot blk=CPU -ot out=CPU",
    "--port 8080 --host 0.0.0.0",
    "-t 4 -b 512 -ub 128",
    "--memory-f32",
    "-mg 0 -sm none",
]  # fmt: skip


@pytest.fixture(scope="module")
def refused() -> dict[str, list[str]]:
    """What lint refuses of each line, all of them read in one recipe: the installed program is looked into once."""
    text = "".join(f"llama-server {words}\n" for words in ARGUMENTS)
    request = Request(
        files=("-",), text=text, binaries={"llama-server": Path(str(llama_server()))}, configuration=False
    )
    found: dict[str, list[str]] = {words: [] for words in ARGUMENTS}
    for item in lint(request)[0].items:
        if item.kind.value == "flag" and (
            item.verdict is not Reading.READ or item.value_verdict is ValueReading.NOT_ACCEPTED
        ):
            found[ARGUMENTS[int(item.said.rpartition(":")[2]) - 1]].append(item.why)
    return found


@pytest.mark.engine
@pytest.mark.parametrize("words", ARGUMENTS)
def test_as_the_real_server_parses(words: str, refused: dict[str, list[str]]) -> None:
    """The real server's own parser is the oracle: it comes to `--version` only when it took what stands before."""
    server = llama_server()
    assert server
    argv = [server, *words.split(), "--version"]
    env = {**os.environ, "GGML_VK_VISIBLE_DEVICES": ""}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert bool(refused[words]) == (done.returncode != 0), (done.stderr, refused[words])


@pytest.mark.engine
def test_corrected_recipe_is_parsed_by_the_real_server() -> None:
    """The guide's server line, corrected for the installed build, gets through that build's parser."""
    server = llama_server()
    assert server
    request = Request(
        files=(str(RECIPE),), binaries={"llama-server": Path(server)}, look_on_path=False, configuration=False
    )
    corrected = lint(request)[0].corrected
    assert corrected
    line = next(row for row in corrected.split("\n") if row.startswith("./llama-server"))
    argv = [server, *line.split()[1:], "--version"]
    env = {**os.environ, "GGML_VK_VISIBLE_DEVICES": ""}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.engine
def test_places_are_real() -> None:
    """Each cited help line and string offset is opened again and holds what was said."""
    server = llama_server()
    assert server
    help_lines = subprocess.run([server, "--help"], capture_output=True, text=True, timeout=240, check=True).stdout
    request = Request(
        command=("env", "GGML_VK_VISIBLE_DEVICES=0", "LLAMA_ARG_NO_KV_OFFLOAD=1", "llama-server", "-ngl", "9"),
        binaries={"llama-server": Path(server)},
        configuration=False,
    )
    seen = set()
    for item in lint(request)[0].items:
        for cited in item.evidence:
            if cited.kind == "help" and "-" not in cited.place.partition(":")[2]:
                row = help_lines.split("\n")[int(cited.place.rpartition(":")[2]) - 1]
                assert " ".join(row.split()) == cited.text
                seen.add("help")
            elif cited.kind == "string":
                path, _, offset = cited.place.rpartition("@")
                name = cited.text.partition(":")[0].encode()
                with Path(path).open("rb") as file:
                    file.seek(int(offset, 16))
                    assert file.read(len(name) + 1) == name + b"\0"
                seen.add("string")
    assert seen == {"help", "string"}


def test_nothing_is_run(tmp_path: Path) -> None:
    """A recipe full of traps, beside programs that would leave a mark, leaves no mark."""
    ran, here = shlex.quote(str(tmp_path / "ran")), shlex.quote(str(tmp_path))
    for name in ("llama-server", "llama-cli", "main", "ollama"):
        trap = tmp_path / name
        trap.write_text(f"#!/bin/sh\ntouch {ran}\n")
        trap.chmod(0o755)
    recipe = tmp_path / "trap.sh"
    recipe.write_text(
        f"X=$(touch {ran})\n`touch {ran}`\n./main -m $(touch {ran}) -ngl 9\n"
        f'{here}/llama-server --help\ncat <(touch {ran})\neval "touch {ran}"\n'
        f'llama-cli -p "$(touch {ran})"\n. {here}/main\n'
    )
    for search in (".", ""):
        result = lint(Request(files=(str(recipe),), environ={"PATH": search}, configuration=False))[0]
        assert result.items
    assert not (tmp_path / "ran").exists()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file, a folder and a missing binary are one sentence each; bytes that are no text are said."""
    for name, text in (("none.sh", "cannot be read"), (".", "is a folder")):
        with pytest.raises(UsageError, match=text):
            lint(Request(files=(str(tmp_path / name),)))
    with pytest.raises(EnvironmentLacks):
        lint(Request(command=("llama-server",), binaries={"llama-server": tmp_path / "no"}))
    binary = tmp_path / "b.sh"
    binary.write_bytes(bytes(range(256)))
    result = lint(Request(files=(str(binary),), look_on_path=False))[0]
    assert "no text" in result.notes[0]


def test_the_release_of_each_program() -> None:
    """What a recipe is judged against is named for each program: Ollama's tables are of another release than
    llama.cpp's, and vLLM's were never searched whole."""
    text = "ollama serve & llama-server -m x.gguf & vllm serve model\n"
    (result,) = lint(Request(files=("-",), text=text, environ={"PATH": ""}))
    told = {one.name: one.version for one in result.against}
    assert told["llama-server"].startswith("b") and told["ollama"].startswith("v0.") and not told.get("vllm")
    assert all("(release )" not in one.how for one in result.against)


def test_source_tree(tmp_path: Path) -> None:
    """A tree that the user gives is read: what it declares is cited with its line, also for names of its own."""
    (tmp_path / "CMakeLists.txt").write_text('project(x)\noption(GGML_MY_OWN "x" OFF)\n')
    (tmp_path / "a.cpp").write_text('int x = getenv("GGML_MY_VAR") != nullptr;\n')
    request = Request(
        command=("cmake", "-DGGML_MY_OWN=ON"), sources=(("llama.cpp", tmp_path, ""),), look_on_path=False
    )
    item = lint(request)[0].items[0]
    assert (item.verdict.value, item.evidence[0].place.partition("@")[0]) == ("read", "CMakeLists.txt:2")
    request = Request(
        command=("env", "GGML_MY_VAR=1", "llama-cli"), sources=(("llama.cpp", tmp_path, ""),), look_on_path=False
    )
    found = {item.name: item for item in lint(request)[0].items}
    assert found["GGML_MY_VAR"].evidence[0].place.startswith("a.cpp:1")


def test_configuration_file_of_the_machine(tmp_path: Path) -> None:
    """The config.ini that programs read by themselves is judged with the recipe."""
    place = tmp_path / "llama.cpp" / "config.ini"
    place.parent.mkdir()
    place.write_text("[*]\nngl = 7\nmmap = off\n")
    environ = {"XDG_CONFIG_HOME": str(tmp_path), "PATH": ""}
    results = lint(Request(command=("llama-server", "-ngl", "9"), environ=environ))
    mine = next(result for result in results if result.recipe == str(place))
    said = [(item.name, item.verdict.value) for item in mine.items]
    assert said == [("ngl", "read"), ("ngl", "conflict"), ("mmap", "removed")]


def key(item: LintItem) -> tuple[str, str, str, str]:
    """A row of the page's table."""
    line = item.said.rpartition(":")[2]
    value = item.value_verdict.value if item.value_verdict else "-"
    return line, f"{item.name} {item.value or ''}".strip(), item.verdict.value, value


def test_case_study_page_is_what_lint_says() -> None:
    """The table of the case study is lint's own answer, row by row."""
    rows = [
        tuple(cell.strip().strip("`") for cell in row.strip("|\n").split("|")[:4])
        for row in PAGE.read_text().splitlines()
        if row.startswith("| ") and row[2].isdigit()
    ]
    said = [key(item) for item in by_catalogue(RECIPE).items if not item.good]
    assert rows == said


CLAIMS = {
    "--rocm-single-alloc": "never existed",
    "PYTORCH_HIP_ALLOC_CONF": "other program",
    "HIP_ENABLE_USERPTR_FOR_PAGED_MEM": "not found",
    "LLAMA_HIPBLAS=1": "removed",
    "./main": "renamed",
    "--no-mmap": "removed",
    "NCCL_P2P_DISABLE": "other program",
    "GPU_MAX_ALLOC_PERCENT": "not found",
    "GGML_CUDA_INIT=1": "other program",
    "HSA_OVERRIDE_GFX_VERSION_0": "wrong index",
    "-ngl 64": "conflict",
}
"""A text of a claim in the seed facts -> the verdict that lint must give on the name in it."""


def test_seed_claims(shared: Path) -> None:
    """Each claim of the seed documents about a flag, variable, option or program gets the verdict of the facts."""
    with (shared / "facts" / "seed_claims.csv").open(newline="") as file:
        claims = [row["claim"] for row in csv.DictReader(file)]
    verdicts: dict[str, set[str]] = {}
    for item in by_catalogue(RECIPE).items:
        verdicts.setdefault(item.name, set()).add(item.verdict.value)
    verdicts["-ngl"] = verdicts["35 layers on the CPU"]
    for text, verdict in CLAIMS.items():
        assert any(text in claim for claim in claims), f"no claim names {text}"
        assert verdict in verdicts[text.partition("=")[0].partition(" ")[0]], text
