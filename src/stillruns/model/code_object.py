"""What device code a file holds, as its own bytes say.

Written by `normalise.code_objects.read(read_at, size, path)`; read by the gates. A file of gigabytes is evidence by
reference: the ranges that were read, each with its digest, and never the digest of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


@dataclass(frozen=True, slots=True)
class ReadRange:
    """`length` bytes from `offset`, and their digest (`sha256:...`)."""

    offset: int
    length: int
    sha256: str


@dataclass(frozen=True, slots=True)
class FileRef:
    """A file as evidence by reference. `mtime_ns` and `inode` are 0 where unknown, `build_id` is hex or empty."""

    path: str
    bytes: int
    inode: int = 0
    mtime_ns: int = 0
    build_id: str = ""
    ranges: tuple[ReadRange, ...] = ()


class Feature(str, Enum):
    """A target feature of a code object (xnack, sramecc)."""

    NONE = "none"
    """The processor has no such feature."""
    ANY = "any"
    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"
    """Nothing in what was read says it (the head of a compressed bundle, for instance)."""


@dataclass(frozen=True, slots=True)
class CodeTarget:
    """Code for one processor (with its features) in a file.

    `processor` is `gfx906`, `gfx9-generic`, `sm_61` (machine code) or `compute_61` (PTX); `target` adds the features
    as the compiler writes them (`gfx906:sramecc+:xnack-`). `count` of the file's `bundles` hold it;
    `code_object_version` is 2 to 6, or None where it was not read; `offset` is the first place. `mismatches` counts
    entries whose code says another processor than their id.
    """

    target: str
    processor: str
    xnack: Feature = Feature.ANY
    sramecc: Feature = Feature.ANY
    code_object_version: int | None = None
    generic_version: int = 0
    count: int = 1
    offset: int = 0
    mismatches: int = 0


@dataclass(frozen=True, slots=True)
class Linking:
    """What the dynamic section says: DT_NEEDED, DT_SONAME, DT_RPATH and DT_RUNPATH (as written, `$ORIGIN` kept)."""

    needed: tuple[str, ...] = ()
    soname: str = ""
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KpackRef:
    """Code that lives beside the library, in KPACK archives: where the library looks, and the archives' targets that
    were found there (empty where none was read)."""

    search_paths: tuple[str, ...]
    kernel_name: str
    targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CodeObjects:
    """One file. `format` is a short name (`fat ELF`, `code object`, `bundle`, `ELF without device code`, ...).

    `bundles` counts offload bundles (0 in a plain code object), `wrappers` the registrations in .hipFatBinSegment
    (None where there is no such section); fewer bundles than wrappers means that some were not found. `compressed`
    counts bundles by form (`v2/zstd` -> 717). `problems` are sentences about damage, with offsets.
    """

    file: FileRef
    format: str
    bundles: int = 0
    wrappers: int | None = None
    compressed: dict[str, int] = field(default_factory=dict)
    targets: tuple[CodeTarget, ...] = ()
    kpack: KpackRef | None = None
    linking: Linking = field(default_factory=Linking)
    problems: tuple[str, ...] = ()
