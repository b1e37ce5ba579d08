"""Versions of runtimes as numbers that can be compared: `0.17.4`, `v0.12.11`, `b10068`, `build 10068 (571d0d5)`.

A text that names several (`0.17.0 to 0.17.4`, `0.17.6 or 0.17.7`) is a range. What has no number in it is no version.
"""

from __future__ import annotations

import re

Version = tuple[int, ...]

_NUMBERS = re.compile(r"(?<![\w.])(?:v|b|build )?(\d+(?:\.\d+)*)")


def read(text: str) -> tuple[Version, Version] | None:
    """The lowest and the highest version that a text names; None when it names none."""
    found = [tuple(int(part) for part in match.split(".")) for match in _NUMBERS.findall(text.split(" (", 1)[0])]
    return (min(found), max(found)) if found else None


def before(text: str, border: str) -> bool | None:
    """Whether a version lies before `border`; None when that is not known (no version, or a range around it)."""
    seen, limit = read(text), read(border)
    if seen is None or limit is None:
        return None
    low, high = (_padded(v, limit[0]) for v in seen)
    if high < _padded(limit[0], high):
        return True
    return False if low >= _padded(limit[0], low) else None


def _padded(version: Version, like: Version) -> Version:
    return version + (0,) * (len(like) - len(version))
