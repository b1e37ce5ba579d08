"""Plain text in columns and in lines of bounded width: no colour, fit to paste into a report."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from stillruns.model.hint import CALLER

WIDTH = 110
"""Characters of a line where nobody says how wide the page is."""
NARROWEST = 40
"""A page that is narrower is written as if it had so many."""
_JOINED = "\ue000"
"""Stands for a space at which no line may end; a character that no text has (it is for private use)."""
LEAST = 24
"""Columns in which a last entry of some words can still be read."""
BELOW = " " * 4
"""Before what stands under its row."""


@dataclass(frozen=True, slots=True)
class Page:
    """What is written on. Prose fills `width`; tables and lines to be searched are made to fit it only where `fits`
    says that a person looks at it, since a program that reads a pipe wants a row to be a line.

    Nothing is ever left out for want of width, and no word is broken, so that ids, paths and commands can be copied.
    """

    width: int = WIDTH
    fits: bool = False

    def wrapped(self, text: str, first: str = "", later: str | None = None) -> list[str]:
        """Prose in lines, as the function of this name does."""
        return wrapped(text, first, later, self.width)

    def line(self, text: str, first: str = "", later: str | None = None) -> list[str]:
        """`text` as one line, or in as many as a page that is looked at needs."""
        return self.wrapped(text, first, later) if self.fits else [visible(first + text)]

    def table(self, rows: Sequence[Sequence[str]], indent: str = "", *, heading: bool = True) -> list[str]:
        """Rows of equal length (the first holds the headings, unless it has none) to aligned lines. On a page that
        has to fit, a last column of some words is folded into what is left beside the others; else the columns for
        which there is no room follow below their row, each with its heading."""
        plain = [indent + line for line in columns(rows)]
        if not self.fits or not rows or max(map(width, plain)) <= self.width:
            return plain
        clean = [[visible(entry) for entry in row] for row in rows]
        room = self.width - len(indent)
        beside = room - width(columns([[*row[:-1], "|"] for row in clean])[0]) + 1
        folded = _folded(clean, beside, room) if beside >= LEAST else _below(clean, room, heading)
        return [indent + line for line in folded]


PLAIN = Page()
"""What a pipe or a file gets."""


def _folded(rows: Sequence[Sequence[str]], beside: int, room: int) -> list[str]:
    """The last column in what is left `beside` the others; an entry with a longer word goes below its row."""
    tall: list[list[str]] = []
    under: dict[int, list[str]] = {}
    for row in rows:
        parts = wrapped(row[-1], "", "", beside) or [""]
        if any(width(part) > beside for part in parts):
            under[len(tall)], parts = wrapped(row[-1], BELOW, BELOW, room), [""]
        tall += [[*(row[:-1] if part is parts[0] else [""] * (len(row) - 1)), part] for part in parts]
    return [line for number, top in enumerate(columns(tall)) for line in (top, *under.get(number, ()))]


def _below(rows: Sequence[Sequence[str]], room: int, heading: bool) -> list[str]:
    """As many of the first columns as fit, and the others below each row."""
    whole = len(rows[0])
    kept = max((n for n in range(1, whole) if max(map(width, columns([row[:n] for row in rows]))) <= room), default=1)
    names = rows[0][kept:] if heading else [""] * (whole - kept)
    lines: list[str] = []
    for number, (row, line) in enumerate(zip(rows, columns([row[:kept] for row in rows]), strict=True)):
        lines.append(line)
        if heading and number == 0:
            continue
        told = [f"{name}: {entry}" if name else entry for name, entry in zip(names, row[kept:], strict=True) if entry]
        together = "; ".join(told)
        parts = [together] if len(BELOW) + width(together) <= room else ["; ".join(told[:-1]), *told[-1:]]
        lines += [line for part in parts for line in wrapped(part, BELOW, f"{BELOW}  ", room)]
    return lines


def cut(text: str, most: int) -> str:
    """At most `most` characters; what is left out shows as ` ...`."""
    return text if len(text) <= most else f"{text[: most - 4].rstrip()} ..."


def wrapped(text: str, first: str = "", later: str | None = None, width: int = WIDTH) -> list[str]:
    """Lines of at most `width` characters, the first after `first`, the others after `later` (two spaces more than
    `first` where it is not given); no word is broken, and no command of ours between backticks, so that names and
    commands can be copied."""
    start = f"`{CALLER.program} "
    if start in text:
        text = re.sub(f"{re.escape(start)}[^`]*`", lambda found: found[0].replace(" ", _JOINED), text)
    lines = textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=first + "  " if later is None else later,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return [visible(line.replace(_JOINED, " ")) for line in lines]


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
