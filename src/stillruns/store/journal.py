"""Appending to the journal: one writer a file, each record on disk before `append` returns."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from types import TracebackType

from stillruns.errors import StoreError
from stillruns.store.chains import START, journal_files
from stillruns.store.disk import doing, sync_path, write_all
from stillruns.store.record import LINE_LIMIT, ChainHead, Record, decode, encode

__all__ = ["FILE_BYTES", "Record", "Writer"]

FILE_BYTES = 4 * 1024 * 1024
"""A journal file is closed before it would exceed this and continued in the next number."""


class Writer:
    """Appends records to a chain of its own. Usable from several threads; a context manager.

    The file is created with the first record. After a failed append (full disk, Ctrl-C) the chain is given up and
    the next append starts a new one: what was recorded stays valid, and nothing is ever written behind a torn line.

    `heads` gives the chains' heads that no journal names yet; `settle` makes every blob durable that was put before;
    `closed` is told the head of a chain that ended well.
    """

    def __init__(
        self,
        folder: Path,
        *,
        heads: Callable[[], dict[str, ChainHead]],
        settle: Callable[[], None],
        closed: Callable[[str, ChainHead], None],
    ) -> None:
        self._folder = folder
        self._heads = heads
        self._settle = settle
        self._closed = closed
        self._lock = Lock()
        self._fd = -1
        self._path = folder
        self._size = 0
        self._name = ""
        self._number = 0
        self._head = START
        self._unsure = 0

    @property
    def name(self) -> str:
        """`w000012-1a2b3c4d`: the number in this store and 8 random digits; empty before the first record."""
        return self._name

    def append(self, kind: str, run: str, body: dict[str, object]) -> Record:
        """One record, on disk (blobs put before it included) when this returns.

        Raises StoreError when it cannot be written: the store is then as it was before, up to a torn line that every
        reader ignores. ValueError/TypeError for a body that JSON cannot hold, StoreError for one over 4 MiB.
        """
        with self._lock:
            if self._unsure:
                self._give_up()
            self._settle()
            after = {} if self._name else self._heads()
            name = self._name or self._new_name()
            line = encode(self._head.seq + 1, self._head.sha256, name, kind, run, body, after)
            if len(line) > LINE_LIMIT:
                raise StoreError(
                    f"cannot write a {kind} record of {len(line)} bytes to {self._folder}: "
                    f"a record holds at most {LINE_LIMIT}; store the big part as a blob."
                )
            record = decode(line[:-1]).record()
            self._unsure = len(line)  # Ctrl-C between any two of these steps leaves a chain that is not gone on with
            try:
                with doing("write the journal", self._path if self._fd >= 0 else self._folder):
                    if self._fd < 0 or self._size + len(line) > FILE_BYTES:
                        self._next_file(name)
                    write_all(self._fd, line)
                    os.fsync(self._fd)
                self._size += len(line)
                self._head = ChainHead(record.seq, record.sha256)
                self._unsure = 0
            finally:
                if self._unsure:
                    self._give_up()
            return record

    def close(self) -> None:
        """Close the file; a later append starts a new chain. Never raises for a chain that has no record."""
        with self._lock:
            if self._unsure:
                self._give_up()
            fd, name, head = self._fd, self._name, self._head
            self._forget()
            if fd >= 0:
                os.close(fd)
                self._closed(name, head)

    def _new_name(self) -> str:
        """Numbers rise in the order of creation, whatever the clock says; equal numbers are told apart by chance."""
        files = journal_files(self._folder)
        number = files[-1].order + 1 if files else 1
        return f"w{number:06d}-{secrets.token_hex(4)}"

    def _next_file(self, name: str) -> None:
        path = self._folder / f"{name}-{self._number + 1}.jsonl"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o666)
        old = self._fd
        self._fd, self._path, self._size, self._name, self._number = fd, path, 0, name, self._number + 1
        if old >= 0:
            os.close(old)
        sync_path(self._folder)

    def _give_up(self) -> None:
        """After a failed append: take a partly written line back where that is possible, and end the chain.

        A line that was written whole is left: another process may have read it already. It is then a record whose
        append did not return.
        """
        fd, path, size, length = self._fd, self._path, self._size, self._unsure
        self._forget()
        if fd < 0:
            return
        try:
            if os.fstat(fd).st_size < size + length:
                os.ftruncate(fd, size)
                if size == 0:
                    path.unlink()
        except OSError:
            pass  # the torn line stays; readers ignore it
        finally:
            os.close(fd)

    def _forget(self) -> None:
        self._fd, self._path, self._size, self._name, self._number = -1, self._folder, 0, "", 0
        self._head, self._unsure = START, 0

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
