"""The promise: what an ELF file needs and imports is read right, and damage is a FormatError, never another error."""

from __future__ import annotations

import ctypes.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillruns.errors import FormatError
from stillruns.formats.elf_dynamic import Dynamic, read


def parse(data: bytes) -> Dynamic:
    """From bytes in memory."""
    return read(lambda at, count: data[at : at + count], len(data))


def real() -> bytes:
    """A small real shared library of this machine."""
    name = ctypes.util.find_library("z") or "libz.so.1"
    for folder in ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/lib/aarch64-linux-gnu"):
        if (Path(folder) / name).is_file():
            return (Path(folder) / name).read_bytes()
    pytest.skip("no libz to read on this machine")


def test_real_library() -> None:
    """libz needs the C library and imports malloc; the offset points at the entry."""
    found = parse(real())
    assert any(name.startswith("libc.") for name in found.needed)
    assert found.imports["malloc"] > 0


def test_agrees_with_readelf() -> None:
    """The same DT_NEEDED list as binutils."""
    tool = shutil.which("readelf")
    if tool is None:
        pytest.skip("binutils' readelf is not installed")
    program = Path(sys.executable).resolve()
    said = subprocess.run([tool, "-d", program], capture_output=True, text=True, check=True).stdout
    expected = [row.split("[")[1].split("]")[0] for row in said.splitlines() if "(NEEDED)" in row]
    assert list(parse(program.read_bytes()).needed) == expected


@given(st.binary(max_size=200))
def test_not_elf(data: bytes) -> None:
    """Bytes that are no ELF file say so."""
    with pytest.raises(FormatError):
        parse(data if data[:4] != b"\x7fELF" else b"x" + data)


@given(st.integers(0, 4000), st.binary(min_size=1, max_size=8))
def test_damage(at: int, patch: bytes) -> None:
    """A damaged library is read or refused."""
    data = bytearray(real())
    at %= len(data)
    data[at : at + len(patch)] = patch
    try:
        parse(bytes(data))
    except FormatError:
        return
