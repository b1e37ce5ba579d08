"""The promise: whatever a person hands over as a log is opened, streamed, hashed, and never half-read in silence."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import sys
from pathlib import Path

import pytest

from stillruns.collect import logs
from stillruns.errors import UsageError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PLAIN = b"".join(b"line %d of the log\n" % n for n in range(60_000))
PACK = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress, "zst": zstd.compress}


def whole(entry: logs.LogInput) -> bytes:
    """Everything that an input yields."""
    return b"".join(entry.blocks())


@pytest.mark.parametrize("form", sorted(PACK))
def test_compressed_input(tmp_path: Path, form: str) -> None:
    """gz, xz, bz2 and zst give the plain bytes and their digest, also when two streams follow each other."""
    path = tmp_path / f"log.{form}"
    path.write_bytes(PACK[form](PLAIN) + PACK[form](b"more\n"))
    (entry,) = logs.inputs((str(path),), io.BytesIO())
    assert whole(entry) == PLAIN + b"more\n"
    assert entry.sha256 == "sha256:" + hashlib.sha256(PLAIN + b"more\n").hexdigest()
    assert (entry.size, entry.note) == (len(PLAIN) + 5, "")


@pytest.mark.parametrize("form", sorted(PACK))
def test_cut_compressed_input(tmp_path: Path, form: str) -> None:
    """A compressed file that ends early gives what it holds, and a note."""
    path = tmp_path / f"log.{form}"
    packed = PACK[form](PLAIN)
    path.write_bytes(packed[: len(packed) * 2 // 3])
    (entry,) = logs.inputs((str(path),), io.BytesIO())
    assert PLAIN.startswith(whole(entry))
    assert entry.note


def test_folder_and_stdin(tmp_path: Path) -> None:
    """A folder gives its logs, sorted, without models and pictures; `-` is standard input."""
    (tmp_path / "b.log").write_bytes(b"two\n")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.txt").write_bytes(b"one\n")
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + b"\0" * 100)
    found = logs.inputs((str(tmp_path), "-"), io.BytesIO(b"three\n"))
    assert [whole(entry) for entry in found] == [b"one\n", b"two\n", b"three\n"]


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    """A missing path and a folder without a log are one sentence each."""
    for name in ("missing", ""):
        with pytest.raises(UsageError, match="name"):
            logs.inputs((str(tmp_path / name),), io.BytesIO())
