"""The log file of a server that was not started by us: read where the spec says it is, bounded, never changed."""

from __future__ import annotations

from pathlib import Path

from stillruns.model.evidence import Cut

HEAD, TAIL = 16 << 20, 48 << 20
"""Bytes kept of a long log, as of a stream of a server of our own."""


def lines(path: str) -> int:
    """Lines in the log now; 0 where there is none. What stands in them happened before the trial."""
    count = 0
    if path:
        try:
            with Path(path).open("rb") as file:
                while piece := file.read(1 << 20):
                    count += piece.count(b"\n")
        except OSError:
            return 0
    return count


def read(path: str) -> tuple[bytes, Cut | None, str]:
    """The log's bytes, where its middle was left out, and one sentence when it cannot be read."""
    try:
        size = Path(path).stat().st_size
        with Path(path).open("rb") as file:
            if size <= HEAD + TAIL:
                return file.read(HEAD + TAIL), None, ""
            head = file.read(HEAD)
            file.seek(size - TAIL)
            tail = file.read(TAIL)
    except OSError as error:
        return b"", None, f"the log {path} cannot be read: {error.strerror}"
    return head + b"\n" + tail, Cut(len(head), size - len(head) - len(tail)), ""
