"""Blobs: bytes under the name of their digest, written once.

`blobs/sha256/ab/<64 hex>`. Content is first written to `blobs/temporary/` and gets its name when it is on disk:
`settle` does that for all waiting blobs at once (parallel fsyncs share one commit of the file system's journal), and
the journal calls it before every record. So no record ever names a blob that is not on disk.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import RLock

from stillruns.errors import StoreError
from stillruns.store.disk import damaged, doing, sync_paths, write_all
from stillruns.store.ids import DIGEST, sha256_of

_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Blob:
    """`sha256` has the form `sha256:<64 hex>`; `bytes` is the length."""

    sha256: str
    bytes: int


def place(folder: Path, sha256: str) -> Path:
    """Where a blob lies below `blobs/`. StoreError for a text that is no digest."""
    if not DIGEST.match(sha256):
        raise StoreError(f"{sha256!r} is no digest: expected sha256: and 64 hex digits.")
    return folder / "sha256" / sha256[7:9] / sha256[7:]


def hash_file(path: Path) -> Blob:
    """Digest and length of a file, read in pieces of 1 MiB. Raises OSError."""
    digest, length = hashlib.sha256(), 0
    with path.open("rb") as stream:
        while piece := stream.read(_CHUNK):
            digest.update(piece)
            length += len(piece)
    return Blob(f"sha256:{digest.hexdigest()}", length)


class Blobs:
    """The blobs of one store. `session` gives the name that marks this process's temporary files."""

    def __init__(self, folder: Path, session: Callable[[], str]) -> None:
        self._folder = folder
        self._session = session
        self._lock = RLock()
        self._count = 0
        self._waiting: dict[str, Path] = {}
        self._unsynced: set[Path] = set()

    @property
    def temporary(self) -> Path:
        """Where content waits for its name."""
        return self._folder / "temporary"

    def path(self, sha256: str) -> Path:
        """The blob's file (finished first if it is waiting). It may be missing: see `read`."""
        with self._lock:
            if sha256 in self._waiting:
                self.settle()
        return place(self._folder, sha256)

    def read(self, sha256: str) -> bytes:
        """The content, checked. StoreError when it is not there, StoreDamaged when its digest does not match."""
        path = self.path(sha256)
        with doing("read the blob", path):
            data = path.read_bytes()
        if sha256_of(data) != sha256:
            raise damaged(f"the blob {path} does not match its name")
        return data

    def put_bytes(self, data: bytes) -> Blob:
        """Store bytes; durable when the next record is, or after `settle`. StoreError when they cannot be written."""
        blob = Blob(sha256_of(data), len(data))
        with self._lock:
            if not self._have(blob):
                temporary = self._new_temporary()
                done = False
                try:
                    with doing("write a blob to", temporary):
                        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
                        try:
                            write_all(fd, data)
                        finally:
                            os.close(fd)
                    done = True
                finally:
                    if not done:
                        temporary.unlink(missing_ok=True)
                self._waiting[blob.sha256] = temporary
        return blob

    def put_file(self, path: Path) -> Blob:
        """Take a file over: afterwards it is a blob and gone from `path`. It must not be written to any more.

        Renamed where that is possible (same file system, a regular file with one name), else copied.
        """
        with self._lock:
            temporary = self._new_temporary()
            done = False
            try:
                with doing("store the file", path):
                    _take(path, temporary)
                    blob = hash_file(temporary)
                done = True
            finally:
                if not done:
                    _give_back(temporary, path)
            if self._have(blob):
                temporary.unlink()
            else:
                self._waiting[blob.sha256] = temporary
        return blob

    def settle(self) -> None:
        """Give every waiting blob its name, durably. StoreError when the disk refuses: they keep waiting."""
        with self._lock:
            if not self._waiting and not self._unsynced:
                return
            with doing("write blobs to", self._folder):
                sync_paths(self._waiting.values())
                for sha256, temporary in list(self._waiting.items()):
                    goal = place(self._folder, sha256)
                    if not goal.parent.is_dir():
                        goal.parent.mkdir(parents=True, exist_ok=True)
                        self._unsynced.add(goal.parent.parent)
                    temporary.chmod(0o444)
                    temporary.replace(goal)
                    del self._waiting[sha256]
                    self._unsynced.add(goal.parent)
                sync_paths(self._unsynced)
                self._unsynced.clear()

    def _have(self, blob: Blob) -> bool:
        """A file of another length under the name is damage; writing it again heals it."""
        if blob.sha256 in self._waiting:
            return True
        with doing("look for the blob", self._folder):
            try:
                found = place(self._folder, blob.sha256).stat()
            except FileNotFoundError:
                return False
        return found.st_size == blob.bytes

    def _new_temporary(self) -> Path:
        self._count += 1
        return self.temporary / f"{self._session()}+{self._count}"


def _take(path: Path, goal: Path) -> None:
    """Move where the result is a file that nobody else can change, else copy and remove the original's name."""
    status = path.lstat()
    if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
        try:
            path.rename(goal)
            return
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
    shutil.copyfile(path, goal)
    path.unlink()


def _give_back(temporary: Path, path: Path) -> None:
    """After a failure: the file stays where it was, and nothing half-copied is left."""
    if path.exists():
        temporary.unlink(missing_ok=True)
    elif temporary.exists():
        temporary.rename(path)
