"""Markdown pages: the code blocks in them, each read in its own form; the prose is kept as claims."""

from __future__ import annotations

import re
from collections.abc import Callable

from stillruns.model.recipe import Comment
from stillruns.normalise.recipe.draft import Draft

Block = Callable[[Draft, int, int, int, str], None]
"""Reads one block: draft, start, end, line, what its fence says."""

_FENCE = re.compile(r"^([ \t>]*)(`{3,}|~{3,})[ \t]*([^`\n]*)$")
_PROMPT = re.compile(r"^([ \t>]*(?:\([\w.-]+\)[ \t]*)?(?:[\w.-]+@[\w.-]+[:~\w/.\- ]*)?[$#%][ \t])(?=\S)")


def read(draft: Draft, start: int, end: int, line: int, block: Block) -> None:
    """Find the fenced blocks; an unclosed fence runs to the end, as CommonMark has it."""
    text, at = draft.text, start
    opened: tuple[str, str, int, int] | None = None
    while at < end:
        stop = text.find("\n", at, end)
        stop = end if stop < 0 else stop
        row = text[at:stop].rstrip("\r")
        fence = _FENCE.match(row)
        if opened is None:
            if fence:
                opened = (fence.group(2), fence.group(3).strip(), stop + 1, line + 1)
            elif row.strip():
                draft.comments.append(Comment(row.strip(), line))
        elif fence and fence.group(2).startswith(opened[0]) and not fence.group(3).strip():
            block(draft, opened[2], at, opened[3], opened[1])
            opened = None
        at, line = stop + 1, line + 1
    if opened is not None:
        draft.note("this code block is never closed: it was read to the end of the page", opened[3] - 1)
        block(draft, opened[2], end, opened[3], opened[1])


def without_prompts(text: str, start: int, end: int) -> str:
    """The whole text with the prompts (`$ `, `user@host:~$ `) and quote marks of one block blanked; where a block has
    prompts, lines without one are output and are blanked too, unless they continue the line before."""
    rows = text[start:end].split("\n")
    prompted = any(_PROMPT.match(row) and not row.lstrip("> \t").startswith("# ") for row in rows)
    out: list[str] = []
    continued = False
    for row in rows:
        quote = re.match(r"[ \t]*(>[ \t]?)+", row)
        if quote:
            row = " " * quote.end() + row[quote.end() :]
        found = _PROMPT.match(row)
        if prompted and found and not row.lstrip().startswith("# "):
            row = " " * found.end() + row[found.end() :]
        elif prompted and not continued:
            row = " " * len(row)
        continued = row.rstrip().endswith("\\")
        out.append(row)
    return text[:start] + "\n".join(out) + text[end:]
