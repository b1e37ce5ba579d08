"""A binary is known by the digests of itself and its libraries; a cached digest is used only for the same file."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from stillruns.act.runtimes.digests import digest_file, identity


def sha(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_cache(tmp_path: Path) -> None:
    """The cache answers for an unchanged file only; a damaged entry is ignored."""
    path, cache = tmp_path / "x", tmp_path / "cache"
    path.write_bytes(b"one")
    os.utime(path, ns=(1, 1))
    assert digest_file(path, cache) == digest_file(path, cache) == digest_file(path) == sha(b"one")
    (entry,) = cache.iterdir()
    path.write_bytes(b"two")
    assert digest_file(path, cache) == sha(b"two")
    os.utime(path, ns=(1, 1))
    assert digest_file(path, cache) in (sha(b"one"), sha(b"two"))  # same size and time: only the inode could tell
    entry.write_bytes(b'{"key": 1')
    path.write_bytes(b"three")
    assert digest_file(path, cache) == sha(b"three")


def test_identity(tmp_path: Path) -> None:
    """The libraries beside the binary count, links followed; others are left out."""
    true = shutil.which("true")
    assert true is not None
    shutil.copy(true, tmp_path / "server")
    (tmp_path / "libggml.so.0").write_bytes(b"ggml")
    (tmp_path / "libggml.so").symlink_to("libggml.so.0")
    (tmp_path / "readme.txt").write_bytes(b"x")
    digest, libraries = identity(tmp_path / "server", {}, tmp_path / "cache")
    assert digest == sha(Path(true).read_bytes())
    assert libraries == {"libggml.so.0": sha(b"ggml")}
