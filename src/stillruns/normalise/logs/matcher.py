"""Rules and patterns of the catalogue, compiled for matching many lines."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Generic, Protocol, TypeVar

from stillruns.model.evidence import Ref
from stillruns.model.pattern import CrashPattern, GrammarRule
from stillruns.model.phase import Phase
from stillruns.model.server_facts import Trouble


class _Entry(Protocol):
    @property
    def regex(self) -> str:
        """What a line must match."""

    @property
    def anchor(self) -> str:
        """A literal in every match."""


E = TypeVar("E", bound=_Entry)

_MEMO = 4096
"""How many distinct line texts are remembered as matching nothing: floods repeat themselves."""


_Group = tuple[str, list[tuple[int, E]]]

_REWRITTEN = (b"\x1b", b"\x00", b"\r", b"INFO [", b"WARN [", b"ERR [", b"{")
"""Bytes whose lines are rewritten before they are matched: in such a log an anchor may only appear afterwards."""


@lru_cache(maxsize=4096)
def _compiled(regex: str) -> re.Pattern[str]:
    """Compiled when its anchor is first met: most logs meet few."""
    return re.compile(regex)


class Table(Generic[E]):
    """Entries by anchor: a line is tried only against the entries whose anchor it contains."""

    def __init__(self, entries: tuple[E, ...]) -> None:
        groups: dict[str, list[tuple[int, E]]] = {}
        for order, entry in enumerate(entries):
            groups.setdefault(entry.anchor, []).append((order, entry))
        self._groups: list[_Group[E]] = list(groups.items())

    def for_log(self, data: bytes) -> Matcher[E]:
        """A matcher for this log: anchors that occur nowhere in it are not looked for in every line."""
        if any(sign in data for sign in _REWRITTEN):
            return Matcher(self._groups)
        return Matcher([group for group in self._groups if group[0].encode() in data])

    def matcher(self) -> Matcher[E]:
        """A matcher for a stream, whose whole is not known beforehand."""
        return Matcher(self._groups)

    def matches(self, text: str) -> list[tuple[E, re.Match[str]]]:
        """Every entry that matches one line, in catalogue order."""
        return Matcher(self._groups).matches(text)


class Matcher(Generic[E]):
    """The entries that one log may need, and a memory of the texts that matched nothing."""

    def __init__(self, groups: list[_Group[E]]) -> None:
        self._groups = groups
        self._nothing: OrderedDict[str, None] = OrderedDict()

    def matches(self, text: str) -> list[tuple[E, re.Match[str]]]:
        """Every entry that matches, in catalogue order."""
        if text in self._nothing:
            return []
        found = []
        for anchor, group in self._groups:
            if anchor in text:
                for order, entry in group:
                    match = _compiled(entry.regex).search(text)
                    if match:
                        found.append((order, entry, match))
        if not found:
            self._nothing[text] = None
            if len(self._nothing) > _MEMO:
                self._nothing.popitem(last=False)
            return []
        if len(found) > 1:
            found.sort(key=lambda item: item[0])
        return [(entry, match) for _, entry, match in found]


class _Tables(Generic[E]):
    """Tables by the identity of their tuple of entries: a journal of hundreds of units has a reader for each, and
    hashing the entries would cost more than reading the unit's lines."""

    def __init__(self) -> None:
        self._made: OrderedDict[tuple[int, object], tuple[tuple[E, ...], Table[E]]] = OrderedDict()

    def of(self, entries: tuple[E, ...], part: Callable[[tuple[E, ...]], Iterable[E]]) -> Table[E]:
        """The table of `part` of these entries. A tuple that a table was made of is kept alive with it, so that its
        identity is given to no other."""
        key = (id(entries), part)
        if key not in self._made:
            self._made[key] = (entries, Table(tuple(part(entries))))
            if len(self._made) > _KEPT:
                self._made.popitem(last=False)
        return self._made[key][1]


_KEPT = 16
_rule_tables: _Tables[GrammarRule] = _Tables()
_pattern_tables: _Tables[CrashPattern] = _Tables()


def whole(rules: tuple[GrammarRule, ...]) -> tuple[GrammarRule, ...]:
    """All of a grammar."""
    return rules


def rule_table(
    rules: tuple[GrammarRule, ...], part: Callable[[tuple[GrammarRule, ...]], Iterable[GrammarRule]] = whole
) -> Table[GrammarRule]:
    """The rules, or the part of them that a named function chooses; kept per process."""
    return _rule_tables.of(rules, part)


def pattern_table(patterns: tuple[CrashPattern, ...]) -> Table[CrashPattern]:
    """The patterns, the most telling first; kept per process."""
    return _pattern_tables.of(patterns, _by_rank)


def _by_rank(patterns: tuple[CrashPattern, ...]) -> list[CrashPattern]:
    return sorted(patterns, key=lambda p: (-p.rank, p.id))


def best_pattern(
    table: Table[CrashPattern] | Matcher[CrashPattern], text: str
) -> tuple[CrashPattern, re.Match[str]] | None:
    """The most telling pattern that explains the line, or None; `harmless_when` excepts lines."""
    for pattern, match in table.matches(text):
        if not pattern.harmless_when or not re.search(pattern.harmless_when, text):
            return pattern, match
    return None


def trouble(pattern: CrashPattern, match: re.Match[str], ref: Ref, text: str, phase: Phase, at: str = "") -> Trouble:
    """A line that a pattern explains; `phase` is what the lines before it told, `at` the time of the line."""
    return Trouble(
        pattern=pattern.id,
        outcome=pattern.outcome,
        components=pattern.components,
        rank=pattern.rank,
        ref=ref,
        text=text,
        phase=pattern.place(phase),
        device=match.groupdict().get("device"),
        at=at,
    )
