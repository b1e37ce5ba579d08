"""What each backend lists about itself: the runtime's own --list-devices, in a child with a time limit."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from stillruns import proc
from stillruns.act.runtimes import llama_cpp
from stillruns.errors import EnvironmentLacks
from stillruns.lab.machines.probing import QUIET
from stillruns.model.backend import Backend, backend_of_device
from stillruns.model.machine import DeviceInit, Machine
from stillruns.model.raw import RawCommand

TIMEOUT = 20.0
"""Seconds for one listing; a driver that hangs in its start is a verdict, not a wait."""

_DEVICE = re.compile(r"^\s+(\w+\d+): (.+)$", re.MULTILINE)


def folders(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The folder of the program that would be run, so that its libraries are judged; none where there is none."""
    try:
        found = llama_cpp.LlamaCpp().find("", environ)
    except EnvironmentLacks:
        return ()
    return (str(Path(found.binary).resolve().parent),)


def ask(machine: Machine, environ: Mapping[str, str]) -> tuple[tuple[DeviceInit, ...], list[str]]:
    """One entry per backend that a program here could have; notes for a person."""
    try:
        found = llama_cpp.LlamaCpp().find("", environ)
    except EnvironmentLacks as error:
        return (), [str(error)]
    env = {**environ, **found.env, **QUIET}
    try:
        done = proc.run([found.binary, "--list-devices"], timeout=TIMEOUT, env=env, cwd="/", locale=False)
    except EnvironmentLacks as error:
        return (), [str(error)]
    text = (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace")
    cite = RawCommand(tuple(done.argv), done.status, done.stdout, done.stderr).cite(_last(text))
    listed = [(name, what) for name, what in _DEVICE.findall(text) if backend_of_device(name) is not Backend.UNKNOWN]
    inits = []
    for backend in _backends(machine, Path(found.binary)):
        mine = tuple(f"{n}: {what}" for n, what in listed if backend_of_device(n).value == backend)
        if done.timed_out:
            what = f"--list-devices did not end in {TIMEOUT:.0f} s"
        elif done.signal:
            what = f"--list-devices died with {done.signal}: {_last(text)}"
        else:
            what = f"lists no {backend} device: {_last(text)}"
        ok = not done.timed_out and done.status == 0
        inits.append(DeviceInit(found.binary, backend, ok, mine, "" if mine and ok else what, cite))
    return tuple(inits), []


def _backends(machine: Machine, binary: Path) -> list[str]:
    """Backends whose library lies beside the program, or beside its installation."""
    found = {"cpu"}
    for runtime in machine.runtimes:
        folders = {b.path.rpartition("/")[0] for b in runtime.backends} | {runtime.folder}
        if str(binary.parent) in folders or str(binary.resolve().parent) in folders:
            found |= {b.backend for b in runtime.backends}
    for name in os.listdir(binary.resolve().parent):  # noqa: PTH208 (names only)
        match = re.match(r"libggml-(hip|vulkan|cuda)[.-]", name)
        if match:
            found.add({"hip": "rocm"}.get(match[1], match[1]))
    return sorted(found)


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"fail|error|no .*device|denied", line, re.IGNORECASE)]
    return (errors or lines or ["it prints nothing"])[-1][:200]
