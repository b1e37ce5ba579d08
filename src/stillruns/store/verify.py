"""Integrity: every digest in the store derived again, every mismatch named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from stillruns.errors import StoreDamaged, StoreError
from stillruns.store.blobs import hash_file
from stillruns.store.chains import START, Bad, JournalFile, Torn, journal_files, parse_name, walk
from stillruns.store.disk import doing
from stillruns.store.ids import DIGEST, RUN_ID, spec_digest
from stillruns.store.index import witnessed
from stillruns.store.migrations import check, read_version
from stillruns.store.record import ChainHead, RecordLine


@dataclass(frozen=True, slots=True)
class Problem:
    """`where` is a place relative to the store, `what` one clause that says what does not match there."""

    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Verification:
    """`blobs` and `records` were found right; `problems` do not match. `notes` are no failures: torn tails of writes
    that never returned, and blobs that no record names."""

    blobs: int
    records: int
    problems: tuple[Problem, ...]
    notes: tuple[Problem, ...] = ()
    journals: int = 0

    @property
    def ok(self) -> bool:
        """Whether everything matches."""
        return not self.problems


@dataclass(slots=True)
class _Named:
    """A blob that records name: where first, with which lengths."""

    where: str
    lengths: set[int]


@dataclass(slots=True)
class _Search:
    path: Path
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    records: int = 0
    blobs: int = 0
    named: dict[bytes, _Named] = field(default_factory=dict)
    watched: dict[str, dict[int, tuple[str, str]]] = field(default_factory=dict)
    """Writer -> seq -> (digest, who says so): heads that other journals or the index vouch for."""
    torn: bool = False
    """Whether the file read last ends in a torn line."""

    def problem(self, where: str, what: str) -> None:
        """Something does not match."""
        self.problems.append(Problem(where, what))

    def note(self, where: str, what: str) -> None:
        """Something to know that is no failure."""
        self.notes.append(Problem(where, what))


def verify(path: Path) -> Verification:
    """Derive every digest of the store at `path` again; reads only, and may run beside writers.

    Raises StoreError when there is no store, StoreNewer for one of a newer program; everything else that does not
    match is in the result.
    """
    search = _Search(path)
    try:
        version = read_version(path)
        if version is None:
            if not (path / "journal").is_dir():
                raise StoreError(f"there is no store at {path}; name one with --store DIR.")
            search.problem("VERSION", "it is missing")
        else:
            check(path, version)
    except StoreDamaged as error:
        search.problem("VERSION", str(error))
    files = _files(search)
    _watch(search, files)
    before: JournalFile | None = None
    head = START
    for file in files:
        try:
            head = _file(search, file, before, head)
        except StoreError as error:
            search.problem(file.where, str(error))
        before = file
    _unseen_heads(search)
    _blobs(search)
    return Verification(search.blobs, search.records, tuple(search.problems), tuple(search.notes), len(files))


def _files(search: _Search) -> list[JournalFile]:
    folder = search.path / "journal"
    if not folder.is_dir():
        search.problem("journal", "the folder is missing")
        return []
    files = journal_files(folder)
    with doing("read", folder):
        for path in sorted(folder.iterdir()):
            if parse_name(path) is None:
                search.problem(f"journal/{path.name}", "this is no journal file and does not belong here")
    return files


def _watch(search: _Search, files: list[JournalFile]) -> None:
    """Collect who vouches for which head, before the journals are read."""
    for writer, head in witnessed(search.path / "index.sqlite").items():
        search.watched.setdefault(writer, {})[head.seq] = (head.sha256, "index.sqlite")
    for file in files:
        if file.number != 1:
            continue
        first = next(walk(file), None)
        if first is not None and not isinstance(first, (Bad, Torn)):
            for writer, head in first.line.after.items():
                search.watched.setdefault(writer, {})[head.seq] = (head.sha256, file.where)


def _file(search: _Search, file: JournalFile, before: JournalFile | None, head: ChainHead) -> ChainHead:
    """Check one file; the head of the chain behind it."""
    follows: ChainHead | None = START
    if file.number > 1:
        follows = head
        if before is None or before.writer != file.writer:
            search.problem(f"journal/{file.writer}-1.jsonl", "it is missing, but a later file of the chain is here")
            follows = None
        elif before.number != file.number - 1:
            search.problem(
                f"journal/{file.writer}-{file.number - 1}.jsonl", "it is missing, but the next one is here"
            )
            follows = None
        elif search.torn:
            search.problem(before.where, "its last record is cut off, but the chain goes on in the next file")
            follows = None
    last, search.torn = follows or START, False
    for step in walk(file, 0, follows):
        where = f"{file.where} at byte {step.offset}"
        if isinstance(step, Bad):
            search.problem(where, step.what)
        elif isinstance(step, Torn):
            search.torn = True
            search.note(
                where,
                f"{step.length} bytes of a record that was never finished (a kill or a full disk in mid-write); "
                "that append did not return, so nothing recorded is lost",
            )
        else:
            search.records += 1
            _record(search, where, step.line)
            last = ChainHead(step.line.seq, step.line.sha256)
    return last


def _record(search: _Search, where: str, line: RecordLine) -> None:
    watched = search.watched.get(line.writer)
    if watched and line.seq in watched:
        claimed, who = watched.pop(line.seq)
        if claimed != line.sha256:
            search.problem(where, f"record {line.seq} is {line.sha256}, but {who} names {claimed}")
    try:
        body = line.decode()
    except (StoreDamaged, ValueError) as error:
        search.problem(where, f"the record's body cannot be read: {error}")
        return
    if line.kind == "run_started":
        _spec(search, where, line.run, body)
    for sha256, length in _evidence(body):
        named = search.named.setdefault(bytes.fromhex(sha256[7:]), _Named(where, set()))
        named.lengths.add(length)


def _spec(search: _Search, where: str, run: str, body: dict[str, object]) -> None:
    if "spec" not in body:  # a command run once has none
        return
    claimed = body.get("spec_sha256")
    derived = spec_digest(body["spec"])
    if derived != claimed:
        search.problem(where, f"the spec's canonical form gives {derived}, but the record says {claimed}")
    found = RUN_ID.match(run)
    if found and found[1] != derived[7:15]:
        search.problem(where, f"the run id {run} does not end with the first digits of the spec's digest {derived}")


def _evidence(value: object) -> Iterator[tuple[str, int]]:
    """(digest, length) of everything in a body that has the form of `model.Evidence`: that is what names a blob."""
    if isinstance(value, dict):
        sha256, length = value.get("sha256"), value.get("bytes")
        named = "kind" in value and "source" in value and isinstance(sha256, str) and DIGEST.match(sha256)
        if named and isinstance(length, int):
            yield str(sha256), length
        for item in value.values():
            yield from _evidence(item)
    elif isinstance(value, list):
        for item in value:
            yield from _evidence(item)


def _unseen_heads(search: _Search) -> None:
    for writer, heads in sorted(search.watched.items()):
        for seq, (_, who) in sorted(heads.items()):
            search.problem(f"journal/{writer}", f"record {seq} is missing or damaged, which {who} names")


def _blobs(search: _Search) -> None:
    root = search.path / "blobs"
    unnamed = 0
    for path in _walk_blobs(search, root / "sha256"):
        where = f"blobs/{path.relative_to(root)}"
        claimed = f"sha256:{path.name}"
        if not DIGEST.match(claimed) or path.parent.name != path.name[:2] or not path.is_file():
            search.problem(where, "this is no blob and does not belong here")
            continue
        try:
            blob = hash_file(path)
        except OSError as error:
            search.problem(where, f"it cannot be read: {error.strerror}")
            continue
        named = search.named.pop(bytes.fromhex(path.name), None)
        if blob.sha256 != claimed:
            search.problem(where, f"its bytes give {blob.sha256}" + (f"; named by {named.where}" if named else ""))
            continue
        search.blobs += 1
        unnamed += named is None
        if named and named.lengths != {blob.bytes}:
            wrong = sorted(named.lengths - {blob.bytes})
            search.problem(named.where, f"says that {claimed} has {wrong[0]} bytes, but it has {blob.bytes}")
    for digest, named in search.named.items():
        search.problem(named.where, f"names the blob sha256:{digest.hex()}, which is missing")
    if unnamed:
        search.note(
            "blobs", f"{unnamed} that no record names (of a trial that was interrupted, or just being written)"
        )


def _walk_blobs(search: _Search, folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        search.problem("blobs/sha256", "the folder is missing")
        return
    with doing("read", folder):
        for child in sorted(folder.iterdir()):
            if child.is_dir():
                yield from sorted(child.iterdir())
            else:
                yield child
