"""The derived index: what each journal file holds, so that opening a big store reads almost nothing.

One entry a journal file (at most 4 MiB of records), kept in memory and, where the store can be written, in
`index.sqlite`. It is never believed about more than it can prove: an entry carries its own digest and counts only
while the file has the size, inode and time that it was made for (a grown file is read on from there). A file without
such an entry is read. So a missing, damaged, read-only or deleted index costs time, never a record.

It also remembers the head of each chain that was closed well, as a witness for `verify`: a chain alone cannot show
that its tail was cut off.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgspec

from stillruns.store.chains import Bad, Good, JournalFile, journal_files, walk
from stillruns.store.disk import damaged, doing
from stillruns.store.ids import sha256_of
from stillruns.store.record import ChainHead, RecordLine

VERSION = 1
"""Of the index's form; another one is thrown away and made anew."""

_WAIT_SECONDS = 0.5


class RunFacts(msgspec.Struct):
    """What one file tells of one run: records by kind; `last` is the kind of the last run_started or run_ended,
    `ended` its time."""

    kinds: dict[str, int] = msgspec.field(default_factory=dict)
    name: str = ""
    started: str = ""
    last: str = ""
    ended: str = ""


class FileFacts(msgspec.Struct):
    """What is in one file up to byte `read`. `first_prev` is what its first record follows; `after` what the first
    record of the chain names; `bad` the first thing that does not match (None = nothing)."""

    size: int = 0
    time_ns: int = 0
    inode: int = 0
    read: int = 0
    first_prev: str = ""
    head: ChainHead | None = None
    after: dict[str, ChainHead] = msgspec.field(default_factory=dict)
    runs: dict[str, RunFacts] = msgspec.field(default_factory=dict)
    bad: str | None = None


def _note(facts: FileFacts, line: RecordLine) -> None:
    run = facts.runs.setdefault(line.run, RunFacts())
    run.kinds[line.kind] = run.kinds.get(line.kind, 0) + 1
    if line.kind == "run_started":
        body = line.decode()
        run.name = run.name or str(body.get("name", ""))
        run.started = run.started or line.at
    if line.kind in ("run_started", "run_ended"):
        run.last, run.ended = line.kind, line.at


def _grown(known: FileFacts, status: os.stat_result) -> bool:
    """Whether the file can be read on from where it was read to. Same size at another time means rewritten."""
    longer = max(known.read, known.size + 1) <= status.st_size
    return longer and not known.bad and known.inode == status.st_ino


def read_facts(file: JournalFile, known: FileFacts | None) -> FileFacts:
    """The facts of one file as it is now; `known` is used where it still fits. StoreError when it cannot be read."""
    with doing("read", file.path):
        status = file.path.stat()
    if known and (known.size, known.time_ns, known.inode) == (status.st_size, status.st_mtime_ns, status.st_ino):
        return known
    grown = known is not None and _grown(known, status)
    facts = known if known and grown else FileFacts()
    for step in walk(file, facts.read, facts.head):
        if isinstance(step, Bad):
            if grown:  # what stood before may have changed as well: read it all again
                return read_facts(file, None)
            facts.bad = facts.bad or f"{file.where} at byte {step.offset}: {step.what}"
        elif isinstance(step, Good):
            if facts.head is None:
                facts.first_prev, facts.after = step.line.prev_sha256, step.line.after
            _note(facts, step.line)
            facts.head, facts.read = ChainHead(step.line.seq, step.line.sha256), step.end
    facts.size, facts.time_ns, facts.inode = status.st_size, status.st_mtime_ns, status.st_ino
    return facts


class Index:
    """The index of the store at `path`. `refresh` before every question."""

    def __init__(self, path: Path) -> None:
        self._journal = path / "journal"
        self._database = path / "index.sqlite"
        self._entries: dict[str, FileFacts] | None = None
        self.files: dict[str, tuple[JournalFile, FileFacts]] = {}
        """By file name, in journal order."""

    def refresh(self) -> None:
        """Bring the entries up to date with the journal, and save what changed if that is possible."""
        if self._entries is None:
            self._entries = load(self._database)
        fresh: dict[str, tuple[JournalFile, FileFacts]] = {}
        changed: dict[str, FileFacts] = {}
        for file in journal_files(self._journal):
            known = self._entries.get(file.path.name)
            stamp = (known.size, known.time_ns) if known else None
            facts = read_facts(file, known)
            fresh[file.path.name] = (file, facts)
            if stamp != (facts.size, facts.time_ns) or facts is not known:
                changed[file.path.name] = facts
        gone = [name for name in self._entries if name not in fresh]
        self.files = fresh
        self._entries = {name: facts for name, (_, facts) in fresh.items()}
        if changed or gone:
            save(self._database, changed, gone)

    def unnamed_heads(self) -> dict[str, ChainHead]:
        """Heads of the chains that no journal names yet; a damaged chain has none that one could vouch for."""
        heads: dict[str, ChainHead] = {}
        named: dict[str, int] = {}
        damaged = set()
        for file, facts in self.files.values():
            if facts.head:
                heads[file.writer] = facts.head
            if facts.bad:
                damaged.add(file.writer)
            for writer, head in facts.after.items():
                named[writer] = max(head.seq, named.get(writer, -1))
        return {w: h for w, h in heads.items() if h.seq > named.get(w, -1) and w not in damaged}

    def files_of(self, run: str | None, kind: str | None) -> Iterator[JournalFile]:
        """The files that hold records of the run and of the kind (None: any), in journal order.

        A damaged file of which nothing can be read may hold anything, so it is among them. StoreDamaged when a file
        that should stand before one of them is not there, or is not what it follows.
        """
        before: tuple[JournalFile, FileFacts] | None = None
        for file, facts in self.files.values():
            if _may_hold(facts, run, kind):
                _connected(before, file, facts)
                yield file
            before = (file, facts)


def _may_hold(facts: FileFacts, run: str | None, kind: str | None) -> bool:
    runs = list(facts.runs.values()) if run is None else [facts.runs[run]] if run in facts.runs else []
    if facts.bad:
        return bool(runs) or not facts.runs
    return any(kind is None or kind in found.kinds for found in runs)


def _connected(before: tuple[JournalFile, FileFacts] | None, file: JournalFile, facts: FileFacts) -> None:
    if file.number == 1 or facts.head is None:
        return
    if before is None or before[0].writer != file.writer or before[0].number != file.number - 1:
        raise damaged(f"{file.where}: the file before it is missing")
    head = before[1].head
    if head is None or head.sha256 != facts.first_prev:
        raise damaged(f"{file.where} does not follow the end of {before[0].where}")


@contextmanager
def _connect(database: Path, mode: str) -> Iterator[sqlite3.Connection]:
    uri = f"{database.absolute().as_uri()}?mode={mode}"
    with closing(sqlite3.connect(uri, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)) as connection:
        yield connection


def _rows(database: Path, table: str) -> list[tuple[str, bytes]]:
    """Rows whose digest is right; nothing when the database is missing, damaged, locked or of another version."""
    try:
        with _connect(database, "ro") as connection:
            if connection.execute("PRAGMA user_version").fetchone() != (VERSION,):
                return []
            rows = connection.execute(f"SELECT name, facts, sha256 FROM {table}").fetchall()  # noqa: S608
    except sqlite3.Error:
        return []
    return [(n, f) for n, f, d in rows if isinstance(n, str) and isinstance(f, bytes) and d == _seal(n, f)]


def _seal(name: str, facts: bytes) -> str:
    return sha256_of(name.encode("utf-8", "replace") + b"\0" + facts)


def load(database: Path) -> dict[str, FileFacts]:
    """The entries that prove themselves."""
    entries = {}
    for name, facts in _rows(database, "files"):
        with suppress(msgspec.DecodeError):
            entries[name] = msgspec.json.decode(facts, type=FileFacts)
    return entries


def witnessed(database: Path) -> dict[str, ChainHead]:
    """Writer -> the head of its chain when it was closed."""
    heads = {}
    for writer, facts in _rows(database, "heads"):
        with suppress(msgspec.DecodeError):
            heads[writer] = msgspec.json.decode(facts, type=ChainHead)
    return heads


def _prepare(connection: sqlite3.Connection) -> None:
    current = connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
    for table in ("files", "heads"):
        if not current:
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table} (name TEXT PRIMARY KEY, facts BLOB, sha256 TEXT)")
    if not current:
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _write(database: Path, table: str, rows: dict[str, bytes], gone: list[str]) -> None:
    with _connect(database, "rwc") as connection:
        connection.execute("PRAGMA synchronous = OFF")  # derived data: a power loss may cost it
        connection.execute("BEGIN IMMEDIATE")
        _prepare(connection)
        connection.executemany(
            f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)",  # noqa: S608
            [(name, facts, _seal(name, facts)) for name, facts in rows.items()],
        )
        connection.executemany(f"DELETE FROM {table} WHERE name = ?", [(name,) for name in gone])  # noqa: S608
        connection.execute("COMMIT")


def _save(database: Path, table: str, rows: dict[str, bytes], gone: list[str]) -> None:
    """Save if possible. A database that is none any more is removed and made anew."""
    try:
        _write(database, table, rows, gone)
    except sqlite3.OperationalError:
        return  # read-only, full or busy: the next one may
    except sqlite3.DatabaseError:
        with suppress(OSError, sqlite3.Error):
            database.unlink()
            _write(database, table, rows, gone)


def save(database: Path, changed: dict[str, FileFacts], gone: list[str]) -> None:
    """Save entries; never an error, since everything here can be derived again."""
    _save(database, "files", {name: msgspec.json.encode(facts) for name, facts in changed.items()}, gone)


def witness(database: Path, writer: str, head: ChainHead) -> None:
    """Remember the head of a chain that was closed well."""
    _save(database, "heads", {writer: msgspec.json.encode(head)}, [])
