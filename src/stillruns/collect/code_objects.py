"""Files that hold device code: the libraries of the ROCm and CUDA stacks and of the runtimes, and KPACK archives.

A file of gigabytes is opened for `read_at` and never read whole; which ranges were read is remembered as evidence.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence

from stillruns.collect.tree import Ranges, Tree, glob
from stillruns.model.absence import Absence
from stillruns.model.probe import Probe

PROBE = Probe(
    id="code_objects",
    applies="machines with a runtime's HIP or CUDA backend, or with ROCm's libraries",
    reads=(
        "libggml-hip.so*, libggml-cuda*.so*, llama-server, ollama (in the folders of the runtimes probe)",
        "librocblas.so*, libhipblaslt.so*, librocsolver.so*, librocsparse.so*, libMIOpen.so*, libamdhip64.so* in "
        "/opt/rocm*/lib, /usr/lib*, /usr/local/lib and beside a runtime's own libraries",
        "the KPACK archives that a library's .rocm_kpack_ref names",
    ),
)

_FOLDERS = (
    "/opt/rocm*/lib", "/opt/rocm*/lib64", "/opt/rocm/core*/lib", "/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib",
    "/usr/lib/*-linux-gnu/ggml/backends*", "/usr/lib/*-linux-gnu/ggml", "/usr/local/lib", "/usr/local/lib/ollama",
    "/usr/local/lib/ollama/*", "/usr/lib/ollama", "/usr/lib/ollama/*", "/opt/ollama/lib/ollama",
    "/opt/ollama/lib/ollama/*", "/opt/llama.cpp", "/opt/llama.cpp/*",
)  # fmt: skip
_NAME = re.compile(
    r"lib(?:ggml-(?:hip|cuda)[\w-]*|rocblas|hipblaslt|rocsolver|rocsparse|MIOpen|amdhip64)\.so(?:\.[\d.]+)?\Z"
)
MOST_ARCHIVES = 200


def candidates(tree: Tree, more: Iterable[str] = ()) -> tuple[str, ...]:
    """Libraries that may hold device code, each once under the path after links; `more` are further folders."""
    found: dict[str, None] = {}
    for pattern in (*_FOLDERS, *more):
        for folder in glob(tree, pattern):
            names = tree.names(folder)
            if isinstance(names, Absence):
                continue
            for name in filter(_NAME.match, names):
                entry = tree.entry(f"{folder}/{name}")
                if not isinstance(entry, Absence) and entry.kind == "file":
                    found[entry.real] = None
    return tuple(sorted(found))


@contextlib.contextmanager
def archives(tree: Tree, patterns: Iterable[str]) -> Iterator[Sequence[Ranges]]:
    """The KPACK archives that match (`normalise.code_objects.archive_patterns`), open while the context lasts."""
    with contextlib.ExitStack() as stack:
        opened: dict[str, Ranges] = {}
        for pattern in patterns:
            for path in glob(tree, pattern):
                entry = tree.entry(path)
                if isinstance(entry, Absence) or entry.kind != "file" or len(opened) >= MOST_ARCHIVES:
                    continue
                source = stack.enter_context(tree.ranges(entry.real))
                if not isinstance(source, Absence):
                    opened.setdefault(entry.real, source)
        yield tuple(opened.values())
