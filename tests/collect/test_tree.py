"""The promise: a tree's files cannot lead a reader out of it, round in circles, or into waiting."""

from __future__ import annotations

import os
from pathlib import Path

from stillruns.collect.tree import FileTree, Ranges, TreeEntry, glob
from stillruns.model.absence import Absence, AbsenceReason


def absent(found: object) -> Absence:
    """The absence that a hostile thing must give."""
    assert isinstance(found, Absence), found
    assert found.detail and "\n" not in found.detail
    return found


def test_links_stay_inside(tmp_path: Path) -> None:
    """Absolute links and `..` count from the tree's root, however deep they climb."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("inside\n")
    (tmp_path / "abs").symlink_to("/etc/passwd")
    (tmp_path / "up").symlink_to("../../../../../../etc/passwd")
    (tmp_path / "folder").symlink_to("/etc")
    tree = FileTree(tmp_path)
    for path in ("/abs", "/up", "/folder/passwd", "/folder/../etc/passwd", "/../../etc/passwd"):
        assert tree.read(path, 100) == b"inside\n"
    entry = tree.entry("/up")
    assert isinstance(entry, TreeEntry) and entry.real == "/etc/passwd"


def test_loops(tmp_path: Path) -> None:
    """A loop is one sentence, for a file, a folder and a pattern."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("/a")
    (tmp_path / "self").symlink_to("self/self")
    tree = FileTree(tmp_path)
    for path in ("/a", "/self", "/a/b/c"):
        assert absent(tree.read(path, 10)).reason is AbsenceReason.UNPARSABLE
    assert "loop" in absent(tree.entry("/a")).detail
    assert list(glob(tree, "/a/*/*")) == []


def test_fifo_and_folder(tmp_path: Path) -> None:
    """A FIFO without a writer is not waited for; a folder is not read."""
    os.mkfifo(tmp_path / "pipe")
    tree = FileTree(tmp_path)
    assert "fifo" in absent(tree.read("/pipe", 10)).detail
    with tree.ranges("/pipe") as source:
        absent(source)
    assert "folder" in absent(tree.read("/", 10)).detail
    absent(tree.names("/pipe"))


def test_missing_and_closed(tmp_path: Path) -> None:
    """What is not there is NOT_INSTALLED, a limit is kept, a path through a file is no error of ours."""
    (tmp_path / "file").write_text("0123456789")
    tree = FileTree(tmp_path)
    assert absent(tree.read("/none", 10)).reason is AbsenceReason.NOT_INSTALLED
    absent(tree.read("/file/deeper", 10))
    assert tree.read("/file", 4) == b"0123"


def test_ranges_are_evidence(tmp_path: Path) -> None:
    """What was read of a large file is remembered with its digest; reading past the end gives less."""
    (tmp_path / "lib.so").write_bytes(bytes(range(256)) * 16)
    with FileTree(tmp_path).ranges("/lib.so") as source:
        assert isinstance(source, Ranges)
        assert source.read_at(0, 4) == b"\0\1\2\3" and len(source.read_at(4090, 100)) == 6
        assert source.read_at(9999, 4) == b"" and source.read_at(-1, 4) == b""
        ref = source.ref("abcd")
    assert [(r.offset, r.length) for r in ref.ranges] == [(0, 4), (4090, 6)]
    assert ref.bytes == 4096 and ref.build_id == "abcd" and all(r.sha256.startswith("sha256:") for r in ref.ranges)


def test_glob(tmp_path: Path) -> None:
    """`*` matches within a component, in order, through links."""
    for name in ("b1", "a1", "a2"):
        (tmp_path / "x" / name).mkdir(parents=True)
        (tmp_path / "x" / name / "f").write_text(name)
    (tmp_path / "y").symlink_to("x")
    assert list(glob(FileTree(tmp_path), "/y/a*/f")) == ["/y/a1/f", "/y/a2/f"]
