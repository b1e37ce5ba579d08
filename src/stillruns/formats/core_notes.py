"""The notes of a Linux core file: which signal, where, in which mapped file. No debugger, no symbols.

Layout: ELF64 header and program headers (System V ABI), one PT_NOTE segment that the kernel writes before any memory
(so a core cut by its size limit still has it). Notes used: NT_PRSTATUS (`struct elf_prstatus`, one a thread, the
crashing one first), NT_SIGINFO (`siginfo_t`), NT_FILE (fs/binfmt_elf.c, fill_files_note). 64-bit little-endian only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec

from stillruns.errors import FormatError
from stillruns.formats import elf
from stillruns.formats.reading import ReadAt
from stillruns.model.process import CoreNotes

PT_NOTE = 4
ET_CORE = 4
NT_PRSTATUS = 1
NT_PRPSINFO = 3
NT_SIGINFO = 0x53494749
NT_FILE = 0x46494C45

LARGEST_NOTES = 64 << 20
"""Bytes of notes that are read: 11 KiB a thread with AVX-512 and AMX state is 5,000 threads."""

_EM_X86_64, _EM_AARCH64 = 62, 183
_PR_REG = 112
"""Offset of the registers in elf_prstatus on 64-bit machines."""
_PC_OFFSET = {_EM_X86_64: _PR_REG + 16 * 8, _EM_AARCH64: _PR_REG + 32 * 8}
"""rip is the 17th register of user_regs_struct, pc the 33rd of user_pt_regs."""

_PR_SID = 36
"""Offset of the session in elf_prpsinfo on 64-bit machines (include/linux/elfcore.h)."""

_WITH_ADDRESS = {4, 5, 7, 8, 11}
"""SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV: si_addr holds the address (sigaction(2))."""
_NAMES = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
    9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
    24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
}  # fmt: skip
"""Signal numbers of x86 and ARM (signal(7)); a core may come from another machine than this one."""


class _Mapping(msgspec.Struct, frozen=True):
    start: int
    end: int
    offset: int
    path: str


def read(read_at: ReadAt, size: int) -> CoreNotes:
    """Read the notes of a core file of `size` bytes. Raises FormatError when it is no such file or is damaged."""
    machine, segments = _program_headers(read_at, size)
    signal: int | None = None
    address: int | None = None
    pointer: int | None = None
    mappings: tuple[_Mapping, ...] = ()
    threads = 0
    for offset, length in segments:
        if length > LARGEST_NOTES:
            raise FormatError(f"the core claims {length} bytes of notes; no kernel writes that many", offset)
        notes = read_at(offset, length)
        if len(notes) < length:
            raise FormatError("the core ends within its notes; its size limit was too small", offset + len(notes))
        for kind, place, data in _notes(notes, offset):
            if kind == NT_PRSTATUS:
                threads += 1
                if threads == 1:
                    pointer = _u64(data, _PC_OFFSET[machine], place) if machine in _PC_OFFSET else None
                    signal = signal or _s16(data, 12, place) or None  # pr_cursig
            elif kind == NT_SIGINFO:
                signal, address = _siginfo(data, place)
            elif kind == NT_FILE:
                mappings = _files(data, place)
    where = next((m for m in mappings if pointer is not None and m.start <= pointer < m.end), None)
    return CoreNotes(
        signal=None if signal is None else _NAMES.get(signal, f"SIG{signal}"),
        fault_address=address,
        instruction_pointer=pointer,
        module=where.path if where else None,
        offset=pointer - where.start + where.offset if where and pointer is not None else None,
        modules=tuple(dict.fromkeys(m.path for m in mappings)),
        threads=threads,
    )


def session(read_at: ReadAt, size: int) -> int | None:
    """The session (setsid(2)) of the process that left a core file, as its pid namespace counts; None where the notes
    do not tell it. Raises FormatError like `read`."""
    _, segments = _program_headers(read_at, size)
    for offset, length in segments:
        for kind, _, data in _notes(read_at(offset, min(length, LARGEST_NOTES)), offset):
            if kind == NT_PRPSINFO and len(data) >= _PR_SID + 4:
                return int(struct.unpack_from("<i", data, _PR_SID)[0])
    return None


def _program_headers(read_at: ReadAt, size: int) -> tuple[int, list[tuple[int, int]]]:
    """(machine, [(offset, length)] of the note segments)."""
    header = read_at(0, 64)
    if len(header) < 64 or header[:4] != b"\x7fELF":
        raise FormatError("this is no ELF file", 0)
    if header[4] != 2 or header[5] != 1:
        raise FormatError("only 64-bit little-endian cores can be read", 4)
    kind, machine = struct.unpack_from("<HH", header, 16)
    if kind != ET_CORE:
        raise FormatError(f"this is an ELF file of type {kind}, no core", 16)
    (table,) = struct.unpack_from("<Q", header, 32)
    entry, count = struct.unpack_from("<HH", header, 54)
    if entry != 56:
        raise FormatError(f"program headers of {entry} bytes instead of 56", 54)
    segments = []
    raw = read_at(table, 56 * count) if table < size else b""
    if len(raw) < 56:
        raise FormatError("the core ends before its program headers", table)
    for place in range(0, len(raw) - 55, 56):
        segment, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", raw, place)
        if segment == PT_NOTE:
            segments.append((int(offset), int(length)))
    if not segments:
        raise FormatError("the core has no notes", table)
    return int(machine), segments


def _notes(data: bytes, base: int) -> Iterator[tuple[int, int, bytes]]:
    """(type, offset in the file, description) of each note."""
    for note in elf.notes(data):
        end = note.start + note.size
        if end > len(data):
            raise FormatError(f"a note of {note.size} bytes goes beyond the end of the notes", base + note.start)
        yield note.type, base + note.start, data[note.start : end]


def _u64(data: bytes, offset: int, place: int) -> int:
    if offset + 8 > len(data):
        raise FormatError("a note is too short for its registers", place)
    return int(struct.unpack_from("<Q", data, offset)[0])


def _s16(data: bytes, offset: int, place: int) -> int:
    if offset + 2 > len(data):
        raise FormatError("a note is too short for its signal", place)
    return int(struct.unpack_from("<h", data, offset)[0])


def _siginfo(data: bytes, place: int) -> tuple[int, int | None]:
    """(signal number, fault address where the kernel raised it for one)."""
    if len(data) < 24:
        raise FormatError("the signal note is too short", place)
    number, _, code = struct.unpack_from("<iii", data, 0)
    if number in _WITH_ADDRESS and code > 0:  # code <= 0: sent by a process, the field holds a pid
        return number, int(struct.unpack_from("<Q", data, 16)[0])
    return number, None


def _files(data: bytes, place: int) -> tuple[_Mapping, ...]:
    """The mapped files: count, page size, (start, end, offset in pages) each, then the names."""
    count, page = _u64(data, 0, place), _u64(data, 8, place)
    names_at = 16 + 24 * count
    if names_at > len(data):
        raise FormatError(f"the file note claims {count} mappings in {len(data)} bytes", place)
    names = data[names_at:].split(b"\0")
    if len(names) < count:
        raise FormatError(f"the file note names {len(names)} of {count} mappings", place)
    found = []
    for index in range(count):
        start, end, offset = struct.unpack_from("<QQQ", data, 16 + 24 * index)
        found.append(_Mapping(start, end, offset * page, names[index].decode("utf-8", "replace")))
    return tuple(found)
