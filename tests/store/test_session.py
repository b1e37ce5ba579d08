"""The promise: working folders go with their process, and a run has one holder, who is alive."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from store_helpers import python, start

from stillruns.errors import StoreBusy, StoreError
from stillruns.store.ids import RUN_ID
from stillruns.store.opening import open_store

HOLDER = """
import sys, time
from pathlib import Path
from stillruns.store.opening import open_store
store = open_store(Path(sys.argv[1]))
with store.hold("r"):
    (store.spool("t") / "stdout").write_text("x")
    store.put_bytes(b"unfinished")
    print("held", flush=True)
    time.sleep(100)
"""


BEGINNER = """
import sys
from pathlib import Path
from stillruns.store.opening import open_store
store = open_store(Path(sys.argv[1]))
with store.writer() as writer, store.new_run(sys.argv[2]) as run:
    writer.append("run_started", run, {})
    print(run, flush=True)
"""


def sessions(path: Path) -> list[Path]:
    """The working folders in the store."""
    return [p for p in (path / "spool").iterdir() if p.is_dir()]


def test_hold(tmp_path: Path) -> None:
    """A second holder is told the first one's process id; a killed holder holds nothing; other runs are free."""
    path = tmp_path / "s"
    store = open_store(path)
    with start("-c", HOLDER, path) as child:
        assert child.stdout and child.stdout.readline() == b"held\n"
        with pytest.raises(StoreBusy, match=f"process {child.pid}"), store.hold("r"):
            pass
        with store.hold("other"), pytest.raises(StoreBusy, match=f"process {os.getpid()}"), store.hold("other"):
            pass
        child.send_signal(signal.SIGKILL)
    with store.hold("r"):
        pass
    with pytest.raises(StoreError, match="cannot be the name"), store.hold("../r"):
        pass


def test_new_runs_share_no_id(tmp_path: Path) -> None:
    """Two of one spec in one process, then three that begin at once in processes of their own: five ids, though all
    fall into few seconds; while one is held nobody else gets its id, and an id that was never used is free again."""
    path = tmp_path / "s"
    store = open_store(path)
    sha256 = "sha256:" + "5" * 64
    found = []
    with store.writer() as writer:
        for _ in range(2):
            with store.new_run(sha256) as run:
                found.append(run)
                with pytest.raises(StoreBusy), store.hold(run):
                    pass
                writer.append("run_started", run, {})
    children = [start("-c", BEGINNER, path, sha256) for _ in range(3)]
    for child in children:
        with child:
            assert child.stdout is not None
            found.append(child.stdout.read().decode().strip())
    assert len({*found}) == 5 and all(RUN_ID.match(run) for run in found), found


def test_stale_spool(tmp_path: Path) -> None:
    """A living process keeps its working folder when others open the store; a killed one's is removed, and its
    unfinished blobs with it."""
    path = tmp_path / "s"
    with start("-c", HOLDER, path) as child:
        assert child.stdout and child.stdout.readline() == b"held\n"
        store = open_store(path)
        mine = store.spool("t")
        assert len(sessions(path)) == 2
        child.send_signal(signal.SIGKILL)
    assert len(list((path / "blobs" / "temporary").iterdir())) == 1
    open_store(path, create=False)
    assert len(sessions(path)) == 2, "opening for reading changed something"
    open_store(path)
    assert sessions(path) == [mine.parent]
    assert list((path / "blobs" / "temporary").iterdir()) == []
    store.close()


def test_spool_is_private_and_empty(tmp_path: Path) -> None:
    """A trial's folder begins empty, is nobody else's, and goes with `close` or a normal exit."""
    store = open_store(tmp_path / "s")
    folder = store.spool("run.0")
    (folder / "stdout").write_text("old")
    assert store.spool("run.0") == folder and list(folder.iterdir()) == []
    assert folder.stat().st_mode & 0o077 == 0
    with pytest.raises(StoreError, match="cannot be the name"):
        store.spool("../../x")
    store.close()
    assert not folder.exists() and sessions(store.path) == []
    code = "import sys; from pathlib import Path; from stillruns.store.opening import open_store\n"
    python(code + "open_store(Path(sys.argv[1])).spool('t')", store.path)
    assert sessions(store.path) == []


def test_cache(tmp_path: Path) -> None:
    """A cache folder is made on demand and may be deleted."""
    store = open_store(tmp_path / "s")
    assert store.cache_dir("mesa").is_dir()
    store.cache_dir("mesa").rmdir()
    (store.path / "cache").rmdir()
    assert store.cache_dir("mesa") == store.path / "cache" / "mesa"
