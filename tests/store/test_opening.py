"""The promise: a store is found, made or refused with one sentence; reading one changes nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from store_helpers import answers, fill, python, small_disk, snapshot, start

from stillruns.errors import StoreDamaged, StoreError, StoreNewer
from stillruns.store.migrations import VERSION, Migration, migrate, read_version
from stillruns.store.opening import default_path, open_store
from stillruns.store.verify import verify

SAMPLE = Path(__file__).parents[1] / "stores" / "v1"

OPEN = "import sys; from pathlib import Path; from stillruns.store.opening import default_path, open_store\n"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"STILLRUNS_STORE": "/a", "XDG_DATA_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"XDG_DATA_HOME": "/b", "HOME": "/c"}, "/b/stillruns"),
        ({"XDG_DATA_HOME": "relative", "HOME": "/c"}, "/c/.local/share/stillruns"),
        ({"HOME": "/c"}, "/c/.local/share/stillruns"),
    ],
)
def test_default_path(environment: dict[str, str], expected: str) -> None:
    """$STILLRUNS_STORE, then an absolute $XDG_DATA_HOME, then ~/.local/share."""
    setting = "import os; [os.environ.pop(n, 0) for n in ('STILLRUNS_STORE', 'XDG_DATA_HOME')]\n"
    code = OPEN + setting + f"os.environ.update({environment!r}); print(default_path())"
    assert python(code).strip() == expected
    assert isinstance(default_path(), Path)


def test_a_user_without_a_home() -> None:
    """A number that no user has, as in a container, and no HOME: one sentence that names what to set."""
    if os.geteuid():
        pytest.skip("only root can become a user that does not exist")
    code = OPEN + "import os\nos.environ.clear(); os.setuid(4_000_000)\ntry:\n    default_path()\n"
    code += "except Exception as error:\n    print(type(error).__name__, error)"
    said = python(code).strip()
    assert (
        said.startswith("StoreError cannot tell where the store ~/.local/share/stillruns is") and "HOME=DIR" in said
    )


def test_created_private(tmp_path: Path) -> None:
    """A new store is for its owner only, parents included in the making; an empty folder is taken as it is."""
    store = open_store(tmp_path / "a" / "b" / "s")
    assert store.path.stat().st_mode & 0o777 == 0o700
    assert read_version(store.path) == VERSION
    empty = tmp_path / "empty"
    empty.mkdir(0o755)
    (empty / "journal").mkdir()  # left by a creation that was killed
    fill(open_store(empty))
    assert verify(empty).problems == ()


def test_no_store(tmp_path: Path) -> None:
    """Without `create` nothing is created; a folder with other things is refused, and so is a file."""
    with pytest.raises(StoreError, match="there is no store at"):
        open_store(tmp_path / "s", create=False)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "holiday.jpg").write_text("x")
    with pytest.raises(StoreError, match=r"is not a store: it holds holiday\.jpg"):
        open_store(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["holiday.jpg"]
    with pytest.raises(StoreError):
        open_store(tmp_path / "holiday.jpg")


def test_a_store_that_lost_its_version(tmp_path: Path) -> None:
    """It is not taken for a new one: what wrote it is not known."""
    fill(open_store(tmp_path / "s"))
    (tmp_path / "s" / "VERSION").unlink()
    with pytest.raises(StoreError, match="no VERSION"):
        open_store(tmp_path / "s")
    assert [p.where for p in verify(tmp_path / "s").problems] == ["VERSION"]


def test_newer_and_garbled(tmp_path: Path) -> None:
    """A newer store is refused with advice; a VERSION that says nothing is named."""
    path = open_store(tmp_path / "s").path
    (path / "VERSION").write_text("stillruns store 2\n")
    for call in (lambda: open_store(path), lambda: open_store(path, create=False), lambda: verify(path)):
        with pytest.raises(StoreNewer, match="upgrade stillruns"):
            call()
    (path / "VERSION").write_text("stillruns store one\n")
    with pytest.raises(StoreDamaged, match="write the line"):
        open_store(path)
    assert [p.where for p in verify(path).problems] == ["VERSION"]


def test_migrations(tmp_path: Path) -> None:
    """Steps run in order, each recorded before the next; a gap is refused; a failing one is a StoreError."""
    path = open_store(tmp_path / "s").path
    seen: list[tuple[int, int | None]] = []

    def step(number: int) -> Migration:
        return Migration(number, "rewrite the notes of", lambda p: seen.append((number, read_version(p))))

    assert migrate(path, 1, (step(2), step(3))) == 3
    assert seen == [(2, 1), (3, 2)] and read_version(path) == 3
    with pytest.raises(StoreError, match="no migration leads"):
        migrate(path, 3, (step(5),))
    with pytest.raises(StoreError, match="rewrite the notes of"):
        migrate(path, 3, (Migration(4, "rewrite the notes of", lambda p: (p / "x" / "y").mkdir()),))
    assert read_version(path) == 3


def test_two_creators(tmp_path: Path) -> None:
    """Processes that create the same store at the same time all get it."""
    code = OPEN + "print(open_store(Path(sys.argv[1])).put_bytes(b'x').bytes)"
    for child in [start("-c", code, tmp_path / "s") for _ in range(4)]:
        with child:
            out, err = child.communicate(timeout=240)
        assert out == b"1\n", err.decode()
    assert verify(tmp_path / "s").problems == ()


@pytest.mark.parametrize("indexed", [True, False])
def test_read_only_file_system(tmp_path: Path, indexed: bool) -> None:
    """A store on a read-only file system is read like any other, index or not; a write is one sentence."""
    with small_disk(tmp_path / "disk", "4m") as disk:
        store = open_store(disk / "s")
        run = fill(store)
        expected = answers(store)
        blob = store.put_bytes(b"x")
        store.close()
        if not indexed:
            (store.path / "index.sqlite").unlink()
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        for create in (False, True):
            store = open_store(disk / "s", create=create)
            assert answers(store) == expected
            assert store.read_blob(blob.sha256) == b"x"
        assert verify(store.path).problems == ()
        writes = (
            lambda: store.writer().append("k", run, {}),
            lambda: store.put_bytes(b"y"),
            lambda: store.spool("t"),
            lambda: store.hold("new").__enter__(),
        )
        for write in writes:
            with pytest.raises(StoreError, match="the file system is read-only; choose"):
                write()


FOREIGN = """
import os, sys
from pathlib import Path
from stillruns.errors import StoreError
from stillruns.store.opening import open_store
from stillruns.store.verify import verify
os.setgid(65534); os.setuid(65534)
path = Path(sys.argv[1])
for create in (False, True):
    store = open_store(path, create=create)
    print(len(list(store.records())), len(store.runs()), verify(path).problems)
for write in (lambda: store.put_bytes(b"y"), lambda: store.writer().append("k", "r", {})):
    try:
        write()
    except StoreError as error:
        print("permission denied" in str(error), str(error).count(chr(10)))
"""


def open_to_all() -> Path:
    """A new folder that every user can reach: pytest's own are closed to others, and so may be the one for all
    temporary files."""
    for parent in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"):
        place = Path(parent).absolute()
        if place.is_dir() and all(step.stat().st_mode & 0o001 for step in (place, *place.parents)):
            return Path(tempfile.mkdtemp(dir=place))
    pytest.skip("no folder for temporary files here that another user can reach")


def test_of_another_user() -> None:
    """Another user's store (readable) is read; writing to it is refused in one sentence; nothing in it changes."""
    if os.getuid() != 0:
        pytest.skip("needs root to become another user")
    folder = open_to_all()
    try:
        folder.chmod(0o755)
        store = open_store(folder / "s")
        fill(store)
        store.close()
        for place in (store.path, *store.path.rglob("*")):  # whatever the umask of who runs this test
            place.chmod(0o755 if place.is_dir() else 0o644)
        before = snapshot(store.path)
        assert python(FOREIGN, store.path).splitlines() == ["10 1 ()"] * 2 + ["True 0"] * 2
        assert snapshot(store.path) == before
    finally:
        shutil.rmtree(folder)


def test_sample_of_version_1(tmp_path: Path) -> None:
    """The committed store of layout 1 opens with this version, reads as it always did, verifies, and goes on."""
    before = snapshot(SAMPLE)
    found = verify(SAMPLE)
    assert (found.records, found.blobs, found.problems) == (17, 11, ())
    assert ["never finished" in n.what for n in found.notes] == [True, False]
    path = tmp_path / "v1"
    shutil.copytree(SAMPLE, path)
    store = open_store(path)
    first, second = sorted(store.runs(), key=lambda run: run.name)
    assert (first.name, first.trials, first.ended is None) == ("sample", 3, False)
    assert (second.name, second.trials, second.ended) == ("unfinished", 2, None)
    fill(store, "more")
    assert verify(path).problems == ()
    assert snapshot(SAMPLE) == before
