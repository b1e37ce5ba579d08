"""Reading a machine's files: this machine's, a sysroot's or a snapshot's, through one door.

A tree never follows a link out of its root, never opens a FIFO or a device, never loops, and answers with an absence
where other code would raise. Paths are absolute and count from the root of the tree.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Protocol

from stillruns.formats.reading import ReadAt
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.code_object import FileRef, ReadRange

if TYPE_CHECKING:
    from pathlib import Path

RING = "/dev/kmsg"
MOST_LINKS = 40
MOST_MATCHES = 20_000


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """What stands at a path, after links. `kind` is file, folder, device, fifo or socket; `real` is the path after
    links. `access` is what this process may do with a device (`rw`, `r`, empty; access(2), which knows ACLs) on the
    live machine, and `?` elsewhere."""

    real: str
    kind: str
    size: int
    mode: int
    uid: int
    gid: int
    inode: int
    mtime_ns: int
    device: str = ""
    access: str = "?"


@dataclass(slots=True)
class Ranges:
    """An open file for `read_at`: remembers which ranges were read, for evidence by reference.

    `read_at(offset, n)` returns at most n bytes, fewer only at the end of the file; it raises OSError where the range
    cannot be had.
    """

    path: str
    size: int
    reader: ReadAt
    inode: int = 0
    mtime_ns: int = 0
    read: dict[tuple[int, int], str] = field(default_factory=dict)

    def read_at(self, offset: int, n: int) -> bytes:
        """At most n bytes from offset."""
        if offset < 0 or n <= 0 or offset >= self.size:
            return b""
        data = self.reader(offset, min(n, self.size - offset))
        self.read[(offset, len(data))] = "sha256:" + hashlib.sha256(data).hexdigest()
        return data

    def ref(self, build_id: str = "") -> FileRef:
        """This file as evidence, with the ranges read so far."""
        ranges = tuple(ReadRange(o, n, digest) for (o, n), digest in sorted(self.read.items()))
        return FileRef(self.path, self.size, self.inode, self.mtime_ns, build_id, ranges)


class Tree(Protocol):
    """A machine's files."""

    name: str
    live: bool

    def entry(self, path: str) -> TreeEntry | Absence:
        """What stands at the path, links followed inside the tree."""

    def read(self, path: str, limit: int) -> bytes | Absence:
        """At most `limit` bytes of a regular file."""

    def names(self, path: str) -> tuple[str, ...] | Absence:
        """The sorted names in a folder."""

    def ranges(self, path: str) -> contextlib.AbstractContextManager[Ranges | Absence]:
        """A regular file opened for `read_at`."""


class FileTree:
    """A folder of this machine as a tree; `/` is the live machine."""

    def __init__(self, root: Path | None = None) -> None:
        """`root` must be a folder (None: this machine's root); nothing is read yet."""
        self.name = "/" if root is None else str(root)
        self.live = self.name == "/"
        self._prefix = "" if self.live or root is None else str(root.resolve())
        self._folders: dict[str, str | Absence] = {"": ""}

    def entry(self, path: str) -> TreeEntry | Absence:
        """See `Tree`."""
        real = self._resolve(path)
        if isinstance(real, Absence):
            return real
        try:
            status = os.lstat(self._prefix + real or "/")
        except OSError as error:
            return _absence(error, path)
        device = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}" if status.st_rdev else ""
        return TreeEntry(
            real or "/", _kind(status.st_mode), status.st_size, stat.S_IMODE(status.st_mode), status.st_uid,
            status.st_gid, status.st_ino, status.st_mtime_ns, device,
            self._access(real) if self.live and device else "?",
        )  # fmt: skip

    def _access(self, real: str) -> str:
        return "".join(letter for letter, mode in (("r", os.R_OK), ("w", os.W_OK)) if os.access(real, mode))

    def read(self, path: str, limit: int) -> bytes | Absence:
        """See `Tree`. The kernel's ring buffer is the one device that is read, on the live machine."""
        if path == RING and self.live:
            return ring_buffer(limit)
        opened = self._open(path)
        if isinstance(opened, Absence):
            return opened
        parts, left = [], limit
        try:
            while left > 0:
                part = os.read(opened, min(left, 1 << 20))
                if not part:
                    break
                parts.append(part)
                left -= len(part)
        except OSError as error:
            return _absence(error, path)
        finally:
            os.close(opened)
        return b"".join(parts)

    def names(self, path: str) -> tuple[str, ...] | Absence:
        """See `Tree`."""
        real = self._resolve(path)
        if isinstance(real, Absence):
            return real
        try:
            return tuple(sorted(os.listdir(self._prefix + real or "/")))  # noqa: PTH208 (pathlib makes an object a name)
        except OSError as error:
            return _absence(error, path)

    @contextlib.contextmanager
    def ranges(self, path: str) -> Iterator[Ranges | Absence]:
        """See `Tree`."""
        opened = self._open(path)
        if isinstance(opened, Absence):
            yield opened
            return
        try:
            status = os.fstat(opened)
            yield Ranges(
                path, status.st_size, lambda offset, n: os.pread(opened, n, offset), status.st_ino, status.st_mtime_ns
            )
        finally:
            os.close(opened)

    def _open(self, path: str) -> int | Absence:
        real = self._resolve(path)
        if isinstance(real, Absence):
            return real
        try:
            opened = os.open(self._prefix + real or "/", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            return _absence(error, path)
        kind = _kind(os.fstat(opened).st_mode)
        if kind != "file":
            os.close(opened)
            return Absence(AbsenceReason.UNPARSABLE, f"{path} is a {kind}, where a regular file is expected")
        return opened

    def _resolve(self, path: str) -> str | Absence:
        """The path after links, all of them inside the tree; `` for the root."""
        todo = [part for part in reversed(path.split("/")) if part not in ("", ".")]
        done, links = "", 0
        while todo:
            part = todo.pop()
            if part == "..":
                done = done.rpartition("/")[0]
                continue
            here = f"{done}/{part}"
            target = self._link(here)
            if isinstance(target, Absence):
                return target
            if target is None:
                done = here
                continue
            links += 1
            if links > MOST_LINKS:
                return Absence(AbsenceReason.UNPARSABLE, f"{path} leads through a loop of symbolic links")
            if target.startswith("/"):
                done = ""
            todo += [part for part in reversed(target.split("/")) if part not in ("", ".")]
        return done

    def _link(self, here: str) -> str | Absence | None:
        """Where a link leads, None for what is no link."""
        if here in self._folders:
            return None
        try:
            target = os.readlink(self._prefix + here)  # noqa: PTH115 (the same, on the hot path)
        except OSError as error:
            if error.errno == errno.EINVAL:
                if len(self._folders) < 50_000:
                    self._folders[here] = here
                return None
            return _absence(error, here)
        return target


def glob(tree: Tree, pattern: str) -> Iterator[str]:
    """Paths that match, in order; `*` and `?` match within a component, links are followed inside the tree."""
    yield from _expand(tree, "", [part for part in pattern.split("/") if part])


def _expand(tree: Tree, base: str, parts: list[str]) -> Iterator[str]:
    if not parts:
        yield base
        return
    head, rest = parts[0], parts[1:]
    if not any(mark in head for mark in "*?["):
        yield from _expand(tree, f"{base}/{head}", rest)
        return
    names = tree.names(base or "/")
    if isinstance(names, Absence):
        return
    for name in names[:MOST_MATCHES]:
        if fnmatchcase(name, head):
            yield from _expand(tree, f"{base}/{name}", rest)


def ring_buffer(limit: int) -> bytes | Absence:
    """/dev/kmsg from its oldest record to its newest, without waiting for more."""
    try:
        opened = os.open(RING, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return _absence(error, RING)
    parts: list[bytes] = []
    size = 0
    try:
        while size < limit:
            try:
                parts.append(os.read(opened, 8192))
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # records were overwritten while we read: go on with the next
            size += len(parts[-1])
    except OSError as error:
        if not parts:
            return _absence(error, RING)
    finally:
        os.close(opened)
    return b"".join(parts)


def _kind(mode: int) -> str:
    for test, name in (
        (stat.S_ISREG, "file"),
        (stat.S_ISDIR, "folder"),
        (stat.S_ISFIFO, "fifo"),
        (stat.S_ISSOCK, "socket"),
        (stat.S_ISLNK, "link"),
    ):
        if test(mode):
            return name
    return "device"


def _absence(error: OSError, path: str) -> Absence:
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO):
        return Absence(AbsenceReason.NOT_INSTALLED, f"there is no {path}")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Absence(AbsenceReason.NO_PERMISSION, f"{path} is not readable by this user")
    return Absence(AbsenceReason.NOT_COLLECTED, f"{path} cannot be read: {error.strerror}")
