"""The promise: what ldconfig wrote is read as the loader reads it, and damage is one sentence."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillruns.errors import FormatError
from stillruns.formats import ld_cache

X86_64, I386 = 0x0303, 0x0003


def cache(*entries: tuple[int, str, str, int], old: bool = False) -> bytes:
    """A cache of (flags, name, path, hwcap)."""
    strings, rows = b"", b""
    base = 48 + 24 * len(entries)
    for flags, name, path, hwcap in entries:
        places = []
        for text in (name, path):
            places.append(base + len(strings))
            strings += text.encode() + b"\0"
        rows += struct.pack("<iIIIQ", flags, *places, 0, hwcap)
    head = b"glibc-ld.so.cache1.1" + struct.pack("<IIB3x4I", len(entries), len(strings), 2, 0, 0, 0, 0)
    new = head + rows + strings
    return b"ld.so-1.7.0\0" + struct.pack("<I", 1) + bytes(12) + bytes(4) + new if old else new


def test_entries() -> None:
    """64-bit libraries, the first of a name, those for special CPUs left out."""
    data = cache(
        (X86_64, "libamdhip64.so.6", "/opt/rocm-6.4/lib/libamdhip64.so.6", 0),
        (X86_64, "libamdhip64.so.6", "/usr/lib/libamdhip64.so.6", 0),
        (I386, "libvulkan.so.1", "/usr/lib/i386-linux-gnu/libvulkan.so.1", 0),
        (X86_64, "libm.so.6", "/usr/lib/glibc-hwcaps/x86-64-v3/libm.so.6", 1 << 62),
        (X86_64, "libm.so.6", "/usr/lib/libm.so.6", 0),
    )
    assert ld_cache.read(data) == {
        "libamdhip64.so.6": "/opt/rocm-6.4/lib/libamdhip64.so.6", "libm.so.6": "/usr/lib/libm.so.6",
    }  # fmt: skip
    assert ld_cache.read(cache((X86_64, "a.so", "/a.so", 0), old=True)) == {"a.so": "/a.so"}


@pytest.mark.parametrize("data", [b"", b"ld.so-1.7.0\0", b"glibc-ld.so.cache1.1", b"x" * 100,
                                  b"glibc-ld.so.cache1.1" + b"\xff" * 40])  # fmt: skip
def test_damage(data: bytes) -> None:
    """What is no cache, or is cut off."""
    with pytest.raises(FormatError):
        ld_cache.read(data)


@given(st.binary(max_size=400), st.integers(0, 300))
def test_any_bytes(noise: bytes, at: int) -> None:
    """Hostile bytes end in an answer or a FormatError."""
    good = bytearray(cache((X86_64, "a.so", "/a.so", 0), (X86_64, "b.so", "/b.so", 0)))
    good[at : at + len(noise)] = noise
    for data in (noise, bytes(good)):
        try:
            ld_cache.read(data)
        except FormatError:
            continue


def test_like_ldconfig() -> None:
    """The real cache of this machine, against ldconfig -p."""
    program = shutil.which("ldconfig") or "/sbin/ldconfig"
    if not Path(program).exists() or not Path("/etc/ld.so.cache").exists():
        pytest.skip("this machine has no ldconfig with a cache")
    listed = subprocess.run([program, "-p"], capture_output=True, text=True, check=True).stdout
    wanted: dict[str, str] = {}
    for line in listed.splitlines():
        name, arrow, path = line.strip().partition(" => ")
        # up to glibc 2.35 `OS ABI: Linux 3.2.0` stands in the same brackets
        if arrow and "(libc6,x86-64" in name and "hwcap" not in name:
            wanted.setdefault(name.split(" ")[0], path)
    if not wanted:
        pytest.skip("ldconfig lists no library of x86-64 here")
    assert ld_cache.read(Path("/etc/ld.so.cache").read_bytes()) == wanted
