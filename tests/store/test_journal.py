"""The promise: a record that `append` returned is on disk, in order, and proves itself."""

from __future__ import annotations

import os
import random
import resource
import signal
import time
from pathlib import Path

import pytest
from store_helpers import HERE, fill, python, small_disk, start

from stillruns.errors import StoreDamaged, StoreError
from stillruns.store.journal import FILE_BYTES
from stillruns.store.opening import open_store
from stillruns.store.record import ZERO
from stillruns.store.verify import verify


def journals(path: Path) -> list[Path]:
    """The journal files in order."""
    return sorted((path / "journal").iterdir(), key=lambda p: (p.name[:7], int(p.stem.rpartition("-")[2])))


def test_append_returns_what_readers_see(tmp_path: Path) -> None:
    """The returned record is the one that is read back, also by another process's store; order of keys included."""
    store = open_store(tmp_path / "s")
    with store.writer() as writer:
        body = {"z": 1, "a": (1, 2), "text": "é\n\udcff", "deep": {"x": None, "f": 0.1}}
        first = writer.append("run_started", "r", body)
        second = writer.append("run_ended", "r", {})
    assert (first.seq, first.prev_sha256, second.seq, second.prev_sha256) == (0, ZERO, 1, first.sha256)
    assert first.body == {**body, "a": [1, 2]} and list(first.body) == list(body)
    assert list(open_store(tmp_path / "s", create=False).records()) == [first, second]


def test_one_writer_a_file(tmp_path: Path) -> None:
    """Every writer has a chain of its own; no file without a record; later writers sort behind earlier ones."""
    store = open_store(tmp_path / "s")
    with store.writer() as one, store.writer() as two, store.writer():
        one.append("k", "r1", {"n": 1})
        two.append("k", "r2", {"n": 2})
        one.append("k", "r1", {"n": 3})
    with store.writer() as three:
        three.append("k", "r1", {"n": 4})
    assert len(journals(store.path)) == 3
    assert [r.body["n"] for r in store.records("r1")] == [1, 3, 4]
    assert verify(store.path).problems == ()


def test_closed_at_four_mib(tmp_path: Path) -> None:
    """A file never exceeds 4 MiB; the chain goes on in the next number, and readers see one sequence."""
    store = open_store(tmp_path / "s")
    with store.writer() as writer:
        for number in range(10):
            writer.append("k", "r", {"n": number, "pad": "x" * 1_000_000})
    files = journals(store.path)
    assert [f.stem.rpartition("-")[2] for f in files] == ["1", "2", "3"]
    assert all(f.stat().st_size <= FILE_BYTES for f in files)
    assert [r.seq for r in store.records("r")] == list(range(10))
    assert verify(store.path).problems == ()


def test_too_long_a_record(tmp_path: Path) -> None:
    """A record over 4 MiB is refused in one sentence, and the chain goes on."""
    store = open_store(tmp_path / "s")
    with store.writer() as writer:
        with pytest.raises(StoreError, match="as a blob"):
            writer.append("k", "r", {"pad": "x" * FILE_BYTES})
        with pytest.raises(ValueError):
            writer.append("k", "r", {"x": float("nan")})
        assert writer.append("k", "r", {}).seq == 0
    assert verify(store.path).problems == ()


@pytest.mark.parametrize("cut", [1, 2, 60, 200])
def test_torn_last_line(tmp_path: Path, cut: int) -> None:
    """A last line that lost its end is no damage: readers pass over it, the next writer starts a new file, verify
    tells it as a note."""
    store = open_store(tmp_path / "s")
    with store.writer() as writer:
        kept = writer.append("k", "r", {"n": 1})
        writer.append("k", "r", {"n": 2, "pad": "x" * 200})
    (store.path / "index.sqlite").unlink()  # it would remember the second record
    [file] = journals(store.path)
    os.truncate(file, file.stat().st_size - cut)
    assert list(store.records()) == [kept]
    with store.writer() as writer:
        writer.append("k", "r", {"n": 3})
    assert len(journals(store.path)) == 2
    assert [r.body["n"] for r in open_store(store.path).records("r")] == [1, 3]
    found = verify(store.path)
    assert found.problems == () and "never finished" in found.notes[0].what


def test_reading_damage_is_an_error(tmp_path: Path) -> None:
    """A damaged record is never passed over in silence: what stands before it is read, then StoreDamaged says where.
    Other runs stay readable."""
    store = open_store(tmp_path / "s")
    one, two = fill(store, "one"), fill(store, "two")
    file = journals(store.path)[0]
    data = bytearray(file.read_bytes())
    data[data.index(b"\n") + 100] ^= 1
    file.write_bytes(data)
    reader = open_store(store.path).records(one)
    assert next(reader).kind == "run_started"
    with pytest.raises(StoreDamaged, match="at byte"):
        next(reader)
    assert len(list(open_store(store.path).records(two))) == 10


def test_missing_file_is_an_error_to_readers(tmp_path: Path) -> None:
    """A file missing in the middle of a chain does not just make the run shorter."""
    store = open_store(tmp_path / "s")
    with store.writer() as writer:
        for _ in range(10):
            writer.append("k", "r", {"pad": "x" * 1_000_000})
    journals(store.path)[1].unlink()
    with pytest.raises(StoreDamaged, match="missing"):
        list(open_store(store.path).records("r"))


def test_several_processes(tmp_path: Path) -> None:
    """Four processes write at the same time: every record is there once, every chain is whole."""
    path = tmp_path / "s"
    children = [start(HERE / "writer_child.py", path, f"r{n}", "40") for n in range(4)]
    for child in children:
        with child:
            _, err = child.communicate(timeout=120)
        assert child.returncode == 0, err.decode()
    store = open_store(path)
    for n in range(4):
        assert [r.body["number"] for r in store.records(f"r{n}")] == list(range(40))
    found = verify(path)
    assert (found.records, found.blobs, found.problems, found.notes) == (160, 160, (), ())


@pytest.mark.slow()
def test_sigkill_at_any_moment(tmp_path: Path) -> None:
    """Killed at 32 random moments: after each, the store verifies and everything that was reported is there."""
    path, rng, returned = tmp_path / "s", random.Random(1), 0
    for round_ in range(32):
        with start(HERE / "writer_child.py", path, f"r{round_}") as child:
            assert child.stdout and child.stdout.readline() == b"ready\n"
            said = [child.stdout.readline().decode().strip() for _ in range(rng.randrange(8))]
            time.sleep(rng.random() * 0.01)
            child.send_signal(signal.SIGKILL)
            said += child.stdout.read().decode().splitlines()
        found = verify(path)
        assert found.problems == (), round_
        store = open_store(path)
        got = {r.sha256 for r in store.records(f"r{round_}")}
        for line in said:
            if len(line) == 2 * 71 + 1:  # the line itself may be torn
                record, blob = line.split()
                assert record in got
                store.read_blob(blob)
                returned += 1
    assert returned >= 32, "the children were killed before they did anything: the test shows nothing"
    spool = [p for p in (path / "spool").iterdir() if p.is_dir()]
    assert spool == [] and list((path / "blobs" / "temporary").iterdir()) == []


def test_full_disk(tmp_path: Path) -> None:
    """A full disk is one sentence; the store verifies at once, and goes on after space was made."""
    with small_disk(tmp_path / "disk", "1m") as disk:
        store = open_store(disk / "s")
        run = fill(store)
        kept = list(store.records(run))
        filler = disk / "filler"
        for left in (40_000, 9000, 5000, 4096, 1000, 0):
            stat = os.statvfs(disk)
            filler.write_bytes(b"x" * max(0, stat.f_bavail * stat.f_frsize - left))
            with pytest.raises(StoreError, match=r"the disk is full; make space") as error, store.writer() as writer:
                while True:
                    store.put_bytes(os.urandom(2500))
                    kept.append(writer.append("note", run, {"pad": os.urandom(700).hex()}))
            assert str(error.value).count("\n") == 0 and str(disk) in str(error.value)
            assert verify(store.path).problems == ()
            filler.unlink()
            with store.writer() as writer:
                kept.append(writer.append("note", run, {"again": left}))
            found = verify(store.path)
            assert found.problems == () and list(store.records(run)) == kept
            assert list(open_store(store.path, create=False).records(run)) == kept


LIMITED = """
import resource, sys
from pathlib import Path
from stillruns.errors import StoreError
from stillruns.store.opening import open_store
store = open_store(Path(sys.argv[1]))
with store.writer() as writer:
    writer.append("k", "r", {"n": 1})
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
    for what in (lambda: writer.append("k", "r", {"pad": "x" * 5000}), lambda: store.put_bytes(b"y" * 5000)):
        try:
            what()
        except StoreError as error:
            print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.put_bytes(b"y" * 5000)
    writer.append("k", "r", {"n": 2})
"""


def test_file_size_limit(tmp_path: Path) -> None:
    """A write cut short by the kernel leaves no half record: it is taken back, and the writer goes on."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    said = python(LIMITED, tmp_path / "s").splitlines()
    assert len(said) == 2 and all("size limit" in line for line in said)
    store = open_store(tmp_path / "s")
    assert [r.body["n"] for r in store.records("r")] == [1, 2]
    found = verify(store.path)
    assert (found.problems, found.blobs, len(journals(store.path))) == ((), 1, 2)
    assert [n.where for n in found.notes] == ["blobs"]


INTERRUPTED = """
import signal, sys, time
from pathlib import Path
from stillruns.store.opening import open_store
signal.signal(signal.SIGALRM, signal.default_int_handler)
store = open_store(Path(sys.argv[1]))
done = 0
with store.writer() as writer:
    began = time.monotonic()
    while done < 20:
        writer.append("k", "r", {"n": done})
        done += 1
    one = (time.monotonic() - began) / done  # what a record costs here: the disk decides
    for round in range(60):
        try:
            signal.setitimer(signal.ITIMER_REAL, one * (0.5 + round * 0.05))
            while True:
                writer.append("k", "r", {"n": done})
                done += 1
        except KeyboardInterrupt:
            pass
print(done)
"""


def test_ctrl_c_between_any_two_steps(tmp_path: Path) -> None:
    """Ctrl-C inside `append`, again and again: the same writer goes on and the store verifies."""
    done = int(python(INTERRUPTED, tmp_path / "s"))
    store = open_store(tmp_path / "s")
    seen = [r.body["n"] for r in store.records("r")]
    assert sorted(set(seen)) == list(range(max(seen) + 1)) and set(range(done)) <= set(seen)
    assert verify(store.path).problems == ()
