"""The store as one object: evidence in, evidence out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from threading import Lock
from types import TracebackType

from stillruns.errors import StoreBusy
from stillruns.store.blobs import Blob, Blobs
from stillruns.store.chains import Bad, Good, walk
from stillruns.store.disk import damaged, doing
from stillruns.store.ids import run_id
from stillruns.store.index import Index, witness
from stillruns.store.journal import Writer
from stillruns.store.record import ChainHead, Record, RecordLine
from stillruns.store.session import Session, hold_run, safe_name, sweep

__all__ = ["Blob", "RunSummary", "Store"]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run as the journal tells it. `started` and `ended` are UTC, ISO 8601; `ended` is None while the run was not
    ended (or was resumed since); `trials` counts `trial_ended` records."""

    run: str
    name: str
    started: str
    ended: str | None
    trials: int


class Store:
    """An open store. Opening costs little and creates nothing; see `opening.open_store`.

    `put_*`, `spool` and `writer` make the folder `spool/<session>` on their first use, which lasts until `close` or
    the end of the process. Any number of processes may read and write one store at the same time.
    """

    def __init__(self, path: Path) -> None:
        """`path` must be a store of the current layout."""
        self.path = path
        self._index = Index(path)
        self._open_session: Session | None = None
        self._lock = Lock()
        self._blobs = Blobs(path / "blobs", lambda: self._session().name)

    def put_bytes(self, data: bytes) -> Blob:
        """Store bytes as a blob. It is on disk when the next `append` returns (or after `settle`), so a record can
        name it at once. StoreError when it cannot be written."""
        return self._blobs.put_bytes(data)

    def put_file(self, path: Path) -> Blob:
        """Take a file over as a blob: afterwards it is gone from `path`. Durable as with `put_bytes`."""
        return self._blobs.put_file(path)

    def settle(self) -> None:
        """Make every blob that was put so far durable. `append` does this by itself."""
        self._blobs.settle()

    def read_blob(self, sha256: str) -> bytes:
        """The content, checked. StoreError when it is not there, StoreDamaged when it does not match its digest."""
        return self._blobs.read(sha256)

    def blob_path(self, sha256: str) -> Path:
        """The file of a blob, to be read only. It is not checked, and may be missing in a damaged store."""
        return self._blobs.path(sha256)

    def lines(self, run: str | None = None, kind: str | None = None) -> Iterator[RecordLine]:
        """Records with their bodies still as bytes (`RecordLine.decode`), one at a time; see `records`."""
        self._index.refresh()
        for file in list(self._index.files_of(run, kind)):
            for step in walk(file):
                if isinstance(step, Bad):
                    raise damaged(f"{self.path / file.where} at byte {step.offset}: {step.what}")
                if isinstance(step, Good) and run in (None, step.line.run) and kind in (None, step.line.kind):
                    yield step.line

    def records(self, run: str | None = None, kind: str | None = None) -> Iterator[Record]:
        """Records in the order of the journal, read one at a time; only files that hold such are opened.

        The order of one run's records is the order in which they were appended, also over several processes that
        worked on it one after the other. Every record's digest and place are checked on the way: StoreDamaged at the
        first that does not match (those before it have been yielded).
        """
        for line in self.lines(run, kind):
            yield line.record()

    def runs(self) -> tuple[RunSummary, ...]:
        """Every run of which there is a record, by run id (which begins with the time of its start)."""
        self._index.refresh()
        found: dict[str, RunSummary] = {}
        for _, facts in self._index.files.values():
            for run, fact in facts.runs.items():
                old = found.get(run) or RunSummary(run, "", "", None, 0)
                ended = (fact.ended if fact.last == "run_ended" else None) if fact.last else old.ended
                found[run] = RunSummary(
                    run,
                    old.name or fact.name,
                    old.started or fact.started,
                    ended,
                    old.trials + fact.kinds.get("trial_ended", 0),
                )
        return tuple(found[run] for run in sorted(found) if run)

    def writer(self) -> Writer:
        """A new writer with a chain of its own; its file is made with the first record."""
        return Writer(self.path / "journal", heads=self._heads, settle=self._blobs.settle, closed=self._closed)

    def hold(self, run: str) -> AbstractContextManager[None]:
        """Keep a run to this process while in the `with` block: StoreBusy names the process that has it. A holder
        that died holds nothing."""
        with doing("create a folder in", self.path):
            (self.path / "locks").mkdir(exist_ok=True)
        return hold_run(self.path / "locks", run)

    @contextmanager
    def new_run(self, spec_sha256: str) -> Iterator[str]:
        """The id of a run that begins now, kept to this process as `hold` does it.

        An id has whole seconds: where a run of this spec began in this second, here or in another process, the next
        second is waited for, so that two runs never share an id.
        """
        with ExitStack() as stack:
            while True:
                now = datetime.now(timezone.utc)
                run = run_id(now, spec_sha256)
                with suppress(StoreBusy):
                    stack.enter_context(self.hold(run))
                    if not self._has(run):
                        break
                    stack.close()
                time.sleep(1.0 - now.microsecond / 1e6)
            yield run

    def _has(self, run: str) -> bool:
        self._index.refresh()
        return any(run in facts.runs for _, facts in self._index.files.values())

    def spool(self, trial: str) -> Path:
        """A new, empty, private folder for a running trial's capture files. It goes with this process at the latest:
        what is to stay must be put into the store."""
        return self._session().folder(trial)

    def cache_dir(self, name: str) -> Path:
        """`cache/NAME`, created: for what can be made again (shader caches, synthetic models)."""
        path = self.path / "cache" / safe_name(name, "cache")
        with doing("create the folder", path):
            path.mkdir(parents=True, exist_ok=True)
        return path

    def sweep(self) -> None:
        """Remove what dead processes left in `spool/` and `blobs/temporary/`; never an error."""
        sweep(self.path / "spool", self._blobs.temporary)

    def close(self) -> None:
        """Make waiting blobs durable and remove this process's working folder."""
        self._blobs.settle()
        if self._open_session:
            self._open_session.close()
            self._open_session = None

    def _session(self) -> Session:
        with self._lock:
            if self._open_session is None:
                with doing("create a folder in", self.path):
                    (self.path / "spool").mkdir(exist_ok=True)
                    self._blobs.temporary.mkdir(parents=True, exist_ok=True)
                self._open_session = Session(self.path / "spool", self._blobs.temporary)
            return self._open_session

    def _heads(self) -> dict[str, ChainHead]:
        self._index.refresh()
        return self._index.unnamed_heads()

    def _closed(self, writer: str, head: ChainHead) -> None:
        witness(self.path / "index.sqlite", writer, head)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
