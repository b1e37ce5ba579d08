"""What `stillruns autopsy` finds: the JSON contract `stillruns.autopsy/1` as nouns.

Absent values are None; a field that the log cannot decide says `unknown` in its enum.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from stillruns.model.backend import Backend
from stillruns.model.component import Component
from stillruns.model.evidence import Ref
from stillruns.model.outcome import OutcomeKind
from stillruns.model.phase import Phase
from stillruns.model.server_log import Layers, Note, ServerLog


class Confidence(str, Enum):
    """`high` needs a pattern or signal seen in real logs, and a phase and backend that the log itself tells."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Source(msgspec.Struct, frozen=True):
    """One input. `path` as given (`-` for standard input; a member of a folder with its own path), `sha256` of the
    bytes as read (after decompression), `lines` counted by newline."""

    id: str
    path: str
    sha256: str
    bytes: int
    lines: int
    note: str = ""


class Excerpt(msgspec.Struct, frozen=True):
    """A line that counts, made visible."""

    ref: Ref
    text: str


class Incident(msgspec.Struct, frozen=True):
    """One thing that went wrong, once. `server` is None for what only the kernel's log shows, `outcome` None is
    `unknown`. `frames` are function names, innermost first, and
    `signature` is `sig1:...` or None where neither frames nor a key line allow one."""

    server: str | None
    request: str | None
    time: str | None
    outcome: OutcomeKind | None
    signal: str | None
    detail: str
    phase: Phase
    backend: Backend
    components: tuple[Component, ...]
    target: str | None
    device: str | None
    requested_layers: Layers
    applied_layers: int | None
    total_layers: int | None
    signature: str | None
    frames: tuple[str, ...]
    key_line: Excerpt | None
    evidence: tuple[Excerpt, ...]
    confidence: Confidence
    explanation: str
    next_step: str = ""
    pattern: str | None = None
    known_issues: tuple[str, ...] = ()
    workarounds: tuple[str, ...] = ()
    why_unknown: tuple[tuple[str, str], ...] = ()
    """Field name -> why the log does not decide it."""


class Autopsy(msgspec.Struct, frozen=True):
    """All inputs together."""

    sources: tuple[Source, ...]
    servers: tuple[ServerLog, ...]
    incidents: tuple[Incident, ...]
    warnings: tuple[Note, ...] = ()
