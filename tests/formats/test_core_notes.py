"""The notes of a core tell the crash without a debugger; hostile bytes raise FormatError and nothing else."""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from real_parts import need_core
from stillruns.errors import FormatError
from stillruns.formats import core_notes
from stillruns.model.process import CoreNotes

CRASH = (
    "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(99,)).start(); ctypes.string_at(16)"
)


def read(data: bytes) -> CoreNotes:
    return core_notes.read(lambda offset, n: data[offset : offset + n], len(data))


def session(data: bytes) -> int | None:
    return core_notes.session(lambda offset, n: data[offset : offset + n], len(data))


def note(kind: int, data: bytes, name: bytes = b"CORE\0") -> bytes:
    pad = bytes(-len(name) % 4), bytes(-len(data) % 4)
    return struct.pack("<III", len(name), len(data), kind) + name + pad[0] + data + pad[1]


def files(*maps: tuple[int, int, int, str]) -> bytes:
    head = struct.pack("<QQ", len(maps), 4096)
    triples = b"".join(struct.pack("<QQQ", start, end, page) for start, end, page, _ in maps)
    return head + triples + b"".join(path.encode() + b"\0" for *_, path in maps)


def prstatus(pointer_at: int, pointer: int, signal: int = 0) -> bytes:
    data = bytearray(400)
    struct.pack_into("<h", data, 12, signal)
    struct.pack_into("<Q", data, pointer_at, pointer)
    return bytes(data)


def siginfo(number: int, code: int, address: int) -> bytes:
    return struct.pack("<iiiiQ", number, 0, code, 0, address) + bytes(104)


def core(machine: int, notes: bytes, count: int = 1) -> bytes:
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 4, machine, 1, 0, 64, 0, 0, 64, 56, count, 0, 0, 0)
    return header + struct.pack("<IIQQQQQQ", 4, 0, 120, 0, 0, len(notes), 0, 4) + notes


ARM = core(
    183,
    note(1, prstatus(112 + 32 * 8, 0x7F1234, 11))
    + note(0x53494749, siginfo(11, 1, 0x8))
    + note(0x46494C45, files((0x7F0000, 0x800000, 3, "/usr/lib/libvulkan_radeon.so"), (0x900000, 0x901000, 0, "/x")))
    + note(1, prstatus(112 + 32 * 8, 0x1)),
)


def test_aarch64() -> None:
    """pc of an ARM core, the file it points into, and the offset in that file."""
    assert read(ARM) == CoreNotes(
        signal="SIGSEGV",
        fault_address=8,
        instruction_pointer=0x7F1234,
        module="/usr/lib/libvulkan_radeon.so",
        offset=0x1234 + 3 * 4096,
        modules=("/usr/lib/libvulkan_radeon.so", "/x"),
        threads=2,
    )


def test_other_machines_and_sent_signals() -> None:
    """An unknown machine has no pointer; a signal sent by a process has no fault address."""
    notes = read(core(243, note(1, prstatus(0, 0, 6)) + note(0x53494749, siginfo(11, -6, 4242))))
    assert (notes.signal, notes.fault_address, notes.instruction_pointer, notes.module) == (
        "SIGSEGV",
        None,
        None,
        None,
    )
    assert read(core(62, note(1, prstatus(112 + 16 * 8, 5, 6)))).signal == "SIGABRT"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "no ELF file"),
        (b"\x7fELF\x01\x01" + bytes(60), "only 64-bit"),
        (Path(sys.executable).resolve().read_bytes()[:4096], "no core"),
        (core(62, b"", count=0), "ends before its program headers"),
        (ARM[:-20], "ends within its notes"),
        (core(62, struct.pack("<III", 5, 1 << 31, 1) + b"CORE\0\0\0\0"), "beyond the end"),
        (core(62, note(0x46494C45, struct.pack("<QQ", 1 << 60, 4096))), "claims"),
        (core(62, note(1, bytes(8))), "too short"),
        (core(62, note(0x53494749, bytes(8))), "too short"),
    ],
)
def test_damage_is_named(data: bytes, sentence: str) -> None:
    """What is no core, or is damaged, is refused with the reason."""
    with pytest.raises(FormatError, match=sentence):
        read(data)


@settings(max_examples=300)
@given(st.integers(0, len(ARM) - 1), st.binary(min_size=1, max_size=8))
def test_hostile_bytes(place: int, patch: bytes) -> None:
    """A core with any bytes changed is read or refused, never anything else."""
    with contextlib.suppress(FormatError):
        read(ARM[:place] + patch + ARM[place + len(patch) :])


def test_a_session() -> None:
    """Where the process note stands, it tells the session; a short one, or none, tells nothing."""
    told = bytes(24) + struct.pack("<iiii", 70, 60, 50, 40) + bytes(96)
    assert session(core(62, note(3, told))) == 40
    assert session(core(62, note(3, told[:38]))) is None
    assert session(ARM) is None


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    """No byte string raises anything but FormatError."""
    with pytest.raises(FormatError):
        read(b"\x7fELF\x02\x01" + data)


@pytest.mark.parametrize(
    ("limit", "memory"),
    [("unlimited", "0x10"), ("128", "0x33")],
    ids=["headers only", "cut by its limit"],
)
def test_a_real_core(limit: str, memory: str, tmp_path: Path) -> None:
    """A real crash, in a core of headers only, and in one that its size limit cut: both tell it."""
    need_core()
    script = f'echo {memory} > /proc/self/coredump_filter; ulimit -S -c {limit} && exec "$0" -c "$1"'
    done = subprocess.run(["sh", "-c", script, sys.executable, CRASH], cwd=tmp_path)
    assert done.returncode == -11
    (path,) = tmp_path.glob("core*")
    notes = read(path.read_bytes())
    assert (notes.signal, notes.fault_address, notes.threads) == ("SIGSEGV", 16, 2)
    assert notes.module is not None and notes.module in notes.modules
    assert path.stat().st_size < 4 << 20
    assert session(path.read_bytes()) == os.getsid(0)
    gdb = shutil.which("gdb")
    if gdb is None:
        return
    command = [gdb, "-nx", "-q", "-batch", "-ex", "set debuginfod enabled off", "-ex", "p/x $pc"]
    shown = subprocess.run([*command, os.path.realpath(sys.executable), str(path)], capture_output=True, text=True)
    assert f"{notes.instruction_pointer:#x}" in shown.stdout
