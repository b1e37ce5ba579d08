"""Redaction of a text: find what is private, put pseudonyms there, keep every line where it was."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from stillruns.redact import addresses, people, secrets
from stillruns.redact.redactor import TAG, Redactor
from stillruns.redact.rule import Rule

FIXED_RULES: tuple[Rule, ...] = (*secrets.RULES, *people.RULES, *addresses.RULES)
"""In order of precedence: where two overlap, the earlier one names the tag."""

_LINE = re.compile(r"[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")


@dataclass(frozen=True, slots=True)
class Span:
    """`text[start:end] == tag` in the redacted text, so that a span says where something is missing and nothing of
    how long it was. `rule` is the id of the rule that found it."""

    rule: str
    start: int
    end: int
    tag: str


@dataclass(frozen=True, slots=True)
class Redacted:
    """A redacted text has the lines of its original, in number and order; `spans` are in order of place."""

    text: str
    spans: tuple[Span, ...]


@dataclass(slots=True)
class _Find:
    start: int
    end: int
    rank: int
    rule: str
    kind: str


def redact(text: str, redactor: Redactor) -> Redacted:
    """Replace everything private by pseudonyms.

    Pure, and linear in the length of the text. Redacting a redacted text changes nothing: what touches a tag was
    judged when the tag was written. Decode bytes with `surrogateescape` to keep undecodable ones.
    """
    pieces: list[str] = []
    spans: list[Span] = []
    position = length = 0
    for find in _merged(sorted(_finds(text, redactor), key=lambda f: (f.start, -f.end, f.rank))):
        tag = redactor.tag(find.kind, text[find.start : find.end])
        kept = text[position : find.start]
        length += len(kept)
        pieces += (kept, tag)
        spans.append(Span(find.rule, length, length + len(tag), tag))
        length += len(tag)
        position = find.end
    pieces.append(text[position:])
    return Redacted("".join(pieces), tuple(spans))


def _finds(text: str, redactor: Redactor) -> Iterator[_Find]:
    """All finds of all rules, overlapping ones included."""
    tags = [found.span() for found in TAG.finditer(text)]
    for start, end in secrets.key_blocks(text):
        for line in _LINE.finditer(text, start, end):
            if not _touches(tags, line.start(), line.end()):
                yield _Find(line.start(), line.end(), 0, "private-key", "private-key")
    lowered = _lowered(text)
    for rank, rule in enumerate((*people.rules_of(redactor), *FIXED_RULES), start=1):
        for found in _candidates(rule, text, lowered):
            if _touches(tags, *found.span()):
                continue
            for group, kind in rule.parts:
                if found.start(group) < 0:
                    continue  # the other form of the value
                yield _Find(found.start(group), found.end(group), rank, rule.id, kind)


def _lowered(text: str) -> str:
    """Lower case with every character at its old place (one letter, U+0130, has a lower case of two)."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(c.lower() if c.isascii() else c for c in text)


def _accepted(rule: Rule, text: str, start: int, end: int) -> Iterator[re.Match[str]]:
    """Matches within a stretch of the text that are what they look like. One that is not hides no other that begins
    inside it: `token: token: s3cr3t...`."""
    while found := rule.pattern.search(text, start, end):
        if rule.accept is None or rule.accept(found):
            yield found
            start = max(found.end(), found.start() + 1)
        else:
            start = found.start() + 1


def _candidates(rule: Rule, text: str, lowered: str) -> Iterator[re.Match[str]]:
    """All matches of a rule, searched only in lines that contain one of its anchors: most lines have none, and
    finding a literal is far cheaper than starting a pattern at every letter."""
    if not rule.anchors:
        yield from _accepted(rule, text, 0, len(text))
        return
    places = {anchor: lowered.find(anchor) for anchor in rule.anchors}
    end = 0
    while True:
        for anchor, place in places.items():
            if -1 < place < end:
                places[anchor] = lowered.find(anchor, end)
        ahead = [place for place in places.values() if place >= 0]
        if not ahead:
            return
        first = min(ahead)
        start = max(text.rfind("\n", end, first) + 1, end)
        end = text.find("\n", first)
        end = len(text) if end < 0 else end
        yield from _accepted(rule, text, start, end)


def _touches(tags: list[tuple[int, int]], start: int, end: int) -> bool:
    """Whether a stretch overlaps a tag that is already there, or stands directly at one."""
    at = bisect_left(tags, (start, -1))
    return (at < len(tags) and tags[at][0] <= end) or (at > 0 and tags[at - 1][1] >= start)


def _merged(finds: list[_Find]) -> Iterator[_Find]:
    """Overlapping finds become one: nothing of either shows, and the one of the earlier rule names it."""
    current: _Find | None = None
    for find in finds:
        if current is None or find.start >= current.end:
            if current is not None:
                yield current
            current = find
            continue
        current.end = max(current.end, find.end)
        if find.rank < current.rank:
            current.rank, current.rule, current.kind = find.rank, find.rule, find.kind
    if current is not None:
        yield current
