"""A folder of ready-made GPU kernels (rocBLAS with Tensile, hipBLASLt), judged by its own index.

Written by `normalise.kernel_library`; read by the gates.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from stillruns.model.code_object import FileRef


class LibraryState(str, Enum):
    """How complete a folder is for one target."""

    COMPLETE = "complete"
    FALLBACK_ONLY = "fallback only"
    """The index leads to generic kernels alone: slower, not broken."""
    FILES_MISSING = "files missing"
    """The index is there and leads to files that are not."""
    INDEX_DAMAGED = "index damaged"
    INDEX_MISSING = "index missing"
    """Kernel files are there and no index leads to them."""
    MIXED = "mixed"
    """The index comes from another release than its neighbours."""
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class TargetFiles:
    """One target in one folder. `own` and `fallback` count the kernel groups that the index leads to, `files` the
    files named after the target, `missing` and `suspect` name files (all of them). `detail` is one clause for a
    person."""

    target: str
    state: LibraryState
    own: int = 0
    fallback: int = 0
    files: int = 0
    missing: tuple[str, ...] = ()
    suspect: tuple[str, ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class KernelLibrary:
    """`library` is `rocBLAS` or `hipBLASLt`; `layout` `lazy` (an index a target), `merged` (one index) or `none`.

    `targets` holds every target that an index or a file name speaks of; one that is not there is ABSENT. `evidence`
    are the index files that were read.
    """

    folder: str
    library: str
    layout: str
    targets: tuple[TargetFiles, ...] = ()
    evidence: tuple[FileRef, ...] = ()
    problems: tuple[str, ...] = ()

    def of(self, target: str) -> TargetFiles:
        """The state for a processor (`gfx906`), ABSENT when nothing speaks of it."""
        for entry in self.targets:
            if entry.target == target:
                return entry
        return TargetFiles(target, LibraryState.ABSENT)
