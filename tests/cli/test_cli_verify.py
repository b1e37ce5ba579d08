"""The promise: `stillruns verify` exits 0 or 1, one line a mismatch, and its JSON keeps the schema."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import jsonschema
import pytest

from program import ROOT, stillruns
from stillruns.store.opening import open_store

SCHEMA = json.loads((ROOT / "docs" / "schemas" / "verify.json").read_text())


def run(*args: str | Path) -> subprocess.CompletedProcess[str]:
    """`stillruns verify ...`."""
    return stillruns("verify", *args)


@pytest.fixture()
def store(tmp_path: Path) -> Path:
    """One blob, one record that names it."""
    with open_store(tmp_path / "s") as opened, opened.writer() as writer:
        blob = opened.put_bytes(b"content")
        evidence = {"id": "s0", "kind": "log", "sha256": blob.sha256, "bytes": blob.bytes, "source": "x"}
        writer.append("note", "r", {"evidence": [evidence]})
    return tmp_path / "s"


def test_sound(store: Path) -> None:
    """Exit 0 and one line."""
    done = run("--store", store)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{store}: everything matches: 1 records in 1 journal files, 1 blobs.\n"


def test_mismatch(store: Path) -> None:
    """Exit 1; each mismatch on one line with its place, whatever bytes a file name holds."""
    blob = next((store / "blobs" / "sha256").glob("*/*"))
    blob.chmod(0o644)
    blob.write_bytes(b"Content")
    (store / "journal" / "a\n\x1b[31mb").write_text("x")
    done = run("--store", store)
    assert (done.returncode, done.stderr) == (1, "")
    first, second, last = done.stdout.splitlines()
    assert first == "does not match: journal/a\\n\\x1b[31mb: this is no journal file and does not belong here"
    assert second.startswith(f"does not match: blobs/sha256/{blob.name[:2]}/{blob.name}: its bytes give sha256:")
    assert "2 do not match" in last


@pytest.mark.parametrize("damage", [False, True])
def test_json(store: Path, damage: bool) -> None:
    """One document that keeps the schema, same exit codes."""
    [journal] = (store / "journal").iterdir()
    if damage:
        journal.write_bytes(journal.read_bytes().replace(b'"kind":"note"', b'"kind":"nope"'))
    done = run("--store", store, "--json")
    document = json.loads(done.stdout)
    jsonschema.validate(document, SCHEMA)
    assert (done.returncode, document["ok"]) == (int(damage), not damage)
    assert document["schema"] == "stillruns.verify/1"


def test_no_store(tmp_path: Path) -> None:
    """Exit 3 and one sentence; the folder is not made into a store."""
    done = run("--store", tmp_path / "none")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("stillruns: there is no store at ") and done.stderr.count("\n") == 1
    assert not (tmp_path / "none").exists()
