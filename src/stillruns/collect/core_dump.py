"""A core file through gdb in batch mode: what gdb prints about it, as text."""

from __future__ import annotations

import hashlib
from pathlib import Path

from stillruns import proc
from stillruns.errors import EnvironmentLacks, FormatError
from stillruns.formats.core_notes import read as read_notes
from stillruns.model.server_log import LogLine

GDB_SECONDS = 60.0


def log_line(number: int, text: str) -> LogLine:
    """A line of gdb's output as a line of a log."""
    return LogLine(number, text)


def read(path: Path) -> tuple[bytes, str, int, str]:
    """(text, a note or empty, the file's size, digest of its first 16 MiB and its size). Without gdb the notes of the
    core itself give the signal and the module of the instruction pointer."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(16 << 20)
    digest = f"sha256:{hashlib.sha256(head).hexdigest()}" if size <= len(head) else ""
    notes, program = _notes(path)
    import shutil  # here, since it loads every compression there is

    if shutil.which("gdb") is None:
        return notes, "gdb is not installed: no frames (apt install gdb)", size, digest
    argv = [
        "gdb",
        "-nx",
        "-batch",
        "-iex",
        "set debuginfod enabled off",
        "-iex",
        "set auto-load no",
        "-ex",
        "bt 64",
        "-ex",
        "info sharedlibrary",
    ]
    argv += [program, str(path)] if program else ["-c", str(path)]
    try:
        finished = proc.run(argv, timeout=GDB_SECONDS)
    except EnvironmentLacks as error:
        return notes, str(error), size, digest
    note = "gdb did not end in time; only what it had printed is used" if finished.timed_out else ""
    return notes + finished.stdout, note, size, digest


def _notes(path: Path) -> tuple[bytes, str]:
    """Lines from the core's own notes, and the program where the core names one that is still there."""
    with path.open("rb") as file:

        def read_at(offset: int, length: int) -> bytes:
            file.seek(offset)
            return file.read(length)

        try:
            found = read_notes(read_at, path.stat().st_size)
        except FormatError as error:
            return f"core notes: {error}\n".encode(), ""
    lines = [f"Program terminated with signal {found.signal}, by the core's notes."] if found.signal else []
    program = next((m for m in found.modules if Path(m).is_file() and ".so" not in Path(m).name), "")
    return ("\n".join(lines) + "\n").encode(), program
