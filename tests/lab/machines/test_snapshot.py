"""The promise: a snapshot judges as its machine does, tells nothing private, and a hostile one ends in one
sentence."""

from __future__ import annotations

import io
import json
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

import sysroots
from stillruns.errors import UsageError
from stillruns.formats import ld_cache
from stillruns.formats.zstd import ZstdCompressor
from stillruns.lab import checking, packing
from stillruns.lab.machines import snapshot
from stillruns.lab.machines.machine import CheckRequest
from stillruns.report import gates_json


@pytest.fixture()
def machine(tmp_path: Path) -> Path:
    """A machine with a card, a server with a secret, and people."""
    root = tmp_path / "root"
    sysroots.mi50(root)
    sysroots.host(root)
    sysroots.vulkan(root)
    sysroots.nodes(root, "dev/kfd", "dev/dri/renderD128", mode=0o660)
    sysroots.write(
        root, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\nmarlene:x:1000:1000:Marlene D.:/home/marlene:/bin/sh"
    )
    sysroots.write(root, "etc/group", "root:x:0:\nrender:x:109:marlene\nmarlene:x:1000:")
    sysroots.write(root, "proc/77/comm", "llama-server")
    sysroots.write(root, "proc/77/environ", "HIP_VISIBLE_DEVICES=0\0API_TOKEN=hunter2hunter2\0HOME=/home/marlene\0")
    sysroots.write(root, "proc/77/status", "Name:\tllama-server\nUid:\t1000\t1000\t1000\t1000")
    sysroots.write(root, "var/log/kern.log", "[1.0] amdgpu 0000:04:00.0: amdgpu: GPU reset begin!")
    return root


def pack(root: Path, out: Path) -> Path:
    """A snapshot of a folder."""
    made = packing.make(out, root, CheckRequest(), run_tools=False)
    assert made.faults == () and made.bytes == out.stat().st_size and made.redacted
    return out


def matrix(root: Path) -> dict[str, object]:
    """The matrix as JSON, without the machine's name."""
    found = checking.start(root, "", CheckRequest(), run_tools=False, store=None)
    assert found.faults == []
    document = gates_json.document(found.matrix)
    document["machine"] = ""
    return document


def test_same_verdicts(machine: Path, tmp_path: Path) -> None:
    """Every verdict and reason is that of the machine; only excerpts and digests of redacted texts may differ."""
    packed = pack(machine, tmp_path / "snap.tar.zst")
    here, there = matrix(machine), matrix(packed)
    text = json.dumps(there)
    for old, new in zip(here["gates"], there["gates"], strict=True):  # type: ignore[call-overload]
        for key in ("layer", "path", "target", "device", "status", "absent"):
            assert old[key] == new[key]
        assert (
            old["reason"].replace("marlene", "") == new["reason"]
            or "user-" in new["reason"]
            or old["reason"] == new["reason"]
        )
    assert here["paths"] == there["paths"] and "marlene" not in text


def test_nothing_private_in_the_loaders_cache(machine: Path, tmp_path: Path) -> None:
    """A path of a person's in ld.so.cache is written over, and the cache still reads."""
    path = "/home/marlene/rocm/libamdhip64.so.6"
    strings = b"libamdhip64.so.6\0" + path.encode() + b"\0"
    head = b"glibc-ld.so.cache1.1" + struct.pack("<IIB3x4I", 1, len(strings), 2, 0, 0, 0, 0)
    row = struct.pack("<iIIIQ", 0x0303, 72, 72 + 17, 0, 0)
    sysroots.write(machine, "etc/ld.so.cache", head + row + strings)
    out = tmp_path / "m.tar.zst"
    packing.make(out, machine, CheckRequest(), run_tools=False)
    data = snapshot.load(out).read("/etc/ld.so.cache", 1 << 20)
    assert isinstance(data, bytes) and b"marlene" not in data
    assert ld_cache.read(data) == {"libamdhip64.so.6": path.replace("marlene", "xxxxxxx")}


def test_nothing_private(machine: Path, tmp_path: Path) -> None:
    """No account, no variable that the stack does not read, no secret, anywhere in the plain archive."""
    plain = snapshot._decompress(pack(machine, tmp_path / "snap.tar.zst"))
    for word in (b"marlene", b"Marlene", b"hunter2", b"API_TOKEN"):
        assert word not in plain
    assert b"HIP_VISIBLE_DEVICES=0" in plain


def test_runtime_in_a_home(machine: Path, tmp_path: Path) -> None:
    """A server that runs from somebody's home, and a runtime that was named, are judged there as here; the archive
    does not name the person, in no path, listing or sentence."""
    home = "/home/marlene/llama.cpp/build/bin"
    sysroots.write(machine, f"{home}/llama-server", b"\x7fELF")
    sysroots.write(machine, f"{home}/libggml-vulkan.so", b"\x7fELF")
    sysroots.write(machine, "/home/marlene/other/libggml-hip.so", b"\x7fELF" + b"\xff" * 100)
    sysroots.link(machine, "proc/77/exe", f"{home}/llama-server")
    out = tmp_path / "snap.tar.zst"
    packing.make(out, machine, CheckRequest(("/home/marlene/other",)), run_tools=False)
    here = checking.start(machine, "", CheckRequest(("/home/marlene/other",)), run_tools=False, store=None)
    there = checking.start(out, "", CheckRequest(), run_tools=False, store=None)
    assert [r.folder for r in here.machine.runtimes] == ["/home/marlene/other", home]
    assert len(there.machine.runtimes) == 2 and there.faults == []
    for old, new in zip(here.matrix.gates, there.matrix.gates, strict=True):
        assert (old.layer, old.path, old.status, old.absent) == (new.layer, new.path, new.status, new.absent)
    assert [p.status for p in here.matrix.paths] == [p.status for p in there.matrix.paths]
    assert b"marlene" not in snapshot._decompress(out)


def archive(path: Path, members: dict[str, bytes], change: Callable[[tarfile.TarInfo], None] | None = None) -> Path:
    """A hand-made archive."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as made:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            if change:
                change(info)
            made.addfile(info, io.BytesIO(data))
    compressor = ZstdCompressor()
    path.write_bytes(compressor.compress(plain.getvalue()) + compressor.flush())
    return path


EMPTY = {"entries": {}, "reads": {}, "names": {}, "ranges": {}, "commands": {}}
GOOD = json.dumps({"schema": snapshot.SCHEMA, **EMPTY}).encode()


def symlink(info: tarfile.TarInfo) -> None:
    """A member that is a link."""
    info.type, info.linkname, info.size = tarfile.SYMTYPE, "/etc/passwd", 0


@pytest.mark.parametrize(
    "members",
    [
        {"../../etc/cron.d/x": b"x"},
        {"/etc/passwd": b"x"},
        {"blobs/../../x": b"x"},
        {"blobs/" + "0" * 64: b"not that digest"},
        {"snapshot.json": b"[]"},
        {"snapshot.json": b'{"schema": "stillruns.snapshot/9"}'},
        {"snapshot.json": b"{" * 100_000},
        {
            "snapshot.json": json.dumps(
                {"schema": snapshot.SCHEMA, **EMPTY, "reads": {"/x": {"blob": "f" * 64}}}
            ).encode()
        },
        {"snapshot.json": json.dumps({"schema": snapshot.SCHEMA, **EMPTY, "entries": {"/x": {"kind": 3}}}).encode()},
        {
            "snapshot.json": json.dumps(
                {"schema": snapshot.SCHEMA, **EMPTY, "entries": {"/x": {"absence": 1}}}
            ).encode()
        },
        {"snapshot.json": json.dumps({"schema": snapshot.SCHEMA, **EMPTY, "ranges": {"/x": {"size": -1}}}).encode()},
        {},
    ],
    ids=range(12),
)
def test_hostile_archives(tmp_path: Path, members: dict[str, bytes]) -> None:
    """Path traversal, false digests, wrong documents: one sentence that names the file."""
    with pytest.raises(UsageError, match=r"^[^\n]*snap[^\n]*$"):
        snapshot.load(archive(tmp_path / "snap", members))


def test_links_and_bombs(tmp_path: Path) -> None:
    """A link in the archive, a bomb, a cut file, no archive at all."""
    with pytest.raises(UsageError, match=r"'snapshot\.json' as something else than a file"):
        snapshot.load(archive(tmp_path / "snap", {"snapshot.json": b""}, symlink))
    bomb = tmp_path / "bomb"
    compressor = ZstdCompressor()
    with bomb.open("wb") as file:
        for _ in range(64):
            file.write(compressor.compress(bytes(1 << 20)))
        file.write(compressor.flush())
    with pytest.raises(UsageError, match="unpacks to more"):
        snapshot.load(bomb)
    whole = archive(tmp_path / "whole", {"snapshot.json": GOOD}).read_bytes()
    assert snapshot.load(archive(tmp_path / "good", {"snapshot.json": GOOD})).answers.entries == {}
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "none").write_bytes(b"hello")
    for name in ("cut", "none"):
        with pytest.raises(UsageError):
            snapshot.load(tmp_path / name)


def test_unasked_is_not_collected(tmp_path: Path) -> None:
    """What the machine was never asked is an absence, and judging an empty snapshot is calm."""
    path = archive(tmp_path / "good", {"snapshot.json": GOOD})
    found = checking.start(path, "gfx906", CheckRequest(), run_tools=True, store=None)
    assert found.faults == [] and all(
        gate.status.value != "block" for gate in found.matrix.gates if gate.path == "rocm"
    )
