"""The promise: a program is looked at without running anything of a recipe, and a name in it has its true offset."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from real_parts import llama_server
from stillruns.collect import installed
from stillruns.errors import EnvironmentLacks
from stillruns.model.absence import Absence, AbsenceReason


def program(path: Path, body: str) -> Path:
    """An executable shell script."""
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_only_absolute_folders_of_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file beside the recipe is never taken for an installed program, even with `.` on PATH."""
    program(tmp_path / "llama-server", "touch ran")
    monkeypatch.chdir(tmp_path)
    found = installed.find("llama-server", {}, {"PATH": f".:{os.pathsep}bin"})
    assert isinstance(found, Absence)
    assert found.reason is AbsenceReason.NOT_INSTALLED
    assert installed.find("llama-server", {}, {"PATH": str(tmp_path)}) == (tmp_path / "llama-server", "on PATH")
    assert isinstance(installed.find("./llama-server", {}, {"PATH": str(tmp_path)}), Absence)
    assert not (tmp_path / "ran").exists()


def test_named_binary_must_exist(tmp_path: Path) -> None:
    """A binary that the user names and that is not there is an error with advice."""
    with pytest.raises(EnvironmentLacks, match="give the path"):
        installed.find("x", {"x": tmp_path / "no"}, {})


def test_help_is_asked_without_cards_and_settings(tmp_path: Path) -> None:
    """The child sees hidden GPUs, no home and none of the user's variables."""
    path = program(tmp_path / "p", "env; pwd")
    said = installed.ask(path, "--help", {"PATH": "/usr/bin:/bin", "LLAMA_ARG_CTX_SIZE": "bad", "HOME": "/root"})
    assert isinstance(said, installed.Printed)
    assert "LLAMA_ARG_CTX_SIZE" not in said.text
    assert "HOME=/nonexistent" in said.text
    assert "ROCR_VISIBLE_DEVICES=-1" in said.text


def test_program_that_prints_nothing(tmp_path: Path) -> None:
    """Silence or a crash is an absence with its reason."""
    quiet = installed.ask(program(tmp_path / "q", "exit 3"), "--help", os.environ)
    assert isinstance(quiet, Absence)
    assert "exit status 3" in quiet.detail
    missing = installed.ask(tmp_path / "none", "--help", os.environ)
    assert isinstance(missing, Absence)


def test_strings_with_offsets(tmp_path: Path) -> None:
    """Only a whole NUL-terminated string counts, at its true offset."""
    compiler = installed.find("cc", {}, os.environ)
    if isinstance(compiler, Absence):
        pytest.skip("no C compiler here")
    source = tmp_path / "a.c"
    source.write_text(
        "#include <stdlib.h>\n#include <stdio.h>\n"
        'int main(void) { puts("XX_NAME_Y is"); return getenv("REAL_NAME") != NULL; }\n'
    )
    installed.proc.run([str(compiler[0]), "-o", str(tmp_path / "a"), str(source)], timeout=240)
    files, missing = installed.files(tmp_path / "a", {})
    assert [Path(file.path).name for file in files] == ["a"]
    assert files[0].reads_environment is not None
    assert not missing
    hits = installed.strings(files, ["REAL_NAME", "XX_NAME_Y", "REAL_NAM", "NAME"])
    assert {name: len(found) for name, found in hits.items()} == {
        "REAL_NAME": 1,
        "XX_NAME_Y": 0,
        "REAL_NAM": 0,
        "NAME": 0,
    }
    data = (tmp_path / "a").read_bytes()
    assert data[hits["REAL_NAME"][0].offset :].startswith(b"REAL_NAME\0")


@pytest.mark.engine
def test_real_build() -> None:
    """The real server: its backends are found, each once; a name that it reads is in the right one of them."""
    server = llama_server()
    assert server
    files, _ = installed.files(Path(server), os.environ)
    names = [Path(file.path).name.partition(".so")[0] for file in files]
    assert len(names) == len(set(names))
    assert "libggml-vulkan" in names
    hits = installed.strings(files, ["GGML_VK_VISIBLE_DEVICES", "HSA_OVERRIDE_GFX_VERSION"])
    assert ["libggml-vulkan" in hit.path for hit in hits["GGML_VK_VISIBLE_DEVICES"]] == [True]
    assert hits["HSA_OVERRIDE_GFX_VERSION"] == ()


def test_configuration_files(tmp_path: Path) -> None:
    """XDG_CONFIG_HOME wins over HOME; files that are not there are not named."""
    place = tmp_path / "llama.cpp" / "config.ini"
    place.parent.mkdir()
    place.write_text("")
    assert place in installed.configuration({"XDG_CONFIG_HOME": str(tmp_path), "HOME": "/nonexistent"})
    assert place not in installed.configuration({"HOME": str(tmp_path)})


def test_go_strings_are_no_parts_of_longer_names(tmp_path: Path) -> None:
    """Go's strings have no end: a name inside a longer known one is no hit, and beside another one it is."""
    path = tmp_path / "server"
    path.write_bytes(b"\xff Go buildinf:" + b"\0" * 64 + b"OLLAMA_NUM_PARALLELOLLAMA_DEBUGOLLAMA_KEEP_ALIVE")
    library = installed.LibraryFile(str(path), "sha256:0", 1, (), ("getenv", 1))
    known = ("OLLAMA_NUM_PARALLEL", "OLLAMA_DEBUG", "OLLAMA_KEEP_ALIVE")
    found = installed.strings([library], [*known, "OLLAMA_NUM", "NUM_PARALLEL"], known)
    assert [name for name, hits in found.items() if hits] == sorted(known)
