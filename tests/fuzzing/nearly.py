"""Long lines that nearly match a regular expression: what makes a backtracking engine slow."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from random import Random
from typing import Any

if sys.version_info >= (3, 11):
    from re import _constants as sre
    from re import _parser as sre_parse
else:
    import sre_constants as sre
    import sre_parse

LINE = 8000
"""Characters; a reader keeps 8,192 bytes of a longer line."""


def lines(regex: str, random: Random) -> Iterator[str]:
    """Lines for ever: the expression written out, its repeats drawn long, then broken near its end, or repeated."""
    tree = sre_parse.parse(regex)
    while True:
        whole = _written(tree, random, random.choice((1, 3, 40, 400, 8000)))[:LINE]
        cut = random.randrange(len(whole) + 1)
        broken = random.choice((whole, whole[:-1], whole[:-1] + "\x01", whole[:cut] + "!" + whole[cut:], whole[:cut]))
        again = broken * (LINE // max(1, len(broken))) if random.random() < 0.5 else broken
        yield random.choice((again, broken + " " * (LINE - len(broken)), again + random.choice("!0 a")))[:LINE]


def _written(tree: Any, random: Random, long: int) -> str:
    return "".join(_step(op, value, random, long) for op, value in tree)


def _step(op: Any, value: Any, random: Random, long: int) -> str:
    if op is sre.LITERAL:
        return chr(value)
    if op is sre.NOT_LITERAL:
        return "a" if value != ord("a") else "b"
    if op is sre.ANY:
        return random.choice("a0 (:/")
    if op is sre.IN:
        return _member(value, random)
    if op is sre.BRANCH:
        return _written(random.choice(value[1]), random, long)
    if op is sre.SUBPATTERN:
        return _written(value[3], random, long)
    if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        low, high, body = value
        most = min(int(high), max(int(low), long))
        part = _written(body, random, 1)
        return part * random.choice((low, most, most)) if len(part) * most <= 2 * LINE else part * low
    return ""  # ^, $, look-around, references to groups


def _member(parts: Any, random: Random) -> str:
    negated = parts[0][0] is sre.NEGATE
    chosen = []
    for op, value in parts:
        if op is sre.LITERAL:
            chosen.append(chr(value))
        elif op is sre.RANGE:
            chosen.append(chr(random.randint(*value)))
        elif op is sre.CATEGORY:
            digit, space = value in (sre.CATEGORY_DIGIT,), value in (sre.CATEGORY_SPACE,)
            chosen.append("7" if digit else " " if space else "a")
    if negated:
        return next((c for c in random.sample("a0 _x-", 6) if c not in chosen), "~")
    return random.choice(chosen)
