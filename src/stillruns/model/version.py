"""Comparing versions: the one place that does it."""

from __future__ import annotations

import re

Version = tuple[int, ...]

_BUILD = re.compile(r"b(\d+)\Z")
_NUMBERS = re.compile(r"v?(\d+(?:\.\d+)*)(?:[-+~]?(?:rc|alpha|beta)\.?(\d+))?")


def parse(text: str) -> Version | None:
    """`v0.12.4` -> (0, 12, 4, 1), `0.33.0-rc2` -> (0, 33, 0, 0, 2), `b10355` -> (10355, 1); None for another form.

    A release sorts above its candidates. Distribution suffixes (`6.4.4-4`, `5.5.1+dfsg-7`) are left out. Numbers are
    filled to three places, so that 6.4 and 6.4.0 are equal.
    """
    text = text.strip()
    build = _BUILD.match(text)
    if build:
        return (int(build[1]), 1)
    found = _NUMBERS.match(text)
    if not found or found[1].count(".") > 8:
        return None
    numbers = [int(part[:12]) for part in found[1].split(".")]
    numbers += [0] * (3 - len(numbers))
    return (*numbers, 0, int(found[2])) if found[2] else (*numbers, 1)


def between(version: str, since: str, until: str) -> bool | None:
    """Whether since <= version <= until; an empty border is open; None when one of them cannot be compared."""
    mine = parse(version)
    low = parse(since) if since else None
    high = parse(until) if until else None
    if mine is None or (since and low is None) or (until and high is None):
        return None
    return (low is None or low <= mine) and (high is None or mine <= high)


def older(version: str, than: str) -> bool | None:
    """version < than, or None when they cannot be compared."""
    mine, other = parse(version), parse(than)
    return None if mine is None or other is None else mine < other
