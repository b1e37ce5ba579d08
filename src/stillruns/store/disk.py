"""The one boundary where the file system's errors become StoreErrors, and the few calls that make bytes durable."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from stillruns.errors import StoreDamaged, StoreError
from stillruns.model.hint import hint

SYNC_THREADS = 8
"""Parallel fsyncs share one commit of the file system's journal: ten files cost about as much as one."""

_FULL = "make space there or choose another place with --store, then repeat the command; what was recorded is kept"
_RIGHTS = "use a store that you may write to (--store DIR or STILLRUNS_STORE=DIR) or ask its owner for the right"

_SENTENCES: dict[int, tuple[str, str]] = {
    errno.ENOSPC: ("the disk is full", _FULL),
    errno.EDQUOT: ("your disk quota is used up", _FULL),
    errno.EFBIG: ("the file would exceed the size limit of this process (ulimit -f)", _FULL),
    errno.EROFS: (
        "the file system is read-only",
        "choose another place with --store DIR or STILLRUNS_STORE=DIR, or remount it for writing",
    ),
    errno.EACCES: ("permission denied", _RIGHTS),
    errno.EPERM: ("the operation is not permitted", _RIGHTS),
    errno.EMFILE: ("too many files are open", "raise the limit (ulimit -n) and repeat the command"),
    errno.EIO: ("the device reports an input/output error", "look at the kernel log and copy the store elsewhere"),
    errno.ENOENT: ("it is not there", ""),
}


def store_error(error: OSError, what: str, where: Path | str) -> StoreError:
    """One sentence for an OSError met while doing `what` (an infinitive: "write the journal") at `where`."""
    why, todo = _SENTENCES.get(error.errno or 0, (os.strerror(error.errno or errno.EIO), "see what the path is"))
    todo = todo or f"run `{hint('verify')}` to see what else is missing"
    return StoreError(f"cannot {what} {where}: {why}; {todo}.")


def damaged(what: str) -> StoreDamaged:
    """One sentence for damage of which a reader meets the first: `what` is wrong, and how to see the rest."""
    return StoreDamaged(f"{what}; run `{hint('verify')}` to see all damage.")


@contextmanager
def doing(what: str, where: Path | str) -> Iterator[None]:
    """Every OSError inside becomes a StoreError that says what was being done, where, and what helps."""
    try:
        yield
    except OSError as error:
        raise store_error(error, what, where) from error


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data`; a short write (full disk, size limit) is continued until the kernel names the reason."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync_path(path: Path) -> None:
    """fsync one file or folder by its path."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # folders on some network file systems
            raise
    finally:
        os.close(fd)


def sync_paths(paths: Iterable[Path]) -> None:
    """fsync several files or folders, in parallel when there is more than one."""
    todo = list(paths)
    if len(todo) <= 1:
        for path in todo:
            sync_path(path)
        return
    with ThreadPoolExecutor(min(SYNC_THREADS, len(todo)), "fsync") as pool:
        for _ in pool.map(sync_path, todo):
            pass


def make_folder(path: Path) -> None:
    """Create one folder (parents must exist) and make its name durable; an existing folder is fine."""
    try:
        path.mkdir()
    except FileExistsError:
        if not path.is_dir():
            raise
        return
    sync_path(path.parent)
