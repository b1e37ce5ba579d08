"""What a regular expression of the catalogue may look like.

Logs are hostile: a line of a megabyte that almost matches must not cost seconds. So an expression is accepted only
when a backtracking engine decides it in time linear in the line (up to a constant factor), and when its anchor, the
literal by which lines are prefiltered, is really part of every match. Both are decided from the parsed expression,
not by trying strings.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import msgspec

if sys.version_info >= (3, 11):
    from re import _constants as sre
    from re import _parser as sre_parse
else:  # pragma: no cover
    import sre_constants as sre
    import sre_parse

_OTHER = 128
"""One more position in the character sets below: everything beyond ASCII."""
_ALL = (1 << (_OTHER + 1)) - 1
_MAX_PATHS = 256
_LONG_REPEAT = 40
"""A counted repeat above this is treated like an endless one."""


class RegexRefused(ValueError):
    """The expression is refused; the message says why."""


class _Item(msgspec.Struct, frozen=True):
    """One step of a path: a set of characters, whether it must be there, whether it may repeat without end."""

    chars: int
    required: bool
    endless: bool
    literal: str = ""


_Path = tuple[_Item, ...]


def check(regex: str, anchor: str) -> None:
    """Raise RegexRefused when `regex` is invalid, may need more than linear time, or can match without `anchor`."""
    if not anchor:
        raise RegexRefused("no anchor: name a literal that every match contains")
    for path in check_linear(regex):
        if not any(anchor in run for run in _literal_runs(path)):
            raise RegexRefused(f"the anchor {anchor!r} is not a literal part of every match")


def check_linear(regex: str) -> list[_Path]:
    """Raise RegexRefused when `regex` is invalid or may need more than linear time; returns the ways through it."""
    try:
        tree = sre_parse.parse(regex)
    except (sre.error, OverflowError) as error:
        raise RegexRefused(f"not a regular expression: {error}") from error
    if tree.state.flags & ~sre.SRE_FLAG_UNICODE:
        raise RegexRefused("inline flags are not allowed")
    paths, anchored = _paths(tree), _starts_at_beginning(tree)
    for path in paths:
        _refuse_slow(path, anchored)
    return paths


def literal_runs(regex: str) -> list[list[str]]:
    """For each way through `regex`, the runs of literal characters that every such match contains."""
    return [_literal_runs(path) for path in _paths(sre_parse.parse(regex))]


def _bit(code: int) -> int:
    return 1 << min(code, _OTHER)


def _range(low: int, high: int) -> int:
    chars = 0
    for code in range(low, min(high, _OTHER) + 1):
        chars |= _bit(code)
    return chars | (_bit(_OTHER) if high >= _OTHER else 0)


def _members(text: str) -> int:
    chars = 0
    for char in text:
        chars |= _bit(ord(char))
    return chars


_DIGIT = _members("0123456789")
_SPACE = _members(" \t\n\r\f\v\x1c\x1d\x1e\x1f")
_WORD = _DIGIT | _range(ord("a"), ord("z")) | _range(ord("A"), ord("Z")) | _members("_") | _bit(_OTHER)
_CATEGORIES: dict[Any, int] = {
    sre.CATEGORY_DIGIT: _DIGIT,
    sre.CATEGORY_NOT_DIGIT: _ALL & ~_DIGIT,
    sre.CATEGORY_SPACE: _SPACE,
    sre.CATEGORY_NOT_SPACE: _ALL & ~_SPACE,
    sre.CATEGORY_WORD: _WORD,
    sre.CATEGORY_NOT_WORD: (_ALL & ~_WORD) | _bit(_OTHER),
}


def _in_set(parts: Iterable[tuple[Any, Any]]) -> int:
    chars, negate = 0, False
    for op, value in parts:
        if op is sre.NEGATE:
            negate = True
        elif op is sre.LITERAL:
            chars |= _bit(value)
        elif op is sre.RANGE:
            chars |= _range(*value)
        elif op is sre.CATEGORY:
            chars |= _CATEGORIES[value]
    # What lies beyond ASCII is one position: a negated set always holds some of it.
    return ((_ALL & ~chars) | _bit(_OTHER)) if negate else chars


def _starts_at_beginning(tree: Any) -> bool:
    return bool(tree) and tree[0][0] is sre.AT and tree[0][1] in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING)


def _paths(tree: Any) -> list[_Path]:
    """Every way through the expression as a flat sequence of steps."""
    paths: list[_Path] = [()]
    for op, value in tree:
        paths = [path + more for path in paths for more in _steps(op, value)]
        if len(paths) > _MAX_PATHS:
            raise RegexRefused("too many alternatives")
    return paths


def _steps(op: Any, value: Any) -> list[_Path]:
    if op is sre.LITERAL:
        return [(_Item(_bit(value), True, False, chr(value)),)]
    if op is sre.NOT_LITERAL:
        return [(_Item((_ALL & ~_bit(value)) | _bit(_OTHER), True, False),)]
    if op is sre.ANY:
        return [(_Item(_ALL & ~_bit(10), True, False),)]
    if op is sre.IN:
        return [(_Item(_in_set(value), True, False),)]
    if op is sre.AT or op in (sre.ASSERT, sre.ASSERT_NOT):
        return [_assertion(op, value)]
    if op is sre.BRANCH:
        return [path for branch in value[1] for path in _paths(branch)]
    if op is sre.SUBPATTERN:
        return _paths(value[3])
    if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        return _repeat(*value)
    raise RegexRefused(f"{str(op).lower()} is not allowed")


def _assertion(op: Any, value: Any) -> _Path:
    """`$` can fail after characters were taken, so it is a required step; the others are looked at in place."""
    if op is sre.AT and value in (sre.AT_END, sre.AT_END_STRING):
        return (_Item(_bit(10), True, False),)
    if op in (sre.ASSERT, sre.ASSERT_NOT) and any(item.endless for path in _paths(value[1]) for item in path):
        raise RegexRefused("an endless repeat inside a look-around")
    return ()


def _repeat(low: int, high: Any, body: Any) -> list[_Path]:
    inner = _paths(body)
    if high is sre.MAXREPEAT or high > _LONG_REPEAT:
        if any(item.endless for path in inner for item in path):
            raise RegexRefused("an endless repeat inside an endless repeat")
        chars = 0
        for path in inner:
            for item in path:
                chars |= item.chars
        first = inner if low else [()]
        return [(*path, _Item(chars, False, True)) for path in first]
    if low == high == 1:
        return inner
    if low == 0 and high == 1:
        return [(), *inner]
    if any(item.endless for path in inner for item in path):
        raise RegexRefused("an endless repeat inside a repeat")
    if len(inner) != 1 or len(inner[0]) != 1:
        raise RegexRefused("a counted repeat of more than one character: write it out")
    item = inner[0][0]
    return [(item,) * low + (_Item(item.chars, False, False),) * (high - low)]


def _refuse_slow(path: _Path, anchored: bool) -> None:
    """Two endless repeats that can trade characters across what lies between them, with something after them that
    may still fail, need quadratic time. A search that is not tied to the line's start is such a repeat itself."""
    steps = path if anchored else (_Item(_ALL, False, True), *path)
    for right, second in enumerate(steps):
        if not second.endless or not any(item.required for item in steps[right + 1 :]):
            continue
        if second.chars == _ALL & ~_bit(10) and all(
            item.chars == _bit(10) for item in steps[right + 1 :] if item.required
        ):
            continue  # `.*$` cannot fail on a single line
        for left, first in enumerate(steps[:right]):
            common = first.chars & second.chars
            if first.endless and common and all(i.chars & common for i in steps[left + 1 : right] if i.required):
                raise RegexRefused("two endless repeats can trade characters: the time would be quadratic")


def _literal_runs(path: _Path) -> list[str]:
    runs, current = [], ""
    for item in path:
        if item.literal and item.required and not item.endless:
            current += item.literal
        else:
            runs.append(current)
            current = ""
    return [*runs, current]
