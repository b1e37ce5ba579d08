"""What a probe brought: bytes with their places, not yet read."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from stillruns.model.absence import Absence


@dataclass(frozen=True, slots=True)
class Cite:
    """A place in evidence that a gate rests on: `source` a path or a command line, `at` a line (`L12`), an offset
    (`@0x1f40+64`) or a command, `excerpt` at most a line or two of what stands there."""

    source: str
    sha256: str = ""
    at: str = ""
    excerpt: str = ""


@dataclass(frozen=True, slots=True)
class RawFile:
    """One path. `data` is None where it was not read (a folder, a device, an absence); `real` is the path after all
    links. `kind` is file, folder, device, fifo, socket or missing; `device` is major:minor of a device node and
    `access` what this process may do with it (`?` on another machine)."""

    path: str
    real: str = ""
    kind: str = "missing"
    data: bytes | None = None
    absence: Absence | None = None
    size: int = 0
    mode: int = 0
    uid: int = 0
    gid: int = 0
    device: str = ""
    access: str = "?"

    @property
    def text(self) -> str:
        """The content as text without the last newline; empty where there is none."""
        return (self.data or b"").decode("utf-8", "replace").rstrip("\n")

    def cite(self, excerpt: str = "", line: int | None = None) -> Cite:
        """This file as evidence; the excerpt defaults to its first line."""
        digest = "" if self.data is None else "sha256:" + hashlib.sha256(self.data).hexdigest()
        shown = excerpt or (self.text.split("\n", 1)[0] if self.data is not None else "")
        if not shown and self.absence is not None:
            shown = self.absence.detail
        return Cite(self.path, digest, f"L{line}" if line else "", shown[:300])


@dataclass(frozen=True, slots=True)
class RawCommand:
    """A command that was run (or not: then `absence` says why)."""

    argv: tuple[str, ...]
    status: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    absence: Absence | None = None

    @property
    def text(self) -> str:
        """Standard output as text."""
        return self.stdout.decode("utf-8", "replace")

    def cite(self, excerpt: str = "", line: int | None = None) -> Cite:
        """This command's output as evidence."""
        digest = "sha256:" + hashlib.sha256(self.stdout + self.stderr).hexdigest()
        return Cite(" ".join(self.argv), digest, f"L{line}" if line else "command", excerpt[:300])


@dataclass(frozen=True, slots=True)
class Collected:
    """Everything that one probe brought, in the order in which it was read."""

    files: tuple[RawFile, ...] = ()
    commands: tuple[RawCommand, ...] = ()
    _index: dict[str, RawFile] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Index by path; a path that was read twice keeps its first reading."""
        for file in self.files:
            self._index.setdefault(file.path, file)

    def file(self, path: str) -> RawFile | None:
        """The reading of this very path, or None when the probe did not ask for it."""
        return self._index.get(path)

    def text(self, path: str) -> str | None:
        """The text of a path that was read, or None."""
        found = self._index.get(path)
        return None if found is None or found.data is None else found.text

    def under(self, folder: str) -> tuple[RawFile, ...]:
        """Every file that was read below a folder."""
        start = folder.rstrip("/") + "/"
        return tuple(file for file in self.files if file.path.startswith(start))
