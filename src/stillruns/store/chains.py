"""Walking the journal's files: lines, what is wrong with them, and how they hang together.

A writer's chain is `journal/WRITER-1.jsonl`, `WRITER-2.jsonl`, ...; a file is closed at 4 MiB and never grows again.
The bytes after a file's last newline are a *torn tail*: a write that was cut by a kill, a power loss or a full disk.
That append never returned, so nothing recorded is lost; a writer never continues behind one (it starts a chain of
its own), so a torn tail before a further file of the same chain is damage.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stillruns.errors import StoreDamaged
from stillruns.store.disk import doing
from stillruns.store.record import LINE_LIMIT, ZERO, ChainHead, RecordLine, decode

START = ChainHead(-1, ZERO)
"""What the first record of a chain follows."""

_NAME = re.compile(r"(w(\d{6,12})-[0-9a-f]{8})-([1-9]\d{0,8})\.jsonl\Z")


@dataclass(frozen=True, slots=True)
class JournalFile:
    """One file of a chain. `order` is the writer's number in this store: later writers have higher ones."""

    path: Path
    writer: str
    order: int
    number: int

    @property
    def where(self) -> str:
        """As messages name it, relative to the store."""
        return f"journal/{self.path.name}"


@dataclass(frozen=True, slots=True)
class Good:
    """A record whose digest is right, at `offset`; the next line begins at `end` (bytes)."""

    offset: int
    end: int
    line: RecordLine


@dataclass(frozen=True, slots=True)
class Bad:
    """Something that does not match; `what` is a clause for a person."""

    offset: int
    what: str


@dataclass(frozen=True, slots=True)
class Torn:
    """`length` bytes after the last newline that are the beginning of a record."""

    offset: int
    length: int


Step = Good | Bad | Torn


def parse_name(path: Path) -> JournalFile | None:
    """None for a file that is no journal file."""
    found = _NAME.match(path.name)
    return JournalFile(path, found[1], int(found[2]), int(found[3])) if found else None


def journal_files(folder: Path) -> list[JournalFile]:
    """All files of all chains in the order of writers, then numbers. StoreError when the folder cannot be read."""
    with doing("read the journal in", folder):
        found = [parse_name(path) for path in folder.iterdir()]
    return sorted((f for f in found if f), key=lambda f: (f.order, f.writer, f.number))


def walk(file: JournalFile, offset: int = 0, follows: ChainHead | None = None) -> Iterator[Step]:
    """The lines of one file from `offset` on, in order, one at a time.

    `follows` is the record before the first line; None accepts any (the file is not the chain's first and is read
    alone). A record that does not follow the one before it comes as Bad and then as Good: its own bytes are right.
    """
    if follows is None and file.number == 1 and offset == 0:
        follows = START
    with doing("read", file.path), file.path.open("rb") as stream:
        stream.seek(offset)
        while raw := stream.readline(LINE_LIMIT + 1):
            end = offset + len(raw)
            if not raw.endswith(b"\n"):
                yield _tail(raw, offset)
                if len(raw) <= LINE_LIMIT:
                    return
                while raw and not raw.endswith(b"\n"):  # no record is that long: find the next line
                    raw = stream.readline(LINE_LIMIT)
                    end += len(raw)
                offset, follows = end, None
                continue
            try:
                line = decode(raw[:-1])
            except StoreDamaged as error:
                yield Bad(offset, str(error))
                follows = None
            else:
                problem = _misplaced(line, file, follows)
                if problem:
                    yield Bad(offset, problem)
                yield Good(offset, end, line)
                follows = ChainHead(line.seq, line.sha256)
            offset = end


def _tail(raw: bytes, offset: int) -> Bad | Torn:
    """Bytes without a newline: torn only if they can be the beginning of one record."""
    if len(raw) > LINE_LIMIT:
        return Bad(offset, "this is no record: a line without an end")
    try:
        decode(raw[:-1])
    except StoreDamaged:
        return Torn(offset, len(raw))
    return Bad(offset, "the newline after the record was replaced by another byte")


def _misplaced(line: RecordLine, file: JournalFile, follows: ChainHead | None) -> str:
    if line.writer != file.writer:
        return f"the record belongs to the journal of {line.writer}"
    if follows is None or (line.seq == follows.seq + 1 and line.prev_sha256 == follows.sha256):
        return ""
    if line.seq == follows.seq + 1:
        return (
            f"record {line.seq} says that it follows {line.prev_sha256}, but record {follows.seq} is {follows.sha256}"
        )
    if line.seq > follows.seq + 1:
        missing = f"record {follows.seq + 1}" + (f" to {line.seq - 1}" if line.seq > follows.seq + 2 else "")
        return f"{missing} of {line.writer} missing: record {line.seq} stands where it should be"
    return f"record {line.seq} of {line.writer} is out of order: it stands after record {follows.seq}"
