"""What installed runtimes say about their own version, asked in a child with a time limit."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path

from stillruns import proc
from stillruns.errors import EnvironmentLacks
from stillruns.lab.machines.probing import QUIET
from stillruns.model.machine import Machine, RuntimeInstall

TIMEOUT = 10.0
"""Seconds; a program that hangs in its start has told no version."""

_OLLAMA = re.compile(r"^ollama version is (\S+)", re.MULTILINE)
_CLIENT = re.compile(r"client version is (\S+)")
_LLAMA = re.compile(r"^version: (?:(\d+) \(|\S+ \(build (\d+),)", re.MULTILINE)
"""`version: 10092 (3ce7da2)`; since 0.1 `version: 0.1.0 (build 11434, commit ...)`. A clone of one commit says 1."""


def ask(machine: Machine, environ: Mapping[str, str]) -> tuple[tuple[RuntimeInstall, ...], list[str]]:
    """The runtimes with the versions that they told, and notes where that differs from what files said.

    A program's own word counts over a package's. Ollama's command asks the server that runs, whose release is the one
    that serves; the command's own is told beside it.
    """
    found, notes = [], []
    for runtime in machine.runtimes:
        program = _program(runtime)
        told, note = _told(program, runtime.runtime, environ) if program else ("", "")
        if told and runtime.version and not runtime.version.startswith(told):
            notes.append(f"{program} says {told} where {runtime.told_by} says {runtime.version}")
        if note:
            notes.append(note)
        if told:
            runtime = dataclasses.replace(runtime, version=told, told_by=f"{program} --version")
        found.append(runtime)
    return tuple(found), notes


def _program(runtime: RuntimeInstall) -> str:
    """The program of an installation: beside its libraries, or in the bin folder of the same prefix."""
    name = "ollama" if runtime.runtime == "ollama" else "llama-server"
    folder = Path(runtime.folder)
    places = [folder / name, folder / "bin" / name]
    if runtime.runtime == "ollama":
        places += [parent / "bin" / name for parent in folder.parents[:3]]
    for place in places:
        if place.is_file():
            return str(place)
    return ""


def _told(program: str, runtime: str, environ: Mapping[str, str]) -> tuple[str, str]:
    try:
        done = proc.run([program, "--version"], timeout=TIMEOUT, env={**environ, **QUIET}, cwd="/")
    except EnvironmentLacks as error:
        return "", str(error)
    text = (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace")
    if done.timed_out:
        return "", f"{program} --version did not end in {TIMEOUT:.0f} s"
    return parse(text, runtime, program)


def parse(text: str, runtime: str, program: str) -> tuple[str, str]:
    """(version, note) of a program's own words; empty where it says none."""
    if runtime != "ollama":
        build = _LLAMA.search(text)
        number = int(build[1] or build[2]) if build else 0
        return (f"b{number}", "") if number > 1 else ("", "")
    server, client = _OLLAMA.search(text), _CLIENT.search(text)
    if server and client and server[1] != client[1]:
        return server[1], f"the Ollama that serves is {server[1]}, {program} itself is {client[1]}"
    found = server or client
    return (found[1], "") if found else ("", "")
