"""Folders of ready-made kernels: rocBLAS's and hipBLASLt's, wherever a runtime would look for them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from stillruns.collect.tree import Ranges, Tree, glob
from stillruns.model.absence import Absence
from stillruns.model.code_object import FileRef
from stillruns.model.probe import Probe

PROBE = Probe(
    id="kernel_library",
    applies="machines with rocBLAS or hipBLASLt",
    reads=(
        "rocblas/library and rocblas/VERSION/library under /opt/rocm*/lib, /usr/lib*, /usr/local/lib*",
        "hipblaslt/library beside them",
        "the same in Ollama's folders and in Python environments",
        "ROCBLAS_TENSILE_LIBPATH, HIPBLASLT_TENSILE_LIBPATH and folders beside a runtime's libraries",
    ),
)

_HOMES = (
    "/opt/rocm*/lib", "/opt/rocm*/lib64", "/opt/rocm/core*/lib", "/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib",
    "/usr/local/lib", "/usr/local/lib/ollama", "/usr/local/lib/ollama/*", "/usr/lib/ollama", "/usr/lib/ollama/*",
    "/opt/ollama/lib/ollama", "/opt/ollama/lib/ollama/*", "/usr/lib/python3*/site-packages/torch/lib",
    "/usr/lib/python3*/site-packages/_rocm_sdk_libraries*/lib",
    "/usr/local/lib/python3*/*-packages/torch/lib", "/usr/local/lib/python3*/*-packages/_rocm_sdk_libraries*/lib",
    "/opt/*/lib/python3*/site-packages/torch/lib", "/home/*/*/lib/python3*/site-packages/torch/lib",
    "/opt/*/lib/python3*/site-packages/_rocm_sdk_libraries*/lib",
    "/home/*/*/lib/python3*/site-packages/_rocm_sdk_libraries*/lib",
)  # fmt: skip
_BELOW = ("rocblas/library", "rocblas/*/library", "hipblaslt/library", "hipblaslt/library/gfx*")
MOST_FILES = 20_000


@dataclass(slots=True)
class KernelFolder:
    """A folder as it was found. `files` maps names to sizes in bytes; `dangling` are names that lead to no file.

    `read_at(name, offset, n)` reads a file of it and raises OSError where it cannot; `ref(name)` is the file as
    evidence, with the ranges that were read until then.
    """

    tree: Tree
    path: str
    files: dict[str, int]
    dangling: tuple[str, ...]
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _open: dict[str, Ranges] = field(default_factory=dict)
    _read: dict[str, Ranges] = field(default_factory=dict)

    def read_at(self, name: str, offset: int, n: int) -> bytes:
        """At most n bytes of one file; one file is open at a time."""
        source = self._open.get(name)
        if source is None:
            self.close()
            opened = self._stack.enter_context(self.tree.ranges(f"{self.path}/{name}"))
            if isinstance(opened, Absence):
                raise OSError(0, opened.detail)
            earlier = self._read.get(name)
            if earlier is not None:
                opened.read.update(earlier.read)
            source = self._open[name] = self._read[name] = opened
        return source.read_at(offset, n)

    def ref(self, name: str) -> FileRef:
        """One file as evidence."""
        source = self._read.get(name)
        return source.ref() if source else FileRef(f"{self.path}/{name}", self.files.get(name, 0))

    def close(self) -> None:
        """Close what is open."""
        self._open.clear()
        self._stack.close()


def folders(tree: Tree, more: Iterable[str] = ()) -> tuple[str, ...]:
    """Every folder of kernels, each once under its shortest name.

    `more` are folders of libraries (or of kernels) that runtimes and the environment name.
    """
    found: dict[str, str] = {}
    patterns = [f"{home}/{below}" for home in (*_HOMES, *more) for below in _BELOW]
    for pattern in (*patterns, *more):
        for path in glob(tree, pattern):
            entry = tree.entry(path)
            if isinstance(entry, Absence) or entry.kind != "folder":
                continue
            if pattern in more and not _holds_kernels(tree, path):
                continue
            if entry.real not in found or len(path) < len(found[entry.real]):
                found[entry.real] = path
    return tuple(sorted(found.values()))


@contextlib.contextmanager
def opened(tree: Tree, path: str) -> Iterator[KernelFolder | Absence]:
    """The names and sizes in a folder, and a way to read its files while the context lasts."""
    names = tree.names(path)
    if isinstance(names, Absence):
        yield names
        return
    files: dict[str, int] = {}
    dangling = []
    for name in names[:MOST_FILES]:
        entry = tree.entry(f"{path}/{name}")
        if isinstance(entry, Absence):
            dangling.append(name)
        elif entry.kind == "file":
            files[name] = entry.size
    folder = KernelFolder(tree, path, files, tuple(dangling))
    try:
        yield folder
    finally:
        folder.close()


def _holds_kernels(tree: Tree, path: str) -> bool:
    names = tree.names(path)
    return not isinstance(names, Absence) and any(name.startswith(("TensileL", "Kernels.so-")) for name in names)
