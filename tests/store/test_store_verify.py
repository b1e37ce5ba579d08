"""The promise: whatever byte changes, whatever goes missing, verify says so and says where."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_helpers import fill, snapshot

from stillruns.errors import StoreError
from stillruns.store.ids import sha256_of
from stillruns.store.opening import open_store
from stillruns.store.record import encode
from stillruns.store.verify import Verification, verify

TORN = b'{"seq":10,"prev_sha256":"sha256:'


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs by two writers, the older one's journal with a torn tail, no index."""
    store = open_store(tmp_path_factory.mktemp("verify") / "s")
    fill(store, "one", 2)
    [file] = (store.path / "journal").iterdir()
    with file.open("ab") as stream:
        stream.write(TORN)
    fill(store, "two", 2)
    store.close()
    (store.path / "index.sqlite").unlink()
    return store.path


@pytest.fixture()
def store(sound: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(sound, tmp_path / "s"))


def journals(path: Path) -> list[Path]:
    """The journal files, older first."""
    return sorted((path / "journal").iterdir())


def lines(path: Path) -> list[bytes]:
    """A journal's lines with their ends."""
    return path.read_bytes().splitlines(keepends=True)


def test_sound(sound: Path) -> None:
    """Nothing wrong: everything counted, the torn tail and nothing else noted, no byte of the store changed."""
    before = snapshot(sound)
    found = verify(sound)
    assert (found.records, found.blobs, found.journals, found.problems) == (16, 8, 2, ())
    assert len(found.notes) == 1 and f"{len(TORN)} bytes" in found.notes[0].what
    assert found.notes[0].where.startswith("journal/w000001-")
    assert snapshot(sound) == before


def flipped(path: Path, file: str, place: int, mask: int) -> tuple[Verification, bytes]:
    """verify with one byte changed, which is changed back."""
    target = path / file
    target.chmod(0o644)
    good = target.read_bytes()
    changed = bytearray(good)
    changed[place] ^= mask
    target.write_bytes(changed)
    try:
        return verify(path), bytes(changed)
    finally:
        target.write_bytes(good)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_byte(sound: Path, data: st.DataObject) -> None:
    """One changed byte anywhere in a journal or a blob is a named problem in that file; where a lost line end joins
    the last record to a torn tail, in its writer's chain. The one exception: inside a torn tail there is no record to
    damage, and the note about it stays (or becomes a problem)."""
    files = [name for name in sorted(snapshot(sound)) if name.startswith(("journal/", "blobs/sha256/"))]
    file = data.draw(st.sampled_from(files))
    size = (sound / file).stat().st_size
    place = data.draw(st.integers(0, size - 1) | st.integers(max(0, size - 90), size - 1))
    found, changed = flipped(sound, file, place, data.draw(st.integers(1, 255)))
    if file.startswith("journal/w000001-") and place >= size - len(TORN) and changed[place] != 0x0A:
        assert found.problems == () and "never finished" in found.notes[0].what
        return
    named = [p.where for p in found.problems]
    assert any(where.startswith(file) or file.startswith(where) for where in named), found


@pytest.mark.parametrize("which", [0, 1])
def test_every_newline(sound: Path, which: int) -> None:
    """The ends of lines count too, the last one's included."""
    file = journals(sound)[which]
    data = file.read_bytes()
    for place in [i for i, byte in enumerate(data) if byte == 0x0A]:
        found, _ = flipped(sound, f"journal/{file.name}", place, 0x01)
        assert found.problems, place


@pytest.mark.parametrize("place", range(len("stillruns store 1\n")))
def test_version(sound: Path, place: int, tmp_path: Path) -> None:
    """A changed byte in VERSION shows, as a problem or as a store of a newer program."""
    path = Path(shutil.copytree(sound, tmp_path / "s"))
    data = bytearray((path / "VERSION").read_bytes())
    data[place] ^= 3
    (path / "VERSION").write_bytes(data)
    try:
        assert [p.where for p in verify(path).problems] == ["VERSION"]
    except StoreError as error:
        assert "layout 2" in str(error)


def drop(number: int) -> Callable[[Path], None]:
    """Take one line out of the newer journal."""

    def change(path: Path) -> None:
        file = journals(path)[1]
        every = lines(file)
        del every[number]
        file.write_bytes(b"".join(every))

    return change


def swap(path: Path) -> None:
    """Two records change places."""
    file = journals(path)[1]
    every = lines(file)
    every[2], every[3] = every[3], every[2]
    file.write_bytes(b"".join(every))


def double(path: Path) -> None:
    """A record stands twice."""
    file = journals(path)[1]
    every = lines(file)
    file.write_bytes(b"".join([*every[:3], every[2], *every[3:]]))


def cut_older(path: Path) -> None:
    """The older journal loses its last record whole."""
    file = journals(path)[0]
    file.write_bytes(b"".join(lines(file)[:-2]))


def remove_older(path: Path) -> None:
    """The older journal is gone."""
    journals(path)[0].unlink()


def rename(path: Path) -> None:
    """A journal under another writer's name."""
    file = journals(path)[1]
    file.rename(file.with_name("w000002-00000000-1.jsonl"))


def stranger(path: Path) -> None:
    """A file in the journal folder that is none."""
    (path / "journal" / "notes.txt").write_text("x")


def lose_blob(path: Path) -> None:
    """A blob that a record names is gone."""
    next((path / "blobs" / "sha256").glob("*/*")).unlink()


def misplace_blob(path: Path) -> None:
    """A blob in the wrong folder."""
    blob = next((path / "blobs" / "sha256").glob("*/*"))
    (path / "blobs" / "sha256" / "zz").mkdir()
    blob.rename(path / "blobs" / "sha256" / "zz" / blob.name)


def empty_blob(path: Path) -> None:
    """A blob without content, as some file systems leave it after a power loss."""
    blob = next((path / "blobs" / "sha256").glob("*/*"))
    blob.chmod(0o644)
    blob.write_bytes(b"")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (drop(0), "missing: record 1 stands where it should be"),
        (drop(3), "record 3 of w000002"),
        (swap, "missing: record 3 stands where it should be"),
        (double, "is out of order"),
        (cut_older, "record 7 is missing or damaged, which journal/w000002"),
        (remove_older, "record 7 is missing or damaged"),
        (rename, "belongs to the journal of w000002"),
        (stranger, "does not belong here"),
        (lose_blob, "which is missing"),
        (misplace_blob, "does not belong here"),
        (empty_blob, "its bytes give sha256:e3b0c442"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_changes(store: Path, change: Callable[[Path], None], says: str) -> None:
    """Each way to take something away, move it or put something else there has its own sentence."""
    change(store)
    whats = [problem.what for problem in verify(store).problems]
    assert any(says in what for what in whats), whats


def test_tail_of_the_newest_journal(store: Path) -> None:
    """The index remembers how a journal ended when it was closed, so even the newest one's tail is missed."""
    opened = open_store(store)
    fill(opened, "three", 1)
    file = journals(store)[2]
    file.write_bytes(b"".join(lines(file)[:-1]))
    assert any("which index.sqlite names" in p.what for p in verify(store).problems)
    open_store(store).runs()
    assert any("which index.sqlite names" in p.what for p in verify(store).problems), "a reader healed the witness"


def test_files_of_a_long_chain(tmp_path: Path) -> None:
    """A missing first, middle or cut file of a chain over several files is named."""
    opened = open_store(tmp_path / "s")
    with opened.writer() as writer:
        for _ in range(10):
            writer.append("k", "r", {"pad": "x" * 1_000_000})
    (opened.path / "index.sqlite").unlink()
    files = journals(opened.path)
    for file, says in ((files[0], "a later file"), (files[1], "the next one is here")):
        good = file.read_bytes()
        file.unlink()
        assert [says in p.what for p in verify(opened.path).problems] == [True]
        file.write_bytes(good[:-10])
        assert any("the chain goes on" in p.what for p in verify(opened.path).problems)
        file.write_bytes(b"".join(good.splitlines(keepends=True)[:-1]))
        assert any("missing" in p.what for p in verify(opened.path).problems)
        file.write_bytes(good)
    assert verify(opened.path).problems == ()


def test_spec_and_run_id(tmp_path: Path) -> None:
    """A spec that does not give the digest beside it, or not the one in the run's id, is named."""
    opened = open_store(tmp_path / "s")
    with opened.writer() as writer:
        writer.append("run_started", "r", {"spec": {"a": 1}, "spec_sha256": sha256_of(b"other")})
        right = sha256_of(b'{"a":1}')
        writer.append("run_started", "20261130T091500Z-00000000", {"spec": {"a": 1.0}, "spec_sha256": right})
        writer.append("run_started", f"20261130T091500Z-{right[7:15]}", {"spec": {"a": 1}, "spec_sha256": right})
    whats = [p.what for p in verify(opened.path).problems]
    assert len(whats) == 2
    assert "canonical form" in whats[0] and "run id" in whats[1]


def test_length_of_a_blob(tmp_path: Path) -> None:
    """Evidence that gives its blob another length is named; so is a blob that was never there."""
    opened = open_store(tmp_path / "s")
    blob = opened.put_bytes(b"four")
    with opened.writer() as writer:
        for sha256, length in ((blob.sha256, 5), (sha256_of(b"none"), 1), (blob.sha256, 4)):
            named = {"id": "s0", "kind": "log", "sha256": sha256, "bytes": length, "source": "x"}
            writer.append("k", "r", {"deep": [{"evidence": [named]}]})
    whats = [p.what for p in verify(opened.path).problems]
    assert len(whats) == 2 and "has 5 bytes, but it has 4" in whats[0] and "which is missing" in whats[1]


def test_a_forged_line(tmp_path: Path) -> None:
    """A line with a right digest of its own that does not continue the chain is named."""
    opened = open_store(tmp_path / "s")
    with opened.writer() as writer:
        record = writer.append("k", "r", {})
    [file] = journals(opened.path)
    with file.open("ab") as stream:
        stream.write(encode(1, sha256_of(b"else"), record.writer, "k", "r", {"forged": True}, {}))
    assert any("says that it follows" in p.what for p in verify(opened.path).problems)


def test_zeros_behind_the_last_record(store: Path) -> None:
    """Zeros at the end, as a power loss leaves them, are a torn tail."""
    file = journals(store)[1]
    os.truncate(file, file.stat().st_size + 4096)
    found = verify(store)
    assert found.problems == () and len(found.notes) == 2


def test_no_store(tmp_path: Path) -> None:
    """There is nothing to verify where there is no store."""
    with pytest.raises(StoreError, match="there is no store"):
        verify(tmp_path)
