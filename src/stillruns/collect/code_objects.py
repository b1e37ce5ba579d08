"""Files that hold device code. Which libraries these are, links tell (lab/machines/libraries.py); the KPACK archives
that a library names are found here.

A file of gigabytes is opened for `read_at` and never read whole; which ranges were read is remembered as evidence.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence

from stillruns.collect.tree import Ranges, Tree, glob
from stillruns.model.absence import Absence
from stillruns.model.probe import Probe

PROBE = Probe(
    id="code_objects",
    applies="machines with a runtime's HIP, CUDA or Vulkan backend",
    reads=(
        "the libraries and programs in which the runtimes probe found a backend",
        "librocblas.so*, libhipblas.so*, libhipblaslt.so*, libamdhip64.so* where the loader finds them for these",
        "the KPACK archives that a library's .rocm_kpack_ref names",
    ),
)

MOST_ARCHIVES = 200


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
