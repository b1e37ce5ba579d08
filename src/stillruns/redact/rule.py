"""The form of one redaction rule."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from stillruns.redact.redactor import TAG_SOURCE

Accept = Callable[[re.Match[str]], bool]

PLAIN = rf"<(?!{TAG_SOURCE[1:]})"
"""A `<` that does not begin a tag of ours: rules whose value may hold any character use it, so that a second
redaction finds nothing in what the first one wrote."""


@dataclass(frozen=True, slots=True)
class Rule:
    """`parts` maps a group of `pattern` to the kind of its tag; only these groups are replaced, where they took part.

    `anchors` are lower-case literals, one of which every match contains: only lines with one of them are searched.
    Without anchors the whole text is.
    `accept` looks at a match and says whether it is what it looks like; it reads at most a bounded stretch around it.
    A pattern never matches across a line feed, and its work per start position is bounded.
    """

    id: str
    pattern: re.Pattern[str]
    parts: tuple[tuple[str, str], ...]
    anchors: tuple[str, ...]
    accept: Accept | None = None


def rule(
    name: str, pattern: str, kind: str, anchors: tuple[str, ...], accept: Accept | None = None, flags: int = 0
) -> Rule:
    """A rule with one replaced group, called `value`."""
    return Rule(name, re.compile(pattern, flags), (("value", kind),), anchors, accept)
