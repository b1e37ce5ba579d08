"""Finds the run folders of a foreign worklog and reads their files: nothing is parsed here, no link is followed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

RESULT = "result.json"
MAX_FILE = 64 * 1024 * 1024
"""A larger file of a run folder is left out, and named."""
MAX_FILES = 5000
"""Of one run folder."""
DEPTH = 3
"""Run folders are looked for so deep below the folder that was named."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """`files` are (name relative to the folder, path), the result first, then by name; `left_out` names with why."""

    name: str
    path: Path
    files: tuple[tuple[str, Path], ...]
    left_out: tuple[str, ...] = ()


def find(root: Path) -> tuple[RunFolder, ...]:
    """Every folder at or below `root` that holds a `result.json`, by name. An unreadable folder is passed over."""
    found = []
    base = len(root.parts)
    for place, folders, files in os.walk(root, followlinks=False):
        folders.sort()
        path = Path(place)
        if RESULT in files and not (path / RESULT).is_symlink():
            found.append(_folder(path))
            folders.clear()
        elif len(path.parts) - base >= DEPTH:
            folders.clear()
    return tuple(sorted(found, key=lambda folder: folder.name))


def _folder(path: Path) -> RunFolder:
    files: list[tuple[str, Path]] = []
    left_out: list[str] = []
    for place, folders, names in os.walk(path, followlinks=False):
        folders.sort()
        for name in sorted(names):
            file = Path(place) / name
            shown = str(file.relative_to(path))
            if file.is_symlink() or not file.is_file():
                left_out.append(f"{shown}: not a plain file")
            elif file.stat().st_size > MAX_FILE:
                left_out.append(f"{shown}: {file.stat().st_size} bytes")
            elif len(files) >= MAX_FILES:
                left_out.append(f"{shown}: more than {MAX_FILES} files")
            else:
                files.append((shown, file))
    files.sort(key=lambda entry: (entry[0] != RESULT, entry[0]))
    return RunFolder(path.name, path, tuple(files), tuple(left_out[:100]))
