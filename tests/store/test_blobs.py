"""The promise: bytes come back as they were put, are written once, and wrong ones are never handed out."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from store_helpers import small_disk

from stillruns.errors import StoreDamaged, StoreError
from stillruns.store.opening import open_store
from stillruns.store.verify import verify


def test_put_and_read(tmp_path: Path) -> None:
    """Bytes and files, empty ones too; the name is the digest; nothing temporary is left."""
    store = open_store(tmp_path / "s")
    source = store.spool("t1") / "stderr"
    source.write_bytes(b"log\n")
    blobs = [store.put_bytes(b""), store.put_bytes(b"\0\xff"), store.put_file(source)]
    assert [store.read_blob(b.sha256) for b in blobs] == [b"", b"\0\xff", b"log\n"]
    assert [b.bytes for b in blobs] == [0, 2, 4]
    assert not source.exists()
    path = store.blob_path(blobs[2].sha256)
    assert path == store.path / "blobs" / "sha256" / path.name[:2] / blobs[2].sha256.removeprefix("sha256:")
    assert path.stat().st_mode & 0o222 == 0
    assert list((store.path / "blobs" / "temporary").iterdir()) == []


def test_written_once(tmp_path: Path) -> None:
    """Equal content is one file, not written again, also when it comes as a file or twice before a record."""
    store = open_store(tmp_path / "s")
    blob = store.put_bytes(b"same")
    assert store.put_bytes(b"same") == blob
    before = store.blob_path(blob.sha256).stat()
    source = tmp_path / "file"
    source.write_bytes(b"same")
    assert store.put_file(source) == blob and not source.exists()
    store.settle()
    after = store.blob_path(blob.sha256).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert verify(store.path).blobs == 1


def test_a_file_with_two_names_is_copied(tmp_path: Path) -> None:
    """A hard link or a symbolic link elsewhere must not be able to change a blob."""
    store = open_store(tmp_path / "s")
    kept, second, link = tmp_path / "kept", tmp_path / "second", tmp_path / "link"
    kept.write_bytes(b"content")
    second.hardlink_to(kept)
    link.symlink_to(kept)
    blob = store.put_file(second)
    assert store.put_file(link) == blob
    assert kept.exists() and not second.exists() and not link.is_symlink()
    kept.write_bytes(b"changed")
    assert store.read_blob(blob.sha256) == b"content"


def test_another_file_system(tmp_path: Path) -> None:
    """A capture file from another file system is copied in and taken away there."""
    with small_disk(tmp_path / "disk", "1m") as disk:
        source = disk / "stdout"
        source.write_bytes(b"x" * 5000)
        store = open_store(tmp_path / "s")
        blob = store.put_file(source)
        assert store.read_blob(blob.sha256) == b"x" * 5000 and not source.exists()


def test_a_failed_take_over_keeps_the_file(tmp_path: Path) -> None:
    """When the store's disk is full the capture file stays where it was."""
    source = tmp_path / "stdout"
    source.write_bytes(b"x" * 200_000)
    with small_disk(tmp_path / "disk", "100k") as disk:
        store = open_store(disk / "s")
        with pytest.raises(StoreError, match=os.strerror(errno.ENOSPC).split()[0] + "|the disk is full"):
            store.put_file(source)
        assert source.stat().st_size == 200_000
        assert list((store.path / "blobs" / "temporary").iterdir()) == []


def test_wrong_content_is_not_handed_out(tmp_path: Path) -> None:
    """StoreDamaged for changed bytes, StoreError for a missing blob or a name that is none; a shortened blob heals
    when its content is put again."""
    store = open_store(tmp_path / "s")
    blob = store.put_bytes(b"content")
    path = store.blob_path(blob.sha256)
    path.chmod(0o644)
    path.write_bytes(b"conten")
    with pytest.raises(StoreDamaged, match="does not match its name"):
        store.read_blob(blob.sha256)
    store.put_bytes(b"content")
    assert store.read_blob(blob.sha256) == b"content"
    store.blob_path(blob.sha256).unlink()
    with pytest.raises(StoreError, match="it is not there"):
        store.read_blob(blob.sha256)
    with pytest.raises(StoreError, match="no digest"):
        store.read_blob("sha256:../../../etc/passwd")
