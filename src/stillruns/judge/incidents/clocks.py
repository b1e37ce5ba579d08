"""Times as logs write them, and how far two of them lie apart.

A journal's short form has no year and no zone, a server's own lines have both, the kernel's ring has seconds since
the start. Two times are compared only where both tell enough: instants with zones; else month, day and clock as they
are written on the host; else the same unit of seconds.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import datetime

from stillruns.model.expression import Expression

_SHORT = Expression(
    r"(?:(?P<month>[^\W\d_]{2,12})\.? {1,2}|(?P<number>\d{1,2})(?:月|월|\.) {0,2})(?P<day>\d{1,2})(?:日|일)?"
    r" (?P<clock>\d\d:\d\d:\d\d(?:\.\d{1,9})?)"
)
_RING = Expression(r"[A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2}) {1,2}(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d) \d{4}")
_NAMES = (
    ("jan", "ene", "gen"),
    ("feb", "fev"),
    ("mar", "mrz"),
    ("apr", "avr", "abr"),
    ("mai", "may", "mag", "mei", "maj"),
    ("juin", "jun", "giu"),
    ("juil", "jul", "lug"),
    ("aug", "aou", "ago"),
    ("sep", "set"),
    ("oct", "okt", "ott", "out"),
    ("nov",),
    ("dec", "dez", "dic"),
)
"""Beginnings of the months' names without accents: English, German, French, Spanish, Portuguese, Italian, Dutch,
Polish and the Nordic languages, as far as they differ in nothing but these."""
_BEFORE = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
"""Days of a common year before each month."""
_EPOCH = 1e12
"""`journalctl -o json` counts microseconds since 1970: a greater number is one of those."""


@dataclass(frozen=True, slots=True)
class _Moment:
    instant: float | None = None
    wall: float | None = None
    ring: float | None = None


def apart(one: str, other: str) -> float | None:
    """Seconds between two written times; None where they cannot be compared."""
    a, b = _read(one), _read(other)
    for x, y in ((a.instant, b.instant), (a.wall, b.wall), (a.ring, b.ring)):
        if x is not None and y is not None:
            return abs(x - y)
    return None


def _read(at: str) -> _Moment:
    text = at.strip()
    found = _SHORT.match(text) or _RING.match(text)
    if found:
        groups = found.groupdict()
        month = int(groups["number"]) if groups.get("number") else _month(groups["month"] or "")
        return _Moment(wall=_wall(month, int(found["day"]), found["clock"])) if month else _Moment()
    try:
        number = float(text)
    except ValueError:
        return _iso(text)
    return _Moment(instant=number / 1e6) if number > _EPOCH else _Moment(ring=number)


def _iso(text: str) -> _Moment:
    text = re.sub(r"([+-]\d\d)(\d\d)$", r"\1:\2", text.replace(",", ".").replace("Z", "+00:00"))
    text = re.sub(r"\.(\d{1,9})", lambda m: "." + m[1][:6].ljust(6, "0"), text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return _Moment()
    seconds = moment.hour * 3600 + moment.minute * 60 + moment.second + moment.microsecond / 1e6
    wall = (_BEFORE[moment.month - 1] + moment.day) * 86400.0 + seconds
    if moment.tzinfo is None:
        return _Moment(wall=wall)
    # UTC is often a container's, and the host's journal beside it is written in the host's zone
    return _Moment(moment.timestamp(), wall if moment.utcoffset() else None)


def _month(name: str) -> int | None:
    plain = "".join(c for c in unicodedata.normalize("NFD", name.lower()) if not unicodedata.combining(c))
    for number, beginnings in enumerate(_NAMES, 1):
        if plain.startswith(beginnings):
            return number
    return None


def _wall(month: int, day: int, clock: str) -> float:
    hours, minutes, seconds = clock.split(":")
    return (_BEFORE[(month - 1) % 12] + day) * 86400.0 + int(hours) * 3600 + int(minutes) * 60 + float(seconds)
