"""Files of a source tree: of a folder, or of any revision of a git repository without touching its work tree.

Git is asked with `rev-parse`, `ls-tree` and `cat-file --batch` only: no checkout, no filters, no hooks, no
lazy fetch. A submodule or an object that is missing is left out and named.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stillruns import proc
from stillruns.errors import EnvironmentLacks, UsageError
from stillruns.model.trace import SourceFile, SourceRef

_ENV = {
    "GIT_ALLOW_PROTOCOL": "none",  # a hostile repository may name a program that fetches its missing objects
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
}
_SAFE = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*")
_TIMEOUT = 60.0
_LIMIT = 1 << 30
_BIGGEST = 16 << 20
_SKIP_FOLDERS = {".git", "node_modules", ".venv", "__pycache__"}


@dataclass(slots=True)
class Tree:
    """A tree that was listed; `load` brings the bytes. `missing` names what could not be read."""

    ref: SourceRef
    path: Path
    listed: list[tuple[str, str]]
    files: list[SourceFile] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def load(self) -> list[SourceFile]:
        """The files, read once."""
        if not self.files:
            self.files = list(_blobs(self.ref.name, self.path, self.listed, self.missing))
        return self.files


def read(name: str, path: Path, rev: str, suffixes: Sequence[str]) -> Tree:
    """The files of `path` (at `rev`, or as they lie there when `rev` is empty) whose name ends with a suffix.

    Raises UsageError for a path or revision that does not exist, EnvironmentLacks when git is needed and missing.
    """
    if not path.is_dir():
        raise UsageError(f"the source {name} has no folder {path}; give --source {name}=PATH or {name}=PATH@REV.")
    if not rev and _bare(path):
        rev = "HEAD"
    return _at_revision(name, path, rev, tuple(suffixes)) if rev else _as_it_lies(name, path, tuple(suffixes))


def _bare(path: Path) -> bool:
    """A repository without a work tree: its folder holds no source files, and what is meant is its HEAD."""
    if not ((path / "HEAD").is_file() and (path / "objects").is_dir() and (path / "refs").is_dir()):
        return False
    return _git(path, "rev-parse", "--is-bare-repository").stdout.strip() == b"true"


def has(path: Path, rev: str) -> bool:
    """Is `path` a git repository with this revision?"""
    if rev.startswith("-") or not path.is_dir():
        return False
    return _git(path, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}").status == 0


def _git(path: Path, *args: str, stdin: bytes = b"") -> proc.Finished:
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | _ENV
    return proc.run(["git", *_SAFE, "-C", str(path), *args], timeout=_TIMEOUT, env=env, stdin=stdin, limit=_LIMIT)


def _at_revision(name: str, path: Path, rev: str, suffixes: tuple[str, ...]) -> Tree:
    if rev.startswith("-"):
        raise UsageError(f"{rev!r} is no revision of {name}.")
    asked = _git(path, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}")
    commit = asked.stdout.decode("utf-8", "replace").strip()
    if asked.status != 0 or not commit:
        kind = _git(path, "rev-parse", "--git-dir")
        why = "it has no such revision" if kind.status == 0 else "it is no git repository"
        raise UsageError(f"{path} cannot be read at {rev}: {why}; fetch the revision, or leave @{rev} out.")
    listed = _git(path, "ls-tree", "-r", "-z", "--full-tree", "-l", commit)
    if listed.status != 0 or listed.cut:
        raise EnvironmentLacks(
            f"git cannot list {path} at {rev}: {listed.stderr.decode('utf-8', 'replace').strip()[:200]}"
        )
    wanted: list[tuple[str, str]] = []
    sizes: list[int] = []
    missing: list[str] = []
    for entry in listed.stdout.split(b"\0"):
        head, _, raw = entry.partition(b"\t")
        parts, file = head.split(), raw.decode("utf-8", "replace")
        if len(parts) < 4:
            continue
        if parts[1] == b"commit":
            missing.append(f"{file} (a submodule)")
        elif file.endswith(suffixes) and parts[3].isdigit() and int(parts[3]) <= _BIGGEST:
            wanted.append((parts[2].decode(), file))
            sizes.append(int(parts[3]))
        elif file.endswith(suffixes):
            missing.append(f"{file} ({parts[3].decode()} bytes)")
    size = sum(sizes)
    ref = SourceRef(name, commit, _digest((file, blob) for blob, file in wanted), rev, len(wanted), size)
    return Tree(ref, path, wanted, [], missing)


def _blobs(name: str, path: Path, wanted: list[tuple[str, str]], missing: list[str]) -> Iterator[SourceFile]:
    if not wanted:
        return
    asked = "".join(f"{blob}\n" for blob, _ in wanted).encode()
    out = _git(path, "cat-file", "--batch", "--buffer", stdin=asked).stdout
    at = 0
    for blob, file in wanted:
        end = out.find(b"\n", at)
        head = out[at:end].split() if end >= 0 else []
        if len(head) < 3:
            missing.append(f"{file} (its object is not in the repository)")
            at = end + 1 if end >= 0 else at
            continue
        size = int(head[2])
        yield SourceFile(name, file, out[end + 1 : end + 1 + size], blob)
        at = end + 2 + size


def _as_it_lies(name: str, path: Path, suffixes: tuple[str, ...]) -> Tree:
    files: list[SourceFile] = []
    missing: list[str] = []
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(d for d in folders if d not in _SKIP_FOLDERS)
        for entry in sorted(names):
            if not entry.endswith(suffixes):
                continue
            full = Path(folder) / entry
            file = os.fsencode(full.relative_to(path)).decode("utf-8", "replace")  # a name need not be text
            try:
                info = full.lstat()
                if not stat.S_ISREG(info.st_mode):
                    continue
                if info.st_size > _BIGGEST:
                    missing.append(f"{file} ({info.st_size} bytes)")
                    continue
                data = full.read_bytes()
            except OSError as error:
                missing.append(f"{file} ({error.strerror})")
                continue
            files.append(SourceFile(name, file, data, hashlib.sha1(data, usedforsecurity=False).hexdigest()))
    head = _head(path)
    size = sum(len(f.data) for f in files)
    rev = f"work tree of {head}" if head else "files"
    ref = SourceRef(name, rev, _digest((f.path, f.blob) for f in files), "", len(files), size)
    return Tree(ref, path, [], files, missing)


def _head(path: Path) -> str:
    """The commit that a work tree stands on; empty for a folder that is none, or without git."""
    try:
        found = _git(path, "rev-parse", "--verify", "--quiet", "HEAD")
    except EnvironmentLacks:
        return ""
    return found.stdout.decode("ascii", "replace").strip()[:12] if found.status == 0 else ""


def _digest(entries: Iterable[tuple[str, str]]) -> str:
    """The tree's content as one digest: paths and the digests of their files."""
    digest = hashlib.sha256()
    for path, blob in sorted(entries):
        digest.update(f"{path}\0{blob}\n".encode("utf-8", "surrogateescape"))
    return "sha256:" + digest.hexdigest()
