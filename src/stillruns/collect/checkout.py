"""Files of a source checkout: a plain folder, a git work tree, or any revision of a git repository.

The work tree is never touched: revisions are read with `git ls-tree` and `git cat-file`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from stillruns import proc
from stillruns.errors import EnvironmentLacks, UsageError

LARGEST = 8 << 20
"""Bytes: larger files are generated or data."""

_TIMEOUT = 60.0
_BATCH = 400
_LS = re.compile(rb"(\d{6}) blob ([0-9a-f]{40,64}) +(\d+)\t(.*)\Z", re.S)


def files(path: Path, rev: str, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """(path in the tree, bytes) of every wanted file up to LARGEST, sorted by path; `rev` empty: the folder as it is.

    Links and submodules are left out. Raises UsageError when there is no such folder or revision.
    """
    if not path.is_dir():
        raise UsageError(f"{path} is no folder; give the folder of a source checkout")
    if rev:
        yield from _revision(path, rev, wanted)
        return
    found: list[Path] = []
    for folder, names, leaves in os.walk(path):
        names[:] = sorted(name for name in names if name not in (".git", "node_modules", "__pycache__"))
        found += [Path(folder) / leaf for leaf in leaves]
    for file in sorted(found):
        name = file.relative_to(path).as_posix()
        if wanted(name) and not file.is_symlink() and file.is_file() and file.stat().st_size <= LARGEST:
            try:
                yield name, file.read_bytes()
            except OSError:
                continue  # unreadable in a checkout: nothing in it can be cited


def _git(path: Path, *words: str, stdin: bytes = b"") -> bytes:
    done = proc.run(
        ["git", "-C", str(path), *words], timeout=_TIMEOUT, stdin=stdin, limit=256 << 20, env=_quiet(os.environ)
    )
    if done.status != 0:
        said = done.stderr.decode("utf-8", "replace").strip().split("\n")[0]
        raise UsageError(f"git {words[0]} failed in {path}: {said or 'no message'}")
    return done.stdout


def _quiet(environ: os._Environ[str]) -> dict[str, str]:
    return {**environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}


def _revision(path: Path, rev: str, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    listing = _git(path, "ls-tree", "-r", "-z", "-l", "--end-of-options", rev)
    rows: list[tuple[str, bytes]] = []
    for entry in listing.split(b"\0"):
        found = _LS.match(entry)
        if found and found.group(1) != b"120000" and int(found.group(3)) <= LARGEST:
            name = found.group(4).decode("utf-8", "replace")
            if wanted(name):
                rows.append((name, found.group(2)))
    for start in range(0, len(rows), _BATCH):
        part = rows[start : start + _BATCH]
        data = _git(path, "cat-file", "--batch", stdin=b"\n".join(blob for _, blob in part) + b"\n")
        yield from _batch(part, data)


def _batch(part: list[tuple[str, bytes]], data: bytes) -> Iterator[tuple[str, bytes]]:
    at = 0
    for name, _ in part:
        stop = data.index(b"\n", at)
        head = data[at:stop].split()
        at = stop + 1
        if len(head) == 3 and head[1] == b"blob":
            size = int(head[2])
            yield name, data[at : at + size]
            at += size + 1


def tags(path: Path) -> tuple[str, ...]:
    """Tags of a repository, oldest version first; empty for a folder that is none."""
    try:
        return tuple(_git(path, "tag", "--list", "--sort=version:refname").decode().split())
    except (UsageError, EnvironmentLacks):
        return ()


def mentioned(path: Path, rev: str, pattern: str, globs: tuple[str, ...]) -> frozenset[str]:
    """Every text that an extended regular expression matches in the files of a revision."""
    done = proc.run(
        ["git", "-C", str(path), "grep", "-hoIE", "-e", pattern, rev, "--", *globs],
        timeout=_TIMEOUT,
        limit=64 << 20,
        env=_quiet(os.environ),
    )
    return frozenset(done.stdout.decode("utf-8", "replace").split("\n")) - {""}
