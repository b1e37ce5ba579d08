"""The promise: the index saves time and nothing else: without it, or with a damaged one, the answers are the same."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_helpers import answers, bulk, fill, python

from stillruns.errors import StoreDamaged
from stillruns.store.index import load
from stillruns.store.opening import open_store


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[object, ...]]:
    """A store with two runs and an index, and what it answers."""
    store = open_store(tmp_path_factory.mktemp("index") / "s")
    fill(store, "one")
    fill(store, "two", end=False)
    expected = answers(store)
    store.close()
    return store.path, expected


def test_deleted(filled: tuple[Path, tuple[object, ...]]) -> None:
    """Deleting the index changes no answer, and it is made again."""
    path, expected = filled
    (path / "index.sqlite").unlink()
    assert answers(open_store(path)) == expected
    assert len(load(path / "index.sqlite")) == 2


@pytest.mark.parametrize("content", [b"", b"garbage" * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_garbage(filled: tuple[Path, tuple[object, ...]], content: bytes) -> None:
    """A file that is no database is replaced; a folder in its place is lived with."""
    path, expected = filled
    index = path / "index.sqlite"
    index.write_bytes(content)
    assert answers(open_store(path)) == expected
    assert len(load(index)) == 2
    index.unlink()
    index.mkdir()
    assert answers(open_store(path)) == expected
    index.rmdir()
    open_store(path).runs()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_bytes_changed(filled: tuple[Path, tuple[object, ...]], data: st.DataObject) -> None:
    """Bytes changed anywhere in the index never lose, hide or alter a record."""
    path, expected = filled
    index = path / "index.sqlite"
    good = index.read_bytes()
    changed = bytearray(good)
    # places as fractions: the index is written anew in between, and its length is not always the same
    for place, flip in data.draw(
        st.lists(st.tuples(st.integers(0, (1 << 20) - 1), st.integers(1, 255)), min_size=1, max_size=3)
    ):
        changed[place * len(good) >> 20] ^= flip
    index.write_bytes(changed)
    try:
        assert answers(open_store(path, create=False)) == expected
    finally:
        index.write_bytes(good)


def test_foreign_index(filled: tuple[Path, tuple[object, ...]], tmp_path: Path) -> None:
    """The index of another store, or one whose table another program changed, is not believed."""
    path, expected = filled
    other = open_store(tmp_path / "other")
    fill(other, "other")
    other.runs()
    shutil.copy(other.path / "index.sqlite", path / "index.sqlite")
    assert answers(open_store(path)) == expected
    with sqlite3.connect(path / "index.sqlite") as connection:
        connection.execute("DELETE FROM heads")
        connection.execute("UPDATE files SET facts = replace(facts, 'one', 'two')")
    connection.close()
    assert answers(open_store(path)) == expected


def test_follows_a_growing_journal(tmp_path: Path) -> None:
    """A reader that is open while another process writes sees every record as soon as it is there."""
    reader, writing = open_store(tmp_path / "s"), open_store(tmp_path / "s")
    with writing.writer() as writer:
        for count in range(1, 8):
            writer.append("trial_ended", "r", {"n": count, "pad": "x" * 900_000})
            assert [r.body["n"] for r in reader.records("r")] == list(range(1, count + 1))
            assert reader.runs()[0].trials == count


WATCH = """
import sys
from pathlib import Path
from stillruns.store.opening import open_store
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
store = open_store(Path(sys.argv[1]), create=False)
print(len(list(store.records(sys.argv[2] or None, sys.argv[3] or None))))
print(sum(name.endswith(".jsonl") for name in opened))
"""


def test_reads_only_the_runs_own_journals(filled: tuple[Path, tuple[object, ...]]) -> None:
    """`records(run)` opens no journal of another run."""
    path, _ = filled
    for run in open_store(path).runs():
        assert python(WATCH, path, run.run, "").split() == ["10" if run.ended else "9", "1"]


def test_reads_only_files_with_the_kind(tmp_path: Path) -> None:
    """A kind that is in one file of a long run costs one file; a damaged file is not passed over for that."""
    store = open_store(tmp_path / "s")
    with store.writer() as writer:
        writer.append("run_started", "r", {"name": "long"})
        for _ in range(10):
            writer.append("trial_ended", "r", {"pad": "x" * 1_000_000})
    store.runs()
    assert python(WATCH, store.path, "", "run_started").split() == ["1", "1"]
    file = sorted((store.path / "journal").iterdir())[1]
    file.write_bytes(file.read_bytes().replace(b'"kind":"trial_ended"', b'"kind":"run_started"', 1))
    with pytest.raises(StoreDamaged):
        list(open_store(store.path).records(kind="run_started"))


def test_summaries(tmp_path: Path) -> None:
    """A run that goes on after its end has no end; its name and start are those of its first record."""
    store = open_store(tmp_path / "s")
    run = fill(store)
    first = store.runs()[0]
    assert first.ended and first.trials == 3 and first.name == "first"
    with store.writer() as writer:
        writer.append("run_started", run, {"name": "again"})
        writer.append("trial_ended", run, {})
        again = store.runs()[0]
        assert (again.ended, again.trials, again.name, again.started) == (None, 4, "first", first.started)
        end = writer.append("run_ended", run, {})
    assert store.runs()[0].ended == end.at


def test_damage_noticed_behind_a_fresh_index(tmp_path: Path) -> None:
    """Bytes that rot without a trace in the file's time are found when they are read."""
    store = open_store(tmp_path / "s")
    run = fill(store)
    store.runs()
    [file] = (store.path / "journal").iterdir()
    status, data = file.stat(), bytearray(file.read_bytes())
    data[500] ^= 4
    file.write_bytes(data)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(StoreDamaged):
        list(open_store(store.path).records(run))


MEASURE = """
import sys, time
from pathlib import Path
from stillruns.store.opening import open_store
from stillruns.store.view import iter_trials
begin = time.process_time()
store = open_store(Path(sys.argv[1]), create=False)
[run] = store.runs()
opened = time.process_time() - begin
count = sum(1 for _ in store.records(run.run))
trials = sum(1 for _ in iter_trials(store, run.run))
status = Path("/proc/self/status").read_text()
print(run.trials, count, trials, opened, int(status.split("VmHWM:")[1].split()[0]) // 1024)
"""


@pytest.mark.slow()
def test_ten_thousand_trials(tmp_path: Path) -> None:
    """10,000 trials of 6 KB: once indexed, opened in a fraction of the time that reading them takes, and listed with
    well below 100 MB."""
    store = open_store(tmp_path / "s")
    bulk(store, "20261130T091500Z-00000000", 10_000)
    store.close()
    spent = []
    for _ in range(2):  # the first builds the index
        trials, count, decoded, opened, mib = python(MEASURE, store.path).split()
        assert (trials, count, decoded) == ("10000", "10000", "10000")
        print(f"opened in {float(opened):.3f} s, at most {mib} MiB")
        spent.append(float(opened))
        assert int(mib) < 60
    assert spent[1] < spent[0] / 4, spent
