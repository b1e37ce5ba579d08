"""Finding the core that a crashed server left, and reading its notes."""

from __future__ import annotations

import os
from pathlib import Path

from stillruns.errors import FormatError
from stillruns.formats import core_notes
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.process import CoreResult

LARGEST_KEPT = 64 << 20
"""Bytes of a core that goes into the store; of a larger one only the notes are read."""

PATTERN = Path("/proc/sys/kernel/core_pattern")


Before = frozenset[tuple[str, int]]
"""Names with the times of their last change, in nanoseconds. The kernel writes a core over an older one."""


def those_in(folder: Path) -> Before:
    """The files in `folder` that could be cores: what was there before the trial, as it was, is not ours."""
    try:
        return frozenset((path.name, path.stat().st_mtime_ns) for path in folder.glob("core*"))
    except OSError:
        return frozenset()


def left_by_a_child(folder: Path, pid: int, before: Before) -> Path | None:
    """The core of a process that the command `pid` started, where it lies in the command's own folder: nobody else
    would take it away. A file that is no core stays where it is, and so does a core of another session: the folder is
    the user's, and other programs may crash there at the same time."""
    for path in sorted(folder.glob("core*")):
        suffix = path.name.removeprefix("core").removeprefix(".")
        if (suffix == "" or suffix.isdigit()) and _new(path, before) and _session(path) == pid:
            return path
    return None


def _session(path: Path) -> int | None:
    """Of the process that left a core; None for what is none. (A command is started as the head of a session.)"""
    try:
        with path.open("rb", buffering=0) as file:
            descriptor = file.fileno()
            return core_notes.session(lambda offset, n: os.pread(descriptor, n, offset), path.stat().st_size)
    except (FormatError, OSError, OverflowError):
        return None


def _new(path: Path, before: Before) -> bool:
    try:
        return path.is_file() and (path.name, path.stat().st_mtime_ns) not in before
    except OSError:
        return False


def find(folder: Path, pid: int, before: Before = frozenset()) -> Path | Absence:
    """The core of process `pid` in its working folder, or why there is none. `before` are files to leave alone.

    A server that changed its folder takes its core with it; that is reported as not found.
    """
    for name in (f"core.{pid}", "core"):
        if _new(folder / name, before):
            return folder / name
    pattern = _pattern()
    if pattern.startswith("|"):
        handler = pattern[1:].split()[0] if pattern[1:].split() else "a program"
        hint = (
            f"`coredumpctl dump {pid}` may have it" if "systemd" in handler else f"look where {handler} keeps cores"
        )
        return Absence(AbsenceReason.NOT_COLLECTED, f"the kernel hands cores to {handler}", hint)
    if "/" in pattern or "%" in pattern or pattern != "core":
        hint = "look there, or set kernel.core_pattern to `core`"
        return Absence(AbsenceReason.NOT_COLLECTED, f"the kernel writes cores as {pattern!r}", hint)
    return Absence(
        AbsenceReason.NOT_COLLECTED,
        f"no core file was left in {folder.name}",
        "the hard limit of core files may be 0 (`ulimit -Hc`), the disk full, or the program not dumpable",
    )


def _pattern() -> str:
    try:
        return PATTERN.read_text().strip()
    except OSError:
        return "core"


def notes(path: Path) -> CoreResult:
    """Read the notes of a core file on disk."""
    try:
        with path.open("rb", buffering=0) as file:
            descriptor = file.fileno()
            return core_notes.read(lambda offset, n: os.pread(descriptor, n, offset), path.stat().st_size)
    except FormatError as error:
        return Absence(AbsenceReason.UNPARSABLE, f"the core cannot be read: {error}")
    except (OSError, OverflowError) as error:
        return Absence(AbsenceReason.UNPARSABLE, f"the core cannot be read: {error}")
