"""Folders with ggml's libraries to runtimes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.machine import BackendLibrary, Piece, RuntimeInstall
from stillruns.model.raw import Collected, RawFile

_BACKEND = re.compile(r"libggml-(hip|vulkan|cuda|sycl|rpc)(?:-[\w-]+)?\.so(?:\.[\d.]+)?\Z")
_NAMES = {"hip": "rocm", "vulkan": "vulkan", "cuda": "cuda", "sycl": "sycl", "rpc": "rpc"}
_CPU = re.compile(r"libggml-cpu(?:-([\w.-]+?))?\.so(?:\.[\d.]+)?\Z")
_LAYOUTS = (
    (re.compile(r"/rocm_v7_2\Z"), "0.30.0", ""),
    (re.compile(r"/rocm\Z"), "0.5.8", "0.24.0"),
)


def parse(raw: Collected, pieces: Sequence[Piece]) -> tuple[RuntimeInstall, ...] | Absence:
    """Every runtime that is installed: one for Ollama's folders together, one for each other folder of libraries."""
    if not raw.files:
        return Absence(AbsenceReason.NOT_COLLECTED, "no folder of a runtime was looked at")
    homes: dict[str, list[RawFile]] = {}
    for file in raw.files:
        if file.kind == "folder":
            homes.setdefault(_home(file.real or file.path), []).append(file)
    found = (_install(home, files, pieces) for home, files in homes.items())
    return tuple(install for install in found if install is not None)


def _home(folder: str) -> str:
    match = re.match(r"(.*/ollama)(?:/[^/]+)?\Z", folder)
    if match:
        return match[1]
    return re.sub(r"/(?:ggml(?:/backends\d*)?|backends\d*)\Z", "", folder)


def _install(home: str, files: Sequence[RawFile], pieces: Sequence[Piece]) -> RuntimeInstall | None:
    backends: dict[str, BackendLibrary] = {}
    variants: set[str] = set()
    for file in files:
        for name in file.text.split("\n"):
            match = _BACKEND.match(name)
            path = f"{file.real or file.path}/{name}"
            if match and path not in backends and not _is_shorter_twin(name, file.text):
                backends[path] = BackendLibrary(_NAMES[match[1]], path)
            cpu = _CPU.match(name)
            if cpu:
                variants.add(cpu[1] or "")
    ollama = home.endswith("/ollama")
    if not backends and not variants and not ollama:
        return None
    if ollama and not backends and not variants:
        return None
    runtime = "ollama" if ollama else "llama.cpp"
    version, told_by, low, high = _version(runtime, home, files, pieces)
    return RuntimeInstall(
        runtime, home, version, told_by, low, high, tuple(backends.values()), files[0].cite(), tuple(sorted(variants))
    )


def _is_shorter_twin(name: str, listing: str) -> bool:
    """`libggml-hip.so` beside `libggml-hip.so.0.9`: one library under several names; the shortest is kept."""
    base = re.sub(r"(?<=\.so)\.[\d.]+\Z", "", name)
    return name != base and f"\n{base}\n" in f"\n{listing}\n"


def _version(runtime: str, home: str, files: Sequence[RawFile], pieces: Sequence[Piece]) -> tuple[str, str, str, str]:
    wanted = ("ollama",) if runtime == "ollama" else ("libggml0-backend-hip", "libggml0", "llama.cpp")
    if not home.startswith("/usr/local"):
        for name in wanted:
            for piece in pieces:
                if piece.name == name or (piece.name.startswith(name) and runtime == "ollama"):
                    return piece.version, piece.told_by, "", ""
    if runtime == "ollama":
        for file in files:
            for layout, low, high in _LAYOUTS:
                if layout.search(file.real or file.path):
                    return "", "layout of its folders", low, high
    return "", "", "", ""
