"""Arrays of bash: `ARGS=(-m x -ngl 99)`, `ARGS+=(-fa on)` and `"${ARGS[@]}"`.

An array's words keep the places where they stand in the array, so that a correction is made there. All branches are
taken, as everywhere in a script: what an `if` adds is added.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from stillruns.normalise.recipe.words import Token

_DEFINED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=\Z")
_USED = re.compile(r"\"?\$\{([A-Za-z_][A-Za-z0-9_]*)\[[@*]\]\}\"?\Z")


def unfolded(tokens: Sequence[Token]) -> list[Token]:
    """The tokens of a script without the definitions of arrays, and with an array's words where it is used whole."""
    held: dict[str, list[Token]] = {}
    found: list[Token] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        defined = _DEFINED.match(token.raw) if token.kind == "w" else None
        stop = _closing(tokens, at + 1) if defined and _opens(tokens, at + 1, token) else -1
        used = _USED.match(token.raw) if token.kind == "w" else None
        if defined and stop > 0:
            words = [each for each in tokens[at + 2 : stop] if each.kind == "w"]
            before = held.get(defined.group(1), []) if defined.group(2) else []
            held[defined.group(1)] = [*before, *words]
            at = stop + 1
            continue
        found += held[used.group(1)] if used and used.group(1) in held else [token]
        at += 1
    return found


def _opens(tokens: Sequence[Token], at: int, name: Token) -> bool:
    return at < len(tokens) and tokens[at].raw == "(" and tokens[at].word.start == name.word.end


def _closing(tokens: Sequence[Token], at: int) -> int:
    """The index of the bracket that closes the one at `at`; -1 where none does."""
    depth = 0
    for index in range(at, len(tokens)):
        if tokens[index].kind == "o" and tokens[index].raw == "(":
            depth += 1
        elif tokens[index].kind == "o" and tokens[index].raw == ")":
            depth -= 1
            if depth == 0:
                return index
    return -1
