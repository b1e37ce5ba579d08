"""What a page in Markdown quotes: the text of its code blocks, each line at its place, all else empty.

Prose that mentions a line of a log is no log, and neither is a block of source code. Fences and indented blocks are
those of CommonMark (4.4, 4.5); in lists an indented line may be prose, and is taken for it.
"""

from __future__ import annotations

import re

_FENCE = re.compile(rb"[ \t>]{0,12}(?P<fence>`{3,}|~{3,})[ \t]{0,8}(?P<word>[\w.+#-]{0,40})(?P<rest>[^\r\n]{0,2000})")
_LIST = re.compile(rb"[ \t]{0,12}(?:[-*+]|\d{1,9}[.)])[ \t]")
_INDENTED = re.compile(rb"(?: {4}|\t)[ \t]{0,400}\S")
_CODE = frozenset(
    b"""
    c cc cpp c++ cxx cuda h hpp objc metal glsl hlsl go golang rust rs zig js javascript jsx ts typescript tsx java
    kotlin scala swift ruby rb perl lua php cs csharp julia r sql proto python py python3 diff patch cmake make
    makefile dockerfile toml yaml yml ini json json5 jsonc xml html css svg markdown md jinja nix mermaid
    """.split()
)
"""Words behind a fence that name source code or settings; a block with Python's traceback is a log all the same."""
_TRACEBACK = b"Traceback (most recent call last)"


def quoted(data: bytes) -> bytes:
    """The page with every line emptied that stands in no block of log."""
    lines = data.split(b"\n")
    kept = [b""] * len(lines)
    number = 0
    listed = blank = True
    while number < len(lines):
        line = lines[number]
        opening = _FENCE.match(line)
        if opening and not (opening["fence"].startswith(b"`") and b"`" in opening["rest"]):
            end = _end(lines, number, opening["fence"])
            block = lines[number + 1 : end]
            if opening["word"].lower() not in _CODE or any(_TRACEBACK in text for text in block):
                kept[number + 1 : end] = block
            number, listed, blank = end + 1, False, True
            continue
        if not line.strip():
            blank = True
        elif _INDENTED.match(line) and blank and not listed:
            kept[number] = line
        else:
            blank = False
            listed = bool(_LIST.match(line)) or (listed and line[:1] in b" \t")
        number += 1
    return b"\n".join(kept)


def _end(lines: list[bytes], opening: int, fence: bytes) -> int:
    """The line that closes a fence; the end of the page where none does."""
    closing = re.compile(rb"[ \t>]{0,12}" + re.escape(fence[:1]) + b"{%d,}[ \\t\\r]{0,8}$" % len(fence))
    return next((n for n in range(opening + 1, len(lines)) if closing.match(lines[n])), len(lines))
