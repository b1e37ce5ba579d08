"""What a living process keeps in the store besides records: its private folder, and its hold on a run.

Life is told by `flock`, which the kernel drops with the process, never by a process id, which may be used again.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stillruns.errors import StoreBusy, StoreError
from stillruns.store.disk import doing

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=:@-]{0,199}\Z")


def safe_name(name: str, what: str) -> str:
    """`name` if it can be one file name, else StoreError: names of runs, trials and caches become paths."""
    if not _SAFE.match(name):
        raise StoreError(f"{name!r} cannot be the name of a {what}: use letters, digits and . _ + = : @ - only.")
    return name


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _door(spool: Path) -> Iterator[None]:
    """Only one process at a time creates or removes sessions, so that none is removed while it is being made."""
    fd = os.open(spool / "door", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _alive(session: Path) -> bool:
    try:
        fd = os.open(session / "lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(fd)
    finally:
        os.close(fd)


def _sweep(spool: Path, temporary: Path) -> None:
    living = set()
    for session in spool.iterdir():
        if not session.is_dir():
            continue
        try:
            if _alive(session):
                living.add(session.name)
                continue
        except PermissionError:  # another user's: theirs to remove
            living.add(session.name)
            continue
        shutil.rmtree(session, ignore_errors=True)
    for left in temporary.iterdir():
        if left.name.partition("+")[0] not in living:
            with suppress(PermissionError):
                left.unlink(missing_ok=True)


def sweep(spool: Path, temporary: Path) -> None:
    """Remove what dead processes left: their spool folders, and blobs in `temporary` that were never finished.

    Never an error: on a store that cannot be written there is nothing to remove.
    """
    with suppress(OSError):
        if any(p.is_dir() for p in spool.iterdir()) or any(temporary.iterdir()):
            with _door(spool):
                _sweep(spool, temporary)


class Session:
    """A private folder under `spool/` that lasts as long as this process (or until `close`)."""

    def __init__(self, spool: Path, temporary: Path) -> None:
        """Creates the folder; StoreError when the store cannot be written."""
        self.name = f"{os.getpid()}-{secrets.token_hex(6)}"
        self.path = spool / self.name
        with doing("create a working folder in", spool), _door(spool):
            _sweep(spool, temporary)
            self.path.mkdir(0o700)
            fd = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            _try_lock(fd)
        self._end = weakref.finalize(self, _end_session, self.path, fd, os.getpid())

    def folder(self, name: str) -> Path:
        """A new empty folder of that name; whatever had the name before is removed."""
        path = self.path / safe_name(name, "trial")
        with doing("create the working folder", path):
            if path.exists():
                shutil.rmtree(path)
            path.mkdir(0o700)
        return path

    def close(self) -> None:
        """Remove the folder with everything in it. Also happens at a normal exit of the process."""
        self._end()


def _end_session(path: Path, fd: int, pid: int) -> None:
    if os.getpid() == pid:  # a forked child must not take its parent's folder away
        shutil.rmtree(path, ignore_errors=True)
    os.close(fd)


def _holder(fd: int) -> str:
    """The process id that the holder of a lock wrote into it, waited for a moment since it locks first and writes
    then; empty where none comes (a full disk)."""
    for _ in range(25):
        told = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
        if told:
            return told
        time.sleep(0.02)
    return ""


@contextmanager
def hold_run(locks: Path, run: str) -> Iterator[None]:
    """Keep this run to ourselves. StoreBusy, naming the holder's process id, while another process has it."""
    path = locks / f"{safe_name(run, 'run')}.lock"
    with doing("lock the run in", path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        with doing("lock the run in", path):
            if not _try_lock(fd):
                holder = _holder(fd)
                who = f"process {holder}" if holder else "another process"
                raise StoreBusy(f"run {run} is being worked on by {who}; wait until it ends, or stop it first.")
        with suppress(OSError):  # a full disk must not keep anyone from holding a run
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
        with suppress(OSError):
            os.ftruncate(fd, 0)
    finally:
        os.close(fd)
