"""Results to stdout, each of them whole; everything else to stderr."""

from __future__ import annotations

import errno
import json
import os
import sys
from typing import Any

import click

from stillruns.cli.stopping import EAR
from stillruns.report.columns import NARROWEST, WIDTH, Page


def emit_json(document: dict[str, Any]) -> None:
    """One JSON document on stdout."""
    _write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def emit_text(text: str) -> None:
    """Text on stdout as it is: no markup is read in it, no colour added."""
    whole = text if text.endswith("\n") else text + "\n"
    _write(whole if sys.stdout is None or sys.stdout.isatty() else click.unstyle(whole))


def page() -> Page:
    """What text goes to: as wide as COLUMNS says, else as the terminal is; a pipe or a file has a width of its own,
    the same everywhere, so that two outputs can be compared."""
    width = _columns()
    return Page() if width is None else Page(max(NARROWEST, width), fits=True)


def _columns() -> int | None:
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and len(given) < 6 and int(given):
        return int(given)
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or WIDTH
    except (OSError, ValueError):
        return WIDTH


def _write(text: str) -> None:
    """All of it, if there is a stdout. Python's own unbuffered output (PYTHONUNBUFFERED) forgets what the kernel did
    not take at once, as when a signal comes while the reader of a pipe is slow."""
    stream = sys.stdout
    if stream is None:
        return
    with EAR.held():
        stream.flush()
        rest = memoryview(text.encode(stream.encoding or "utf-8", stream.errors or "strict"))
        while rest:
            taken = stream.buffer.write(rest)
            if taken is None:  # a descriptor that somebody made non-blocking, and unbuffered
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            rest = rest[taken:]
        stream.buffer.flush()


def tell(text: str) -> None:
    """One sentence on stderr."""
    click.echo(f"stillruns: {text}", err=True)
