"""The promise: a HIP runtime's own bytes say what it can load; what they do not say is not invented."""

from __future__ import annotations

import pytest

import device_code
from stillruns.model.absence import Absence
from stillruns.model.hip_runtime import HipRuntime
from stillruns.normalise import hip_runtime

PATH = "/usr/lib/libamdhip64.so.6.4.43484"


def read(data: bytes, path: str = PATH) -> HipRuntime | Absence:
    """The facts of a file with these bytes."""
    return hip_runtime.read(lambda offset, n: data[offset : offset + n], len(data), path)


def library(*texts: bytes, before: int = 0) -> bytes:
    """A library whose read-only data holds these texts."""
    return device_code.elf([(".rodata", bytes(before) + b"\0".join((b"", *texts, b"")))])


def test_what_the_texts_say() -> None:
    """Generic targets by their names, compressed bundles by the text that refuses an old comgr."""
    texts = (
        b"gfx9-generic",
        b"gfx9-generic:xnack-",
        b"gfx906",
        b"comgr %zu.%zu cannot support compressed mode which",
    )
    found = read(library(*texts))
    assert isinstance(found, HipRuntime)
    assert (found.version, found.compressed, found.generic) == ("6.4.43484", True, ("gfx9-generic",))


def test_the_first_release_misspells_it() -> None:
    """ROCm 6.2 writes commpressed."""
    found = read(library(b"comgr %zu.%zu cannot support commpressed mode which need comgr 2.8+"))
    assert isinstance(found, HipRuntime) and found.compressed


def test_old_library() -> None:
    """One without such texts has neither sign."""
    found = read(library(b"gfx906", b"__CLANG_OFFLOAD_BUNDLE__"), "/usr/lib/libamdhip64.so.5.7.31921")
    assert isinstance(found, HipRuntime) and not found.compressed and found.generic == ()


def test_across_pieces() -> None:
    """A text that lies across two readings is found."""
    found = read(library(b"gfx9-generic", before=(1 << 20) - 6))
    assert isinstance(found, HipRuntime) and found.generic == ("gfx9-generic",)


@pytest.mark.parametrize("data", [b"", b"#!/bin/sh\n", b"\x7fELF", device_code.elf([(".text", b"x")])])
def test_no_library(data: bytes) -> None:
    """Other bytes are an absence that names the file."""
    found = read(data)
    assert isinstance(found, Absence) and PATH in found.detail


@pytest.mark.parametrize(
    ("path", "version"),
    [(PATH, "6.4.43484"), ("/opt/rocm/lib/libamdhip64.so.7", "7"), ("/opt/rocm/lib/libamdhip64.so", "")],
)
def test_version_of(path: str, version: str) -> None:
    """The version is the real name's; the linker's own name tells none."""
    assert hip_runtime.version_of(path) == version
