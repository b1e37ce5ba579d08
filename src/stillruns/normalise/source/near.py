"""Names that look like one that was found nowhere."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from stillruns.model.trace import SourceFile

_QUOTED = re.compile(rb"[\"'`](-{0,2}[A-Za-z][\w-]{2,48})[\"'`]")
_TAG = re.compile(rb"json:\\?\"([a-z][\w]{2,40})")
_VARIABLE = re.compile(rb"\b([A-Z][A-Z0-9]*_[A-Z0-9_]{2,48})\b")
_MEMBER = re.compile(rb"\b([a-z]+_[a-z0-9_]{2,40})\b\s*[;=]")


def near(option: str, files: Iterable[SourceFile], limit: int = 8) -> tuple[str, ...]:
    """Spellings in the trees that are close to `option`: quoted words, JSON keys, variables and members."""
    words: set[str] = set()
    upper = option.isupper()
    for item in files:
        patterns = (_VARIABLE,) if upper else (_QUOTED, _TAG, _MEMBER)
        for pattern in patterns:
            words.update(w.decode("ascii", "ignore") for w in pattern.findall(item.data))
    folded: dict[str, list[str]] = {}
    for word in words:
        folded.setdefault(_fold(word), []).append(word)
    same = sorted(folded.get(_fold(option), []))
    close = difflib.get_close_matches(_fold(option), list(folded), n=limit, cutoff=0.72)
    out = [*same, *(w for key in close for w in sorted(folded[key]))]
    return tuple(dict.fromkeys(w for w in out if w != option))[:limit]


def _fold(word: str) -> str:
    return word.lstrip("-").replace("-", "_").lower()
