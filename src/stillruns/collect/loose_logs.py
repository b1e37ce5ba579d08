"""Finds logs that came alone: texts without a run folder around them. Nothing is parsed here, no link is followed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stillruns.collect.logs import LogInput
from stillruns.collect.no_logs import CACHES, MARKDOWN, is_one
from stillruns.collect.worklog import DEPTH, MAX_FILE, MAX_FILES
from stillruns.errors import UsageError

_HEAD = 4096


@dataclass(frozen=True, slots=True)
class LooseLog:
    """`name` is the path below the folder that was named, or the file's own; it says nothing of what is in it."""

    name: str
    path: Path


def find(paths: Sequence[Path]) -> tuple[tuple[LooseLog, ...], tuple[str, ...]]:
    """(files that may be logs, sorted; those left out, each with why). Raises UsageError for a path that is not
    there."""
    found: list[LooseLog] = []
    left_out: list[str] = []
    for path in paths:
        if path.is_dir():
            for name, file in _below(path):
                if file.is_file() and not file.is_symlink() and _is_no_log(file):
                    left_out.append(f"{name}: source code, settings, a table or prose; name it to import it")
                else:
                    _sort(LooseLog(name, file), found, left_out)
        elif path.is_file():
            _sort(LooseLog(path.name, path), found, left_out)
        else:
            raise UsageError(f"{path} is not there; name a log or the folder that holds logs or run folders")
    return tuple(found), tuple(left_out[:100])


def _is_no_log(file: Path) -> bool:
    """Whether a file of a folder is no log as a whole: what a page in Markdown quotes is a part of it."""
    try:
        with file.open("rb") as opened:
            head = opened.read(_HEAD)
    except OSError:
        head = b""  # whoever reads it says that it cannot be read
    return file.suffix.lower() in MARKDOWN or is_one(file, head)


def _below(root: Path) -> list[tuple[str, Path]]:
    files = []
    for place, folders, names in os.walk(root, followlinks=False):
        deep = len(Path(place).parts) - len(root.parts) >= DEPTH
        folders[:] = [] if deep else sorted(f for f in folders if not f.startswith(".") and f not in CACHES)
        files += [Path(place) / name for name in names if not name.startswith(".")]
    return sorted((str(file.relative_to(root)), file) for file in files)


def _sort(log: LooseLog, found: list[LooseLog], left_out: list[str]) -> None:
    if log.path.is_symlink() or not log.path.is_file():
        left_out.append(f"{log.name}: not a plain file")
    elif log.path.stat().st_size > MAX_FILE:
        left_out.append(f"{log.name}: {log.path.stat().st_size} bytes")
    elif len(found) >= MAX_FILES:
        left_out.append(f"{log.name}: more than {MAX_FILES} files")
    else:
        found.append(log)


def read(log: LooseLog) -> bytes | str:
    """The plain bytes of a log (a compressed one is unpacked), or why it is none. Raises UsageError for a file that
    cannot be read."""
    source, size = LogInput(str(log.path)), 0
    parts: list[bytes] = []
    for block in source.blocks():
        if not parts and b"\0" in block[:_HEAD]:
            return "no text"
        size += len(block)
        if size > MAX_FILE:
            return f"more than {MAX_FILE} bytes"
        parts.append(block)
    return b"".join(parts) if parts else "empty"
