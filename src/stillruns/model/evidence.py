"""Raw bytes with provenance, and places in them."""

from __future__ import annotations

import re
from dataclasses import dataclass

Ref = str
"""A place in evidence: `s0:L123` is line 123 of source 0 (lines count from 1), `s2:@0x1f40+64` a byte range."""

_REF = re.compile(r"s(\d+):(?:L(\d+)|@0x([0-9a-f]+)\+(\d+))\Z")


def line_ref(source: str, line: int) -> Ref:
    """`line_ref("s0", 12) == "s0:L12"`; lines count from 1."""
    return f"{source}:L{line}"


def line_of(ref: Ref) -> int:
    """`line_of("s0:L12") == 12`; a byte range has no line: 0."""
    return int(ref.rpartition("L")[2]) if "L" in ref else 0


def parse_ref(ref: Ref) -> tuple[str, int | None, int | None, int | None]:
    """(source id, line, offset, length); raises ValueError on anything else than a ref."""
    found = _REF.match(ref)
    if not found:
        raise ValueError(f"not a reference to evidence: {ref!r}")
    number, line, offset, length = found.groups()
    return (
        f"s{number}",
        int(line) if line else None,
        int(offset, 16) if offset else None,
        int(length) if length else None,
    )


@dataclass(frozen=True, slots=True)
class Cut:
    """A stream longer than its bound: `dropped` bytes are missing after the first `head` bytes."""

    head: int
    dropped: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """One blob and where it came from.

    `id` is `s0`, `s1`, ... within its trial or document; `kind` one of stdout, stderr, response, request, maps, core,
    samples, probe, log, file; `sha256` has the form `sha256:<64 hex>`; `source` is a path or a command line;
    `at` is UTC, ISO 8601, or empty where unknown.
    """

    id: str
    kind: str
    sha256: str
    bytes: int
    source: str
    at: str = ""
    cut: Cut | None = None
