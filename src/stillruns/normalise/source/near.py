"""Names that look like one that was found nowhere."""

from __future__ import annotations

import difflib
import heapq
import re
from collections.abc import Iterable

from stillruns.model.trace import SourceFile

_QUOTED = re.compile(rb"[\"'`](-{0,2}[A-Za-z_][\w-]{2,48})[\"'`,:]")
_UPPER = re.compile(rb"[\"'`(]([A-Z][A-Z0-9]*_[A-Z0-9_]{2,48})[\"'`) ]")
_MEMBER = re.compile(rb"[ .*>]([a-z]+_[a-z0-9_]{2,40})(?: *= | *;|,$)", re.M)
_BIGGEST = 1 << 19
_CANDIDATES = 300


def near(option: str, files: Iterable[SourceFile], limit: int = 8) -> tuple[str, ...]:
    """Spellings in the trees that are close to `option`: quoted words, JSON keys, variables and members."""
    patterns = (_UPPER,) if option.isupper() else (_QUOTED, _MEMBER)
    wanted = _fold(option)
    folded: dict[str, set[str]] = {}
    seen: set[bytes] = set()
    for item in files:
        if len(item.data) > _BIGGEST:
            continue
        for pattern in patterns:
            fresh = set(pattern.findall(item.data)) - seen
            seen |= fresh
            for word in fresh:
                text = word.decode("ascii", "ignore")
                key = _fold(text)
                if abs(len(key) - len(wanted)) <= max(3, len(wanted) // 3):
                    folded.setdefault(key, set()).add(text)
    pairs = _pairs(wanted)
    likely = heapq.nlargest(_CANDIDATES, folded, key=lambda key: (len(pairs & _pairs(key)) / (len(key) + 1), key))
    close = difflib.get_close_matches(wanted, likely, n=limit, cutoff=0.72)
    out = [*sorted(folded.get(wanted, ())), *(w for key in close for w in sorted(folded[key]))]
    return tuple(dict.fromkeys(w for w in out if w != option))[:limit]


def _pairs(word: str) -> set[str]:
    return {word[n : n + 2] for n in range(len(word) - 1)}


def _fold(word: str) -> str:
    return word.lstrip("-").replace("-", "_").lower()
