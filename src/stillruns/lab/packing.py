"""The job of `snapshot`: ask a machine everything that `check` asks, redact the answers, and pack them."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stillruns import __version__
from stillruns.collect.gathering import Commands, NoCommands
from stillruns.collect.tree import FileTree
from stillruns.errors import UsageError
from stillruns.lab.machines import device_init
from stillruns.lab.machines.machine import CheckRequest, named_runtimes, read_machine
from stillruns.lab.machines.probing import LiveCommands
from stillruns.lab.machines.snapshot import Answers, Recording, save
from stillruns.normalise.environment import pairs
from stillruns.redact.environment import redact_environment
from stillruns.redact.redactor import KEY_BYTES, Redactor
from stillruns.redact.text import redact

_SYSTEM = re.compile(r"/(?:usr|lib|lib64|etc|sys|proc|dev|opt|run|var|boot|bin|sbin)(?:/|\Z)|/\Z")
_BINARY_READS = re.compile(r"/(?:lib|usr|opt)/.*\.(?:so|ko|bin)|/sys/.*/gpu_metrics\Z")


@dataclass(frozen=True, slots=True)
class Made:
    """A snapshot that was written: its size in bytes, how many paths it answers, how many values were redacted.
    `in_context` are names of people and hosts that are words of logs as well: they are replaced only where the text
    shows a name."""

    path: Path
    bytes: int
    paths: int
    redacted: int
    faults: tuple[str, ...]
    in_context: tuple[str, ...]


def make(out: Path, root: Path | None, asked: CheckRequest, *, run_tools: bool) -> Made:
    """Read, redact, write. Raises UsageError when `out` cannot be written."""
    if root is not None and not root.is_dir():
        raise UsageError(f"--sysroot {root}: there is no such folder.")
    tree = FileTree(root) if root is not None and str(root) != "/" else FileTree()
    asked = replace(asked, runtimes=named_runtimes(asked.runtimes, tree))
    commands: Commands = LiveCommands() if run_tools and tree.live else NoCommands()
    if tree.live:
        asked = replace(asked, runtimes=(*asked.runtimes, *device_init.folders(os.environ)))
    recording = Recording(tree, commands)
    reading = read_machine(recording, recording, asked)
    people = _people(recording.answers)
    redactor = Redactor(secrets.token_bytes(KEY_BYTES), users=people, hosts=(os.uname().nodename,))
    clean, redacted = _redacted(recording.answers, people, redactor)
    about = {
        "made_by": f"stillruns {__version__}",
        "of": "this machine" if tree.live else "a sysroot",
        "runtimes": [_place(folder, redactor) for folder in asked.runtimes],
    }
    size = save(clean, out, about)
    paths = len(clean.entries) + len(clean.names)
    return Made(out, size, paths, redacted, tuple(reading.guard.faults), redactor.names_only_in_context())


def _redacted(answers: Answers, people: tuple[str, ...], redactor: Redactor) -> tuple[Answers, int]:
    """Texts redacted, environments by allow-list, accounts reduced to what permissions need, people out of paths."""
    clean = Answers()
    count = 0

    def keep(blob: str, change: Callable[[bytes], bytes]) -> str:
        nonlocal count
        old = answers.blobs[blob]
        new = change(old)
        count += new != old
        return clean.put(new)

    def text(data: bytes) -> bytes:
        return redact(data.decode("utf-8", "surrogateescape"), redactor).text.encode("utf-8", "surrogateescape")

    for path, found in answers.reads.items():
        change: Callable[[bytes], bytes] = text
        if path.endswith("/environ"):
            change = lambda data: _environ(data, redactor)  # noqa: E731 (one of four shapes of the same thing)
        elif path in ("/etc/passwd", "/etc/group"):
            change = lambda data: _accounts(data, redactor, people)  # noqa: E731
        elif path == "/etc/ld.so.cache":
            change = lambda data: _masked(data, people)  # noqa: E731
        elif _BINARY_READS.match(path):
            change = bytes
        kept = {"blob": keep(found["blob"], change)} if "blob" in found else _absent(found, redactor)
        clean.reads[_place(path, redactor)] = kept
    for path, found in answers.entries.items():
        real = {"real": _place(found["real"], redactor)} if "real" in found else {}
        clean.entries[_place(path, redactor)] = {**_absent(found, redactor), **real}
    for path, found in answers.names.items():
        clean.names[_place(path, redactor)] = _listing(path, found, redactor)
    for words, found in answers.commands.items():
        outputs = {key: keep(found[key], text) for key in ("stdout", "stderr")}
        clean.commands[words] = {**found, **outputs}
    for path, found in answers.ranges.items():
        clean.ranges[_place(path, redactor)] = _absent(found, redactor)
        for part in found.get("parts", ()):
            clean.put(answers.blobs[part[2]])
    return clean, count


def _place(path: str, redactor: Redactor) -> str:
    """A path as the redacted texts write it, so that what they name is still found. The system's own folders name no
    people, and an account may be called as one of them (ollama, render)."""
    return path if _SYSTEM.match(path) else redact(path, redactor).text


def _listing(path: str, found: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    """The names in a folder."""
    if "names" not in found:
        return _absent(found, redactor)
    places = [_place(f"{path.rstrip('/')}/{name}", redactor) for name in found["names"]]
    return {"names": [place.rpartition("/")[2] for place in places]}


def _absent(found: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    """An absence's sentences may name the path."""
    if "absence" not in found:
        return found
    return {"absence": {key: redact(text, redactor).text for key, text in found["absence"].items()}}


def _masked(data: bytes, people: tuple[str, ...]) -> bytes:
    """A binary file whose layout must stay: people's names in its paths are written over, letter for letter."""
    for name in people:
        secret = name.encode()
        data = data.replace(b"/" + secret + b"/", b"/" + b"x" * len(secret) + b"/")
    return data


def _people(answers: Answers) -> tuple[str, ...]:
    """Accounts of people: uid 1000 and above (and not nobody)."""
    found = answers.reads.get("/etc/passwd", {})
    text = answers.blobs.get(found.get("blob", ""), b"").decode("utf-8", "replace")
    parts = [line.split(":") for line in text.splitlines()]
    return tuple(p[0] for p in parts if len(p) > 3 and p[2].isdigit() and 1000 <= int(p[2]) < 65_000)


def _accounts(data: bytes, redactor: Redactor, people: tuple[str, ...]) -> bytes:
    """name:x:uid:gid of passwd, name:x:gid:members of group; people by pseudonym, nothing else of a line."""
    names = {name: redactor.tag("user", name).strip("<>").replace(":", "-") for name in people}
    lines = []
    for line in data.decode("utf-8", "replace").splitlines():
        parts = line.split(":")[:4]
        members = ",".join(names.get(member, member) for member in parts[3].split(",")) if len(parts) > 3 else ""
        lines.append(":".join([names.get(parts[0], parts[0]), *parts[1:3], members]))
    return ("\n".join(lines) + "\n").encode()


def _environ(data: bytes, redactor: Redactor) -> bytes:
    words = data.decode("utf-8", "surrogateescape").split("\0")
    kept = redact_environment(pairs(words), redactor).kept
    return "\0".join(f"{name}={value}" for name, value in kept.items()).encode("utf-8", "surrogateescape")
