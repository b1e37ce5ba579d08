"""Opens what a person may hand over as a log: files (plain, .gz, .xz, .zst, .bz2), folders, standard input.

Everything is streamed: a block at a time, decompressed on the way, hashed and counted. A compressed file that ends
early gives what it holds, with a note.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from stillruns.collect import no_logs
from stillruns.collect.no_logs import CACHES, MARKDOWN, LeftOut
from stillruns.errors import UsageError
from stillruns.model.expression import Expression

BLOCK = 1 << 20
MAX_FILES = 500
"""Of a folder, so many files are read."""
LONGEST_PAGE = 16 << 20
"""Bytes; what is longer and called Markdown is no page that a person wrote."""
CORE_MAGIC = b"\x7fELF"

_ID = Expression(r"\d{8}T\d{6}Z-[0-9a-f]{8}(?:\.\d{4,})?\Z")
_BINARY = (b"GGUF", b"PK\x03\x04", b"\x89PNG", b"SQLite format 3")


class _Decoder(Protocol):
    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """The next plain bytes."""

    @property
    def eof(self) -> bool:
        """The compressed stream is complete."""

    @property
    def unused_data(self) -> bytes:
        """What follows it."""

    @property
    def needs_input(self) -> bool:
        """Nothing more comes out before more goes in."""


class _Gzip:
    """zlib's object behind the same face as the others."""

    def __init__(self) -> None:
        import zlib

        self._object = zlib.decompressobj(wbits=31)

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """See _Decoder."""
        return self._object.decompress(self._object.unconsumed_tail + data, max(0, max_length))

    @property
    def eof(self) -> bool:
        """See _Decoder."""
        return self._object.eof

    @property
    def unused_data(self) -> bytes:
        """See _Decoder."""
        return self._object.unused_data

    @property
    def needs_input(self) -> bool:
        """See _Decoder."""
        return not self._object.unconsumed_tail


_MAGIC = ((b"\x1f\x8b", "gz"), (b"\xfd7zXZ\x00", "xz"), (b"\x28\xb5\x2f\xfd", "zst"), (b"BZh", "bz2"))


@dataclass
class LogInput:
    """One input. Iterate `blocks()` once; `sha256` and `size` (of the plain bytes) are complete after that."""

    path: str
    stream: BinaryIO | None = None
    note: str = ""
    size: int = 0
    page: bool = False
    """A page in Markdown that a folder holds: only what it quotes is a log."""
    _digest: hashlib._Hash = field(default_factory=hashlib.sha256)

    @property
    def sha256(self) -> str:
        """Of the plain bytes read so far, as `sha256:<hex>`."""
        return f"sha256:{self._digest.hexdigest()}"

    def blocks(self) -> Iterator[bytes]:
        """The plain bytes, a block of about a megabyte at a time."""
        file = self.stream if self.stream is not None else _open(self.path)
        try:
            first = file.read(BLOCK)
            form = next((name for magic, name in _MAGIC if first.startswith(magic)), "")
            source = self._inflate(first, file, form) if form else _plain(first, file)
            yield from self._hashed(source)
        except OSError as error:
            if self.size == 0:
                raise UsageError(
                    f"{self.path} cannot be read: {error.strerror or error}; name another file."
                ) from error
            self.note = f"reading stopped after {self.size} bytes: {error.strerror or error}"
        finally:
            if self.stream is None:
                file.close()

    def _hashed(self, source: Iterator[bytes]) -> Iterator[bytes]:
        """The blocks, hashed on the way: from the second on beside the reading, which hashing does not hold up."""
        first = next(source, b"")
        self._digest.update(first)
        self.size += len(first)
        if first:
            yield first
        second = next(source, b"")
        if not second:
            return
        from concurrent.futures import Future, ThreadPoolExecutor  # here: it loads logging, which a paste can spare

        with ThreadPoolExecutor(1) as worker:
            pending: Future[None] | None = None
            for block in itertools.chain((second,), source):
                if pending is not None:
                    pending.result()
                pending = worker.submit(self._digest.update, block)
                self.size += len(block)
                yield block

    def _inflate(self, first: bytes, file: BinaryIO, form: str) -> Iterator[bytes]:
        data, (decoder, faults), finished = first, _decoder(form), False
        while data:
            try:
                plain = decoder.decompress(data, BLOCK)
                data = b""
                while True:
                    if plain:
                        yield plain
                    if decoder.eof or decoder.needs_input:
                        break
                    plain = decoder.decompress(b"", BLOCK)
            except faults as error:
                self.note = f"the {form} data is damaged or cut: {str(error)[:120]}; what came before it was read"
                return
            finished = decoder.eof
            if finished:
                data = decoder.unused_data.lstrip(b"\0")
                if data and not data.startswith(tuple(m for m, _ in _MAGIC)):
                    self.note = f"{len(data)} bytes after the {form} data are ignored"
                    return
                decoder, faults = _decoder(form)
            data = data or file.read(BLOCK)
        if not finished:
            self.note = f"the {form} data ends early"


def _decoder(form: str) -> tuple[_Decoder, tuple[type[Exception], ...]]:
    """(the decoder, what it raises on damage). Each library is loaded when a file needs it."""
    common = (OSError, EOFError, ValueError)
    if form == "gz":
        import zlib

        return _Gzip(), (*common, zlib.error)
    if form == "xz":
        import lzma

        return lzma.LZMADecompressor(memlimit=256 << 20), (*common, lzma.LZMAError)
    if form == "bz2":
        import bz2

        return bz2.BZ2Decompressor(), common
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd

    decoder: _Decoder = zstd.ZstdDecompressor()
    return decoder, (*common, zstd.ZstdError)


def _plain(first: bytes, file: BinaryIO) -> Iterator[bytes]:
    block = first
    while block:
        yield block
        block = file.read(BLOCK)


def _open(path: str) -> BinaryIO:
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise UsageError(
            f"{path} cannot be opened: {error.strerror}; name a log file, a folder, or - for standard input."
        ) from error


def in_store(path: str) -> bool:
    """Whether this is a folder that holds a store, or the id of a run or a trial that is no file."""
    if path == "-":
        return False
    place = Path(path)
    if _ID.match(path) and not place.exists():
        return True
    return (place / "VERSION").is_file() and (place / "journal").is_dir()


def inputs(paths: tuple[str, ...], stdin: BinaryIO, left: LeftOut | None = None) -> tuple[LogInput, ...]:
    """What the paths name, folders opened (files that look like logs, sorted). What a folder holds besides logs (JSON
    documents, source code, settings, tables) is added to `left`: its words are no lines of a log. A file that is
    named is read whatever it is. Raises UsageError for what is not there."""
    found: list[LogInput] = []
    left = LeftOut() if left is None else left
    for path in paths:
        if path == "-":
            found.append(LogInput("-", stdin))
        elif Path(path).is_dir():
            found += _files(Path(path), left)
        elif not Path(path).exists():
            raise UsageError(f"{path} is not there; name a log file, a folder, or - for standard input.")
        else:
            found.append(LogInput(path))
    return tuple(found)


def _files(folder: Path, left: LeftOut) -> list[LogInput]:
    below = (p for p in sorted(folder.rglob("*")) if not CACHES.intersection(p.relative_to(folder).parts[:-1]))
    files = [p for p in below if p.is_file() and not p.name.startswith(".")]
    chosen = []
    for path in files:
        with path.open("rb") as file:
            head = file.read(4096)
        if path.suffix == ".json" and _is_document(path):
            left.documents.append(str(path))
        elif no_logs.is_one(path, head):
            left.others.append(str(path))
        elif _looks_like_log(path, head):
            chosen.append(path)
    if not chosen:
        besides = f" (left out, as they are no logs: {len(left.others)})" if left.others else ""
        raise UsageError(f"{folder} holds no file that looks like a log{besides}; name the file itself.")
    left.further = max(0, len(chosen) - MAX_FILES)
    found = [LogInput(str(path), page=_is_page(path)) for path in chosen[:MAX_FILES]]
    left.markdown += [entry.path for entry in found if entry.page]
    return found


def _is_page(path: Path) -> bool:
    return path.suffix.lower() in MARKDOWN and path.stat().st_size <= LONGEST_PAGE


def _looks_like_log(path: Path, head: bytes) -> bool:
    if not head or head.startswith(_BINARY):
        return False
    if head.startswith(CORE_MAGIC):
        return is_core(path)
    if head.startswith(tuple(m for m, _ in _MAGIC)):
        return True
    return head.count(b"\0") < len(head) // 8 or b"\n" in head


def _is_document(path: Path) -> bool:
    """Whether a .json file is one document: journals and containers write an object on each line."""
    with path.open("rb") as file:
        head = file.read(65536).lstrip()
    first = head.split(b"\n", 1)[0].rstrip()
    if not head.startswith((b"{", b"[")):
        return False
    return not any(key in first for key in (b'"log":', b'"__REALTIME_TIMESTAMP"', b'"MESSAGE"'))


def is_core(path: Path) -> bool:
    """Whether a file is an ELF core dump (type 4)."""
    try:
        with path.open("rb") as file:
            head = file.read(20)
    except OSError:
        return False
    if not head.startswith(CORE_MAGIC) or len(head) < 18:
        return False
    return int.from_bytes(head[16:18], "little" if head[5] == 1 else "big") == 4
