"""From regular expressions to literals: of each way to match, the longest text that must be there.

A line that holds none of an expression's literals cannot match it, whatever the engine. The prefilter looks for all
of them at once.
"""

from __future__ import annotations

from functools import lru_cache

from stillruns.catalogue.regexes import literal_runs

SHORTEST = 4
"""A shorter literal would let most lines through; then the entry's anchor is taken."""


@lru_cache(maxsize=2048)
def of_regex(regex: str, anchor: str) -> tuple[str, ...]:
    """For each path of `regex` its longest literal; the anchor where a path has none that is long enough."""
    found = []
    for runs in literal_runs(regex):
        best = max(runs, key=len, default="")
        found.append(best if len(best) >= SHORTEST or len(best) >= len(anchor) else anchor)
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=8)
def smallest(literals: tuple[str, ...]) -> tuple[str, ...]:
    """The set without those that contain another one: finding the shorter is enough."""
    kept: list[str] = []
    for literal in sorted(set(literals), key=lambda text: (len(text), text)):
        if literal and not any(short in literal for short in kept):
            kept.append(literal)
    return tuple(kept)
