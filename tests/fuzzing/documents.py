"""Files that people and machines hand over: snapshots, trees of /proc and /sys, worklogs, specs, hypotheses."""

from __future__ import annotations

import copy
import io
import json
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random

import machines
import sysroots
from fuzzing import damage
from fuzzing.target import Target
from stillruns.collect.gathering import NoCommands
from stillruns.collect.tree import FileTree
from stillruns.errors import SpecError, StillrunsError, UsageError
from stillruns.formats.zstd import ZstdCompressor, ZstdDecompressor
from stillruns.judge.claims import hypotheses
from stillruns.lab import importing
from stillruns.lab.machines import snapshot
from stillruns.lab.machines.machine import CheckRequest, read_machine
from stillruns.lab.specs import hypothesis_file, spec_file
from stillruns.lab.studies import studying
from stillruns.model.absence import Absence
from stillruns.model.spec import HypothesisSpec
from stillruns.model.worklog import ClientRun
from stillruns.normalise import answer, worklog
from stillruns.report import gates_json, gates_text, study_json, study_text
from stillruns.store.opening import open_store

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
_HEAD = b"==== "
"""Several files as one input: a line with the path, then the content."""


def _joined(files: Mapping[str, bytes]) -> bytes:
    return b"".join(_HEAD + path.encode() + b"\n" + data + b"\n" for path, data in sorted(files.items()))


def _parted(data: bytes) -> dict[str, bytes]:
    parts = [part.partition(b"\n") for part in (b"\n" + data).split(b"\n" + _HEAD)[1:]]
    return {head.decode("utf-8", "replace"): body for head, _, body in parts}


@cache
def _machine() -> snapshot.Answers:
    """What a machine with two cards, a serving process and its packages answers."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        sysroots.mi50(root)
        sysroots.card(root, "0000:0b:00.0", 0x1B06, vendor=0x10DE, driver="nvidia", minor=129)
        sysroots.host(root)
        sysroots.vulkan(root)
        sysroots.nodes(root, "dev/kfd", "dev/dri/renderD128")
        write = sysroots.write
        write(root, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\nmarlene:x:1000:1000::/home/marlene:/bin/sh")
        write(root, "etc/group", "root:x:0:\nrender:x:109:marlene")
        write(root, "proc/77/comm", "llama-server")
        write(root, "proc/77/environ", "HIP_VISIBLE_DEVICES=0\0HSA_OVERRIDE_GFX_VERSION=9.0.6\0HOME=/root\0")
        write(root, "proc/77/status", "Name:\tllama-server\nUid:\t1000\t1000\t1000\t1000\nGroups:\t109")
        write(root, "proc/77/cgroup", "0::/system.slice/ollama.service")
        write(root, "proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95  Tue Sep")
        write(root, "var/log/kern.log", "[1.0] amdgpu 0000:04:00.0: amdgpu: GPU reset begin!")
        write(root, "var/lib/dpkg/status", "Package: librocblas4\nStatus: install ok installed\nVersion: 6.4.4\n")
        write(root, "opt/rocm/.info/version", "6.4.1-83")
        write(root, "etc/systemd/system/ollama.service", '[Service]\nEnvironment="HIP_VISIBLE_DEVICES=0"')
        recording = snapshot.Recording(FileTree(root), NoCommands())
        machines.judged(read_machine(recording, recording, CheckRequest(target="gfx906")).machine, "gfx906")
    for found in recording.answers.ranges.values():
        found.update({key: 1 for key in ("inode", "mtime_ns") if key in found})  # the same inputs in every run
    return recording.answers


def _judged(packed: snapshot.Packed) -> None:
    """Read, judge and show; a parser that failed left its traceback."""
    reading = read_machine(packed, packed, CheckRequest(target="gfx906"))
    assert not reading.guard.faults, reading.guard.faults[0]
    matrix = machines.judged(reading.machine, "")
    json.dumps(gates_json.document(matrix))
    gates_text.text(matrix, evidence=True)


def machine_files() -> list[bytes]:
    """Every file that was read, and every listing."""
    answers = _machine()
    files = {path: answers.blobs[found["blob"]] for path, found in answers.reads.items() if "blob" in found}
    listed = {f"ls {p}": "\n".join(f["names"]).encode() for p, f in answers.names.items() if "names" in f}
    return [_joined(files), _joined({**files, **listed})]


def check_machine(data: bytes) -> None:
    """The machine with these files instead of its own."""
    answers = copy.copy(_machine())
    answers.reads, answers.names, answers.blobs = dict(answers.reads), dict(answers.names), dict(answers.blobs)
    for path, content in _parted(data).items():
        if path.startswith("ls "):
            names = content.decode("utf-8", "replace").split("\n")
            answers.names[path[3:]] = {"names": [n for n in names if n and "/" not in n and n not in (".", "..")]}
        else:
            answers.reads[path] = {"blob": answers.put(content)}
    _judged(snapshot.Packed("fuzz", answers))


def _archive(document: bytes, blobs: Mapping[str, bytes]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        members = [("snapshot.json", document), *((f"blobs/{digest}", data) for digest, data in blobs.items())]
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return plain.getvalue()


@cache
def _packed() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.tar.zst"
        snapshot.save(_machine(), path, {"made_by": "stillruns", "of": "a sysroot"})
        return path.read_bytes()


def _unpacked() -> bytes:
    return bytes(ZstdDecompressor().decompress(_packed()))


def _document() -> bytes:
    with tarfile.open(fileobj=io.BytesIO(_unpacked())) as archive:
        member = archive.extractfile("snapshot.json")
        assert member is not None
        return json.dumps(json.loads(member.read()), indent=0).encode()


def _compressed(plain: bytes) -> bytes:
    packer = ZstdCompressor()
    return bytes(packer.compress(plain) + packer.flush())


def check_snapshot(data: bytes) -> None:
    """A file that is said to be a snapshot: judged, or refused in one sentence."""
    with tempfile.NamedTemporaryFile(suffix=".tar.zst") as file:
        file.write(data)
        file.flush()
        try:
            packed = snapshot.load(Path(file.name))
        except UsageError as error:
            assert "\n" not in str(error), str(error)
            return
    _judged(packed)


def check_document(data: bytes) -> None:
    """A sound archive with this document."""
    check_snapshot(_compressed(_archive(data, _machine().blobs)))


def check_worklog(data: bytes) -> None:
    """A run folder with these files: imported and judged, or refused."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "log"
        for path, content in _parted(data).items():
            place = root / "run" / path
            if ".." in path or "\0" in path or not path or path.startswith("/") or len(path) > 100:
                continue
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
            except OSError:
                continue
        root.mkdir(exist_ok=True)
        try:
            with open_store(Path(folder) / "store") as store:
                found = importing.run(root, store)
                study = studying.judge(store, found.study, [run.run for run in found.runs if run.run])
                json.dumps(study_json.document(study))
                study_text.text(study, trials=True)
        except StillrunsError as error:
            assert "\n" not in str(error), str(error)


def worklogs() -> list[bytes]:
    """The golden run folders."""
    folders = sorted(path for path in (GOLDEN / "worklog").iterdir() if path.is_dir())
    return [
        _joined(
            {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}
        )
        for path in folders
    ]


def check_worklog_parts(data: bytes) -> None:
    """The parsers of a run folder's files, each fed with anything."""
    assert isinstance(worklog.read("run", data, b"{}"), (ClientRun, Absence))
    worklog.read("run", b'{"records": []}', data)
    worklog.zone(data)
    worklog.probe(data, "backend_probe.txt")
    worklog.lists_a_model(data)
    answer.read(200, data)


def _texts(pattern: str) -> Callable[[], list[bytes]]:
    return lambda: [path.read_bytes() for path in sorted(ROOT.glob(pattern))]


def check_spec(data: bytes) -> None:
    """A spec file and its hypotheses."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spec.toml"
        path.write_bytes(data)
        for read in (spec_file.load, hypothesis_file.load):
            try:
                read(path)
            except SpecError as error:
                assert str(error)


def check_expression(data: bytes) -> None:
    """The expressions of a hypothesis."""
    text = data.decode("utf-8", "replace")
    try:
        hypotheses.check(HypothesisSpec("H", "text", text, text), "here")
    except SpecError as error:
        assert str(error)


def specs() -> list[bytes]:
    """The examples, and hypotheses in a spec's table."""
    library = (ROOT / "src/stillruns/catalogue/data/hypotheses.toml").read_bytes()
    return [*_texts("examples/*.toml")(), library]


def expressions() -> list[bytes]:
    """What the shipped hypotheses predict."""
    return [text.encode() for h in hypothesis_file.library() for text in (h.predicts, h.refuted_if)]


def _deep(seeds: Sequence[bytes], random: Random) -> Iterator[bytes]:
    """Damaged text, and text nested very deeply."""
    plain = damage.text(seeds, random)
    nests = (b"(", b"[", b"not ", b"-", b"any(", b"a.", b'{"a":', b"x and ", b"1+", b"[[", b"x = [", b"x = {a=")
    while True:
        yield next(plain)
        depth = random.choice((50, 1000, 100_000))
        nest = random.choice(nests)
        start, equals, rest = nest.rpartition(b"= ")  # the value is nested, not the line
        yield start + equals + rest * depth + random.choice((b"", b"1", random.choice(seeds)[:500]))


SLOW = 3.0
"""Seconds for targets that write a store or judge a whole machine."""
TARGETS = (
    Target("machine-files", machine_files, check_machine, damage.text, SLOW),
    Target("snapshot-file", lambda: [_packed()], check_snapshot, damage.binary, SLOW),
    Target("snapshot-archive", lambda: [_unpacked()], lambda d: check_snapshot(_compressed(d)), damage.binary, SLOW),
    Target("snapshot-document", lambda: [_document()], check_document, damage.text, SLOW),
    Target("snapshot-values", lambda: [_document()], check_document, damage.values, SLOW),
    Target("worklog-import", worklogs, check_worklog, damage.text, SLOW),
    Target("worklog-result", _texts("tests/golden/worklog/*/result.json"), check_worklog_parts, damage.values),
    Target("worklog-parts", _texts("tests/golden/worklog/*/*.*"), check_worklog_parts, _deep),
    Target("spec", specs, check_spec, _deep),
    Target("hypothesis-expression", expressions, check_expression, _deep),
)
