"""Folders with ggml's libraries to runtimes."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.machine import BackendLibrary, Piece, RuntimeInstall
from stillruns.model.raw import Collected, RawFile
from stillruns.model.version import Version
from stillruns.model.version import parse as parse_version

_BACKEND = re.compile(
    r"(?:libggml-(hip|vulkan|cuda|sycl|rpc)(?:-[\w-]+)?|libggml_(hipblas|cuda)(?:_v\d+)?"
    r"|koboldcpp_(hipblas|cublas|vulkan)(?:_(?:noavx2|failsafe))?)\.so(?:\.[\d.]+)?\Z"
)
_SERVER = "llama-server"
_NAMES = {
    "hip": "rocm", "hipblas": "rocm", "vulkan": "vulkan", "cuda": "cuda", "cublas": "cuda", "sycl": "sycl",
    "rpc": "rpc",
}  # fmt: skip
_CPU = re.compile(r"libggml-cpu(?:-([\w.-]+?))?\.so(?:\.[\d.]+)?\Z")
_LAYOUTS = (
    (re.compile(r"/rocm_v7_2\Z"), "0.30.0", ""),
    (re.compile(r"/rocm\Z"), "0.5.8", "0.24.0"),
    (re.compile(r"/cuda_v13\Z"), "0.11.11", ""),
    (re.compile(r"/vulkan\Z"), "0.12.6", ""),
    (re.compile(r"/llama-server\Z"), "0.30.0", ""),
    (re.compile(r"/libggml_(?:hipblas|cuda_v\d+)\.so\Z"), "0.4.0", "0.5.7"),
)
"""What only some releases of Ollama have in their folder: its Dockerfile and CMakePresets.json at v0.4.0, v0.5.8,
v0.11.11, v0.12.6 and v0.30.0 (each the first with the name), llama/make and Dockerfile at v0.5.7 (the last)."""


def parse(raw: Collected, pieces: Sequence[Piece]) -> tuple[RuntimeInstall, ...] | Absence:
    """Every runtime that is installed: one for Ollama's folders together, one for each other folder of libraries."""
    if not raw.files:
        return Absence(AbsenceReason.NOT_COLLECTED, "no folder of a runtime was looked at")
    homes: dict[str, list[RawFile]] = {}
    manifests = {}
    for file in raw.files:
        folder, _, name = (file.real or file.path).rpartition("/")
        if file.kind == "folder":
            homes.setdefault(_home(file.real or file.path), []).append(file)
        elif name == "backend-manifest.json":
            manifests[folder] = file.text
    found = (_install(home, files, pieces) for home, files in homes.items())
    return tuple(_engine(install, manifests) for install in found if install is not None)


def _engine(install: RuntimeInstall, manifests: Mapping[str, str]) -> RuntimeInstall:
    """An engine of LM Studio: its folder is called after its version, its manifest names the packages of libraries
    that are loaded with it. Another runtime stays as it is."""
    parts = re.match(r"(.*/extensions/backends)/llama\.cpp-\S+?-(\d+(?:\.\d+)+)\Z", install.folder)
    if parts is None:
        return install
    try:
        listed = json.loads(manifests.get(install.folder) or "{}")
    except (ValueError, RecursionError):
        listed = {}
    names = listed.get("vendor_lib_package_names", ()) if isinstance(listed, dict) else ()
    packages = [name for name in names if isinstance(name, str) and re.fullmatch(r"[\w.-]+", name)]
    return dataclasses.replace(
        install, runtime="LM Studio", version=parts[2], told_by="its folder's name",
        loaded=tuple(f"{parts[1]}/vendor/{name}" for name in packages),
    )  # fmt: skip


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
                backends[path] = BackendLibrary(_NAMES[match[1] or match[2] or match[3]], path)
            cpu = _CPU.match(name)
            if cpu:
                variants.add(cpu[1] or "")
    ollama = home.endswith("/ollama")
    program = "" if ollama or backends or variants else _program(files)
    if not backends and not variants and not program:
        return None
    kobold = any("/koboldcpp_" in path for path in backends)
    runtime = "ollama" if ollama else "koboldcpp" if kobold else "llama.cpp"
    version, told_by, low, high = _version(runtime, home, files, pieces)
    libraries, named = tuple(backends.values()), tuple(sorted(variants))
    return RuntimeInstall(
        runtime, home, version, told_by, low, high, libraries, files[0].cite(), named, program=program
    )


def _program(files: Sequence[RawFile]) -> str:
    """The path of llama-server where no library lies beside it: it may hold its backends itself."""
    return next((f"{f.real or f.path}/{_SERVER}" for f in files if _SERVER in f.text.split("\n")), "")


def _is_shorter_twin(name: str, listing: str) -> bool:
    """`libggml-hip.so` beside `libggml-hip.so.0.9`: one library under several names; the shortest is kept."""
    base = re.sub(r"(?<=\.so)\.[\d.]+\Z", "", name)
    return name != base and f"\n{base}\n" in f"\n{listing}\n"


def _version(runtime: str, home: str, files: Sequence[RawFile], pieces: Sequence[Piece]) -> tuple[str, str, str, str]:
    wanted = (runtime,) if runtime in ("ollama", "koboldcpp") else ("libggml0-backend-hip", "libggml0", "llama.cpp")
    if not home.startswith("/usr/local"):
        for name in wanted:
            for piece in pieces:
                if piece.name == name or (piece.name.startswith(name) and runtime == "ollama"):
                    return piece.version, piece.told_by, "", ""
    found = list(_signs(home, files)) if runtime == "ollama" else []
    if not found:
        return "", "", "", ""
    low = max((low for low, _ in found), key=_order)
    high = min((high for _, high in found if high), key=_order, default="")
    if high and _order(high) < _order(low):  # the remains of another release
        return "", "", "", ""
    return "", "layout of its folders", low, high


def _order(release: str) -> Version:
    return parse_version(release) or ()


def _signs(home: str, files: Sequence[RawFile]) -> Iterator[tuple[str, str]]:
    """The first and the last release of everything that only some releases have, or lack."""
    for file in files:
        folder = file.real or file.path
        names = file.text.split("\n")
        if folder == home and "libggml-base.so" in names and "llama-server" not in names:
            yield "0.5.8", "0.24.0"  # libggml-base since v0.5.8, llama-server beside it since v0.30.0
        for place in (folder, *(f"{folder}/{name}" for name in names)):
            yield from ((low, high) for layout, low, high in _LAYOUTS if layout.search(place))
