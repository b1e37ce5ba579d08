"""The promise of collect/source_tree: files of any revision, the work tree untouched, else a clear sentence."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import real_parts
from stillruns.collect.source_tree import has, read
from stillruns.errors import UsageError

SUFFIXES = (".go", ".c")


def git(folder: Path, *args: str) -> str:
    """Git without the user's own settings."""
    env = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_AUTHOR_NAME": "t",
        "GIT_AUTHOR_EMAIL": "t@example.org",
        "GIT_COMMITTER_NAME": "t",
        "GIT_COMMITTER_EMAIL": "t@example.org",
    }
    return subprocess.run(
        [real_parts.git(), *args], cwd=folder, env=env, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Two commits: the second changes a.go, adds b.c, and a submodule entry that is not there."""
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.go").write_text("package a // one\n")
    (folder / "notes.txt").write_text("no source\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    git(folder, "tag", "v1")
    (folder / "a.go").write_text("package a // two\n")
    (folder / "name with spaces ü.c").write_text("int b;\n")
    git(folder, "add", ".")
    git(folder, "update-index", "--add", "--cacheinfo", "160000," + "1" * 40 + ",sub.c")
    git(folder, "commit", "-qm", "two")
    git(folder, "tag", "v2")
    (folder / "a.go").write_text("package a // unsaved\n")
    return folder


def test_revision_without_touching_the_work_tree(repo: Path) -> None:
    """v1 and v2 are read while the changed file stays as it is."""
    before = git(repo, "status", "--porcelain")
    one, two = read("x", repo, "v1", SUFFIXES), read("x", repo, "v2", SUFFIXES)
    assert [f.data for f in one.load()] == [b"package a // one\n"]
    assert {f.path: f.data for f in two.load()} == {
        "a.go": b"package a // two\n",
        "name with spaces ü.c": b"int b;\n",
    }
    assert one.ref.tree != two.ref.tree
    assert (two.ref.asked, len(two.ref.rev)) == ("v2", 40)
    assert two.missing == ["sub.c (a submodule)"]
    assert git(repo, "status", "--porcelain") == before


def test_work_tree_as_it_lies(repo: Path) -> None:
    """Without a revision, what is on disk counts, unsaved or not; links are not followed."""
    (repo / "link.c").symlink_to("/etc/passwd")
    tree = read("x", repo, "", SUFFIXES)
    assert [f.data for f in tree.load() if f.path == "a.go"] == [b"package a // unsaved\n"]
    assert all(f.path != "link.c" for f in tree.load())
    assert tree.ref.rev.startswith("work tree of ")


def test_folder_without_git(tmp_path: Path) -> None:
    """A tree that is no checkout is read by its files."""
    (tmp_path / "a.c").write_text("int a;\n")
    tree = read("x", tmp_path, "", SUFFIXES)
    assert tree.ref.rev == "files" or tree.ref.rev.startswith("work tree of ")
    assert tree.ref.files == 1


@pytest.mark.parametrize("rev", ["v9", "--output=x", "-x", "v1; touch y", "$(touch y)", "v1:a.go"])
def test_no_such_revision(repo: Path, rev: str) -> None:
    """A revision that is none, or that looks like an option, is refused in one sentence."""
    assert not has(repo, rev)
    with pytest.raises(UsageError):
        read("x", repo, rev, SUFFIXES)


def test_no_such_folder(tmp_path: Path) -> None:
    """A missing folder is named."""
    with pytest.raises(UsageError, match="no folder"):
        read("x", tmp_path / "none", "", SUFFIXES)


def test_missing_object_is_named(repo: Path) -> None:
    """A blob that a partial clone lacks is left out by name; the rest is read."""
    blob = git(repo, "rev-parse", "v2:a.go").strip()
    (repo / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    tree = read("x", repo, "v2", SUFFIXES)
    assert [f.path for f in tree.load()] == ["name with spaces ü.c"]
    assert any(m.startswith("a.go") for m in tree.missing)


def test_hostile_repository_runs_nothing(repo: Path, tmp_path: Path) -> None:
    """A repository whose configuration names programs (a monitor, a fetch of missing objects) starts none of them."""
    mark = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch '{mark}'\n")
    program.chmod(0o755)
    git(repo, "config", "core.fsmonitor", str(program))
    git(repo, "config", "core.repositoryformatversion", "1")
    git(repo, "config", "extensions.partialClone", "origin")
    git(repo, "config", "remote.origin.url", str(tmp_path / "nowhere"))
    git(repo, "config", "remote.origin.promisor", "true")
    git(repo, "config", "remote.origin.uploadpack", str(program))
    git(repo, "config", "protocol.file.allow", "always")
    blob = git(repo, "rev-parse", "v2:a.go").strip()
    (repo / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    mark.unlink(missing_ok=True)  # git's own commands above may have asked the monitor
    read("x", repo, "v2", SUFFIXES).load()
    read("x", repo, "", SUFFIXES).load()
    assert not mark.exists()


def test_environment_does_not_redirect_git(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIT_DIR of a hook or shell is not meant for the tree that was named."""
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other"))
    assert has(repo, "v1")


def test_bare_repository_is_its_head(repo: Path, tmp_path: Path) -> None:
    """A clone without a work tree holds no files of its own: without a revision its HEAD is read, and said."""
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--bare", str(repo), str(bare))
    tree = read("x", bare, "", SUFFIXES)
    assert (tree.ref.asked, tree.ref.files) == ("HEAD", 2)
    assert any(b"two" in file.data for file in tree.load())


def test_links_and_names_that_are_no_text(tmp_path: Path) -> None:
    """A loop of links, a link out of the tree and a name in no encoding neither hang nor stop the reading."""
    folder = tmp_path / "tree"
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "loop").symlink_to(folder)
    (folder / "out.c").symlink_to("/etc/hostname")
    (folder / "self.c").symlink_to("self.c")
    Path(os.fsdecode(os.fsencode(folder) + b"/n\xff.c")).write_bytes(b"int a;\n")
    tree = read("x", folder, "", SUFFIXES)
    assert [file.path for file in tree.load()] == ["n\N{REPLACEMENT CHARACTER}.c"]
