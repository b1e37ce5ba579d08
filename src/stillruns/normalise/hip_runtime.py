"""libamdhip64: which kinds of device code it can load, by texts in its read-only data."""

from __future__ import annotations

import re

from stillruns.errors import FormatError
from stillruns.formats import elf
from stillruns.formats.reading import ReadAt
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.code_object import FileRef
from stillruns.model.hip_runtime import HipRuntime

_LARGEST = 64 << 20
_STEP = 1 << 20
_OVERLAP = 128
_COMPRESSED = re.compile(rb"cannot support comm?pressed mode")
"""ROCm/clr hipamd/src/hip_fatbin.cpp:197@rocm-6.2.0 (with one m too many), corrected later; no such text up to
rocm-6.1.2."""
_GENERIC = re.compile(rb"\bgfx\d+(?:-\d+)?-generic(?=\0)")
"""Names of ISAs in rocclr's table of devices; the first without features stands for all."""


_COMGR = re.compile(rb"(?<=\0)libamd_comgr\.so\.\d+(?=\0)")


def read(read_at: ReadAt, size: int, path: str, ref: FileRef | None = None) -> HipRuntime | Absence:
    """The facts of the library at `path` (its real name tells the version); an absence where it is no ELF file."""
    try:
        file = elf.read(read_at, size)
    except FormatError as error:
        return Absence(AbsenceReason.UNPARSABLE, f"{path}: {error}")
    data = next((s for s in file.sections if s.name == ".rodata" and s.type != elf.NOBITS), None)
    if data is None:
        return Absence(AbsenceReason.UNPARSABLE, f"{path} has no read-only data to look at")
    compressed, kpack, generic, opens = False, False, set[str](), set[str]()
    end = min(data.offset + min(data.size, _LARGEST), size)
    for start in range(data.offset, end, _STEP):
        part = read_at(start, min(_STEP + _OVERLAP, end - start))
        compressed = compressed or _COMPRESSED.search(part) is not None
        kpack = kpack or b"kpack" in part
        opens |= {found.decode("ascii") for found in _COMGR.findall(part)}
        generic |= {found.decode("ascii") for found in _GENERIC.findall(part)}
    names = tuple(sorted(generic)), tuple(sorted(opens))
    return HipRuntime(ref or FileRef(path, size), version_of(path), compressed, *names, kpack)


def version_of(path: str) -> str:
    """`/usr/lib/libamdhip64.so.6.4.43484` -> `6.4.43484`; empty without a number."""
    found = re.search(r"\.so\.(\d+(?:\.\d+)*)\Z", path)
    return found[1] if found else ""
