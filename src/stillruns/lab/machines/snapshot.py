"""Snapshots: every answer that a machine's files gave to `check`, to be judged elsewhere.

A snapshot is a .tar.zst of `snapshot.json` (schema `stillruns.snapshot/1`: answers by path) and `blobs/<sha256>`.
Nothing of one is ever unpacked onto a disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from stillruns.collect.gathering import Commands
from stillruns.collect.tree import Ranges, Tree, TreeEntry
from stillruns.errors import UsageError
from stillruns.formats.zstd import ZstdCompressor, ZstdDecompressor, ZstdError
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.raw import RawCommand

SCHEMA = "stillruns.snapshot/1"
MOST_PACKED = 256 << 20
MOST_PLAIN = 1 << 30
MOST_MEMBERS = 200_000
MOST_RATIO = 400

_MEMBER = re.compile(r"snapshot\.json\Z|blobs/[0-9a-f]{64}\Z")


@dataclass(slots=True)
class Answers:
    """What a tree answered: entries, readings, listings and ranges by path, commands by command line. An absence is
    kept as one. Readings and ranges name blobs by their digest."""

    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    reads: dict[str, dict[str, Any]] = field(default_factory=dict)
    names: dict[str, dict[str, Any]] = field(default_factory=dict)
    ranges: dict[str, dict[str, Any]] = field(default_factory=dict)
    commands: dict[str, dict[str, Any]] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)

    def put(self, data: bytes) -> str:
        """Keep bytes once; the hexadecimal digest names them."""
        digest = hashlib.sha256(data).hexdigest()
        self.blobs.setdefault(digest, data)
        return digest


class Recording(Tree, Commands):
    """A tree (and the machine's tools) that remembers every answer that it passes on."""

    def __init__(self, tree: Tree, commands: Commands) -> None:
        """Answers come from `tree` and `commands`."""
        self.tree, self.commands = tree, commands
        self.name, self.live = tree.name, tree.live
        self.answers = Answers()

    def entry(self, path: str) -> TreeEntry | Absence:
        """See `Tree`."""
        found = self.tree.entry(path)
        self.answers.entries[path] = _plain(found)
        return found

    def read(self, path: str, limit: int) -> bytes | Absence:
        """See `Tree`. Of several readings of one path the longest is kept."""
        found = self.tree.read(path, limit)
        kept = self.answers.reads.get(path)
        if isinstance(found, Absence):
            self.answers.reads.setdefault(path, _plain(found))
        elif kept is None or len(self.answers.blobs.get(kept.get("blob", ""), b"")) < len(found):
            self.answers.reads[path] = {"blob": self.answers.put(found)}
        return found

    def names(self, path: str) -> tuple[str, ...] | Absence:
        """See `Tree`."""
        found = self.tree.names(path)
        self.answers.names[path] = _plain(found) if isinstance(found, Absence) else {"names": list(found)}
        return found

    @contextlib.contextmanager
    def ranges(self, path: str) -> Iterator[Ranges | Absence]:
        """See `Tree`. Every range that is read is kept."""
        with self.tree.ranges(path) as found:
            if isinstance(found, Absence):
                self.answers.ranges.setdefault(path, _plain(found))
                yield found
                return
            kept = self.answers.ranges.setdefault(
                path, {"size": found.size, "inode": found.inode, "mtime_ns": found.mtime_ns, "parts": []}
            )
            reader = found.reader

            def remembering(offset: int, n: int) -> bytes:
                data = reader(offset, n)
                kept["parts"].append([offset, len(data), self.answers.put(data)])
                return data

            found.reader = remembering
            yield found

    def run(self, argv: tuple[str, ...]) -> RawCommand:
        """See `Commands`."""
        done = self.commands.run(argv)
        self.answers.commands["\0".join(argv)] = {
            "status": done.status,
            "stdout": self.answers.put(done.stdout),
            "stderr": self.answers.put(done.stderr),
            "absence": _plain(done.absence)["absence"] if done.absence else None,
        }
        return done


class Packed(Tree, Commands):
    """A snapshot as a tree: it answers what the machine answered, and says so where it was not asked."""

    def __init__(self, name: str, answers: Answers, runtimes: tuple[str, ...] = ()) -> None:
        """`answers` as they were loaded; `runtimes` are the folders that were named when it was made."""
        self.name, self.live, self.answers, self.runtimes = name, False, answers, runtimes

    def entry(self, path: str) -> TreeEntry | Absence:
        """See `Tree`."""
        found = _given(self.answers.entries, path)
        return found if isinstance(found, Absence) else msgspec.convert(found, TreeEntry)

    def read(self, path: str, limit: int) -> bytes | Absence:
        """See `Tree`."""
        found = _given(self.answers.reads, path)
        return found if isinstance(found, Absence) else self.answers.blobs[found["blob"]][:limit]

    def names(self, path: str) -> tuple[str, ...] | Absence:
        """See `Tree`."""
        found = _given(self.answers.names, path)
        return found if isinstance(found, Absence) else tuple(found["names"])

    @contextlib.contextmanager
    def ranges(self, path: str) -> Iterator[Ranges | Absence]:
        """See `Tree`."""
        found = _given(self.answers.ranges, path)
        if isinstance(found, Absence):
            yield found
            return
        parts: list[tuple[int, int, str]] = [tuple(part) for part in found["parts"]]

        def reader(offset: int, n: int) -> bytes:
            for start, length, blob in parts:
                if start <= offset and offset + n <= start + length:
                    return self.answers.blobs[blob][offset - start : offset - start + n]
            raise OSError(0, f"{path} at {offset:#x} is not in the snapshot")

        yield Ranges(path, found["size"], reader, found["inode"], found["mtime_ns"])

    def run(self, argv: tuple[str, ...]) -> RawCommand:
        """See `Commands`."""
        found = self.answers.commands.get("\0".join(argv))
        if found is None:
            return RawCommand(argv, absence=Absence(AbsenceReason.NOT_COLLECTED, f"{argv[0]} is not in the snapshot"))
        absence = msgspec.convert(found["absence"], Absence) if found["absence"] else None
        blobs = self.answers.blobs
        return RawCommand(argv, found["status"], blobs[found["stdout"]], blobs[found["stderr"]], absence)


def _plain(found: TreeEntry | Absence) -> dict[str, Any]:
    if isinstance(found, Absence):
        return {"absence": {"reason": found.reason.value, "detail": found.detail, "hint": found.hint}}
    return asdict(found)


def _given(kept: dict[str, dict[str, Any]], path: str) -> dict[str, Any] | Absence:
    found = kept.get(path)
    if found is None:
        return Absence(AbsenceReason.NOT_COLLECTED, f"{path} is not in the snapshot")
    if "absence" in found:
        return msgspec.convert(found["absence"], Absence)
    return found


def save(answers: Answers, path: Path, about: dict[str, Any]) -> int:
    """Write a snapshot; returns its size in bytes. The file is complete or not there."""
    document = {"schema": SCHEMA, **about}
    for kind in ("entries", "reads", "names", "ranges", "commands"):
        document[kind] = getattr(answers, kind)
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        members = [("snapshot.json", json.dumps(document, sort_keys=True).encode())]
        members += [(f"blobs/{digest}", data) for digest, data in sorted(answers.blobs.items())]
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o600
            archive.addfile(info, io.BytesIO(data))
    compressor = ZstdCompressor()
    packed = compressor.compress(plain.getvalue()) + compressor.flush()
    unfinished = path.with_name(f".{path.name}.part")
    try:
        unfinished.write_bytes(packed)
        unfinished.replace(path)
    except OSError as error:
        raise UsageError(f"the snapshot cannot be written to {path}: {error.strerror}.") from error
    finally:
        with contextlib.suppress(OSError):  # after a full disk, or Ctrl-C; otherwise there is nothing to remove
            unfinished.unlink(missing_ok=True)
    return len(packed)


def load(path: Path) -> Packed:
    """A snapshot as a tree; raises UsageError with one sentence for a file that is none, damaged or hostile."""
    plain = _decompress(path)
    blobs: dict[str, bytes] = {}
    document: Any = None
    try:
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
            for count, member in enumerate(archive):
                if count > MOST_MEMBERS:
                    raise _refused(path, f"it holds more than {MOST_MEMBERS} members")
                if not _MEMBER.match(member.name) or not member.isreg():
                    what = "" if member.isreg() else " as something else than a file"
                    raise _refused(
                        path, f"it holds {member.name[:80]!r}{what}, which no snapshot of this program has"
                    )
                source = archive.extractfile(member)
                data = source.read() if source else b""
                if member.name == "snapshot.json":
                    document = json.loads(data)
                elif hashlib.sha256(data).hexdigest() != member.name[6:]:
                    raise _refused(path, f"{member.name[:20]}... does not match its digest")
                else:
                    blobs[member.name[6:]] = data
    except (tarfile.TarError, ValueError, RecursionError, EOFError, OverflowError) as error:
        raise _refused(path, f"its archive is damaged ({error})") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise _refused(path, f"it has no snapshot.json of the schema {SCHEMA}")
    runtimes = document.get("runtimes", [])
    if not isinstance(runtimes, list) or not all(isinstance(folder, str) for folder in runtimes):
        raise _refused(path, "its snapshot.json names no folders of runtimes")
    return Packed(str(path), _answers(path, document, blobs), tuple(runtimes))


def _answers(path: Path, document: dict[str, Any], blobs: dict[str, bytes]) -> Answers:
    """The document's parts, checked as far as reading them needs."""
    parts: dict[str, dict[str, dict[str, Any]]] = {}
    try:
        for kind in ("entries", "reads", "names", "ranges", "commands"):
            parts[kind] = msgspec.convert(document[kind], dict[str, dict[str, Any]])
        for found in parts["entries"].values():
            _check(found, TreeEntry)
        for found in parts["names"].values():
            _check(found, _Names)
        for found in parts["reads"].values():
            _check(found, _Read, blobs)
        for found in parts["ranges"].values():
            _check(found, _RangeList, blobs)
        for found in parts["commands"].values():
            msgspec.convert(found, _Command)
            if found["stdout"] not in blobs or found["stderr"] not in blobs:
                raise ValueError("a blob is missing")
    except (KeyError, msgspec.ValidationError, ValueError, TypeError) as error:
        raise _refused(path, f"its snapshot.json is damaged ({error})") from error
    return Answers(**parts, blobs=blobs)


class _Names(msgspec.Struct):
    names: list[str]


class _Read(msgspec.Struct):
    blob: str


class _RangeList(msgspec.Struct):
    size: int
    inode: int
    mtime_ns: int
    parts: list[tuple[int, int, str]]


class _Command(msgspec.Struct):
    status: int | None
    stdout: str
    stderr: str
    absence: Absence | None


def _check(found: dict[str, Any], form: type[Any], blobs: dict[str, bytes] | None = None) -> None:
    if "absence" in found:
        msgspec.convert(found["absence"], Absence)
        return
    msgspec.convert(found, form)
    wanted = [found["blob"]] if "blob" in found else [part[2] for part in found.get("parts", ())]
    if blobs is not None and any(blob not in blobs for blob in wanted):
        raise ValueError("a blob is missing")


def _decompress(path: Path) -> bytes:
    """The plain archive, bounded: a bomb ends in one sentence."""
    try:
        size = path.stat().st_size
        if size > MOST_PACKED:
            raise _refused(path, f"it has {size >> 20} MiB, more than {MOST_PACKED >> 20}")
        packed = path.read_bytes()
    except OSError as error:
        raise UsageError(f"the snapshot {path} cannot be read: {error.strerror}.") from error
    bound = min(MOST_PLAIN, max(len(packed) * MOST_RATIO, 1 << 24))
    try:
        decompressor = ZstdDecompressor()
        plain: bytes = decompressor.decompress(packed, max_length=bound + 1)
    except ZstdError as error:
        raise _refused(path, f"it is no zstd archive ({error})") from error
    if len(plain) > bound:
        raise _refused(path, f"it unpacks to more than {bound >> 20} MiB")
    if not decompressor.eof:
        raise _refused(path, "it is cut off")
    return plain


def _refused(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} cannot be judged as a snapshot: {why}; make it again with the verb snapshot.")
