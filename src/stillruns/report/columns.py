"""Plain text in columns and in lines of bounded width: no colour, fit to paste into a report."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Sequence

WIDTH = 110
"""Characters of a line."""


def wrapped(text: str, first: str = "", later: str | None = None, width: int = WIDTH) -> list[str]:
    """Lines of at most `width` characters, the first after `first`, the others after `later` (two spaces more than
    `first` where it is not given); no word is broken, so that names and commands can be copied."""
    lines = textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=first + "  " if later is None else later,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return [visible(line) for line in lines]


def columns(rows: Sequence[Sequence[str]], gap: int = 2) -> list[str]:
    """Rows of equal length to aligned lines; the last column is not padded.

    Control characters, which hostile text may bring, are shown as `\\x1b` and the like.
    """
    clean = [[visible(entry) for entry in row] for row in rows]
    widths = [max((width(row[i]) for row in clean), default=0) for i in range(len(clean[0]))] if clean else []
    lines = []
    for row in clean:
        padded = [entry + " " * (widths[i] - width(entry)) for i, entry in enumerate(row)]
        lines.append((" " * gap).join(padded).rstrip())
    return lines


def width(text: str) -> int:
    """Terminal cells that a text takes: wide East Asian characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    cells = 0
    for character in text:
        if unicodedata.combining(character):
            continue
        cells += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return cells


def visible(text: str) -> str:
    """What a terminal would act on or not show (control characters, bidirectional marks, newlines) as escapes;
    everything else as it is.

    The last door before a person, for texts of any origin. An excerpt of a log, which is kept and must be the same
    with every Python, is made visible when it is read, by a table of its own (`normalise.logs.reader`).
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
