"""The promise: a runtime's own word about its version counts, a hanging or silent program says none."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

import machines
from stillruns.lab.machines import asked_versions
from stillruns.model.machine import Machine, RuntimeInstall
from stillruns.model.raw import Cite

CLIENT = "Warning: could not connect to a running Ollama instance\nWarning: client version is 0.17.5\n"


@pytest.mark.parametrize(
    ("runtime", "text", "version", "note"),
    [
        ("ollama", "ollama version is 0.30.2\n", "0.30.2", ""),
        ("ollama", CLIENT, "0.17.5", ""),
        ("ollama", "ollama version is 0.12.3\nWarning: client version is 0.30.2\n", "0.12.3", "0.30.2"),
        ("llama.cpp", "version: 10092 (0badc0de)\nbuilt with GNU 14.2 for Linux x86_64\n", "b10092", ""),
        ("llama.cpp", "version: 0.1.0-dev (build 11434, commit 0badc0d)\n", "b11434", ""),
        ("llama.cpp", "version: 1 (0badc0de)\n", "", ""),
        ("llama.cpp", "error: unknown argument\n", "", ""),
        ("ollama", "", "", ""),
    ],
)
def test_words(runtime: str, text: str, version: str, note: str) -> None:
    """The forms that releases print; the serving Ollama's release is the one that counts."""
    found = asked_versions.parse(text, runtime, "/usr/bin/ollama")
    assert found[0] == version and (note in found[1] if note else found[1] == "")


def installed(root: Path, script: str, *, version: str = "") -> Machine:
    """A machine whose Ollama is a script."""
    program = root / "bin/ollama"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    install = RuntimeInstall("ollama", str(root / "lib/ollama"), version, "dpkg", "0.5.8", "", (), Cite("x"))
    return dataclasses.replace(machines.of(root), runtimes=(install,))


def test_asked(tmp_path: Path) -> None:
    """The program's word stands with its command, and a package that says otherwise is named."""
    machine = installed(tmp_path, "echo ollama version is 0.30.2", version="0.17.5-1")
    (runtime,), notes = asked_versions.ask(machine, os.environ)
    assert runtime.version == "0.30.2" and runtime.told_by.endswith("bin/ollama --version")
    assert len(notes) == 1 and "dpkg says 0.17.5-1" in notes[0]
    (same,), quiet = asked_versions.ask(installed(tmp_path, "echo ollama version is 0.17.5", version="0.17.5-1"), {})
    assert same.version == "0.17.5" and quiet == []


def test_a_program_that_says_nothing(tmp_path: Path) -> None:
    """One that dies changes nothing; no program, no question."""
    (runtime,), notes = asked_versions.ask(installed(tmp_path, "kill -SEGV $$", version="0.17.5"), os.environ)
    assert (runtime.version, notes) == ("0.17.5", [])
    machine = installed(tmp_path, "exit 0")
    (tmp_path / "bin/ollama").unlink()
    (runtime,), notes = asked_versions.ask(machine, os.environ)
    assert (runtime.version, notes) == ("", [])
