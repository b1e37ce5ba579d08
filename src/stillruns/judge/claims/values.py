"""What expressions over cells come to: three-valued truth, numbers as intervals, texts, and why something is open.

Kleene's logic: what one untested cell would decide stays open, what the others decide already does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

Cells = frozenset[int]
"""Indices of cells."""

NOBODY: Cells = frozenset()


class GapKind(str, Enum):
    """Why something is not decided."""

    UNTESTED = "untested"
    """No applied trial."""
    UNDECIDED = "undecided"
    """Too few trials."""
    UNMEASURED = "unmeasured"
    """Tested, but this was not seen or not recorded."""
    CONFOUNDED = "confounded"
    """The sides differ in more than one factor."""


@dataclass(frozen=True, slots=True)
class Gap:
    """One thing that keeps a truth open, as one sentence. `cells` are those that it is about."""

    kind: GapKind
    text: str
    cells: Cells = NOBODY


Gaps = frozenset[Gap]
NO_GAPS: Gaps = frozenset()


@dataclass(frozen=True, slots=True)
class Truth:
    """True, False or open; an open one has gaps."""

    value: bool | None
    gaps: Gaps = NO_GAPS


@dataclass(frozen=True, slots=True)
class Basis:
    """The counts behind a rate. `what` is its name (`rate`, `crash_rate`), `bound` the bound of it that was asked for
    (`low`, `high`, or empty for the rate itself)."""

    what: str
    failures: int
    n: int
    fixed: bool
    cells: Cells
    bound: str = ""
    blocks: tuple[tuple[str, int, int], ...] = ()
    """(boot or process, failures, trials), where its trials come from several that hold several."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number known to lie between `low` and `high`. `sides` are the groups of cells whose trials it was measured
    on, in the order of the expression."""

    low: float
    high: float
    gaps: Gaps = NO_GAPS
    sides: tuple[Cells, ...] = ()
    basis: Basis | None = None
    parts: tuple[float, float] | None = None
    """`low` and `high` of a measured interval, where asking for its bounds makes sense."""
    speed: bool = False
    """A speed, or made of some: a difference of two counts only beyond what trials of one condition differ by."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text, under all names that it goes by; None where it is not known. `number` is its meaning as a number, for
    things like a number of layers that can also be `all`."""

    names: frozenset[str] | None
    number: float | None = None
    flag: bool | None = None
    gaps: Gaps = NO_GAPS
    sides: tuple[Cells, ...] = ()


@dataclass(frozen=True, slots=True)
class NameCounts:
    """How often each name was seen among applied trials. `hidden` is why there may be names that were not seen."""

    counts: dict[str, int]
    gaps: Gaps = NO_GAPS
    sides: tuple[Cells, ...] = ()
    hidden: Gaps = NO_GAPS


@dataclass(frozen=True, slots=True)
class CellGroup:
    """One cell, or a pool of them. `maybe` are cells that might belong to it too, `gaps` why. `chosen` tells that its
    cells were picked by what their trials showed: their rate is no test of it."""

    cells: Cells
    gaps: Gaps = NO_GAPS
    maybe: Cells = NOBODY
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of constants."""

    items: tuple[Text | Number, ...] = field(default_factory=tuple)


Value = Truth | Number | Text | NameCounts | CellGroup | Listed

TRUE, FALSE = Truth(True), Truth(False)


def both(truths: list[Truth]) -> Truth:
    """`and` over all of them."""
    if any(t.value is False for t in truths):
        return FALSE
    return _open(truths) or TRUE


def either(truths: list[Truth]) -> Truth:
    """`or` over all of them."""
    if any(t.value is True for t in truths):
        return TRUE
    return _open(truths) or FALSE


def negated(truth: Truth) -> Truth:
    """`not`."""
    return Truth(None if truth.value is None else not truth.value, truth.gaps)


def _open(truths: list[Truth]) -> Truth | None:
    undecided = [t for t in truths if t.value is None]
    return Truth(None, frozenset().union(*(t.gaps for t in undecided))) if undecided else None


def nothing(*gaps: Gap, sides: tuple[Cells, ...] = ()) -> Number:
    """A number about which nothing is known."""
    return Number(-math.inf, math.inf, frozenset(gaps), sides)


def point(value: float, sides: tuple[Cells, ...] = ()) -> Number:
    """A number that is known."""
    return Number(value, value, NO_GAPS, sides)


def combine(op: str, a: Number, b: Number) -> Number:
    """`+ - * /` on intervals; a division by something that may be zero is open."""
    gaps, sides, speed = a.gaps | b.gaps, (*a.sides, *b.sides), a.speed or b.speed
    if op == "-":
        a, b, op = a, Number(-b.high, -b.low), "+"
    if op == "+":
        low, high = a.low + b.low, a.high + b.high
    else:
        if op == "/":
            if b.low <= 0 <= b.high:
                return Number(-math.inf, math.inf, gaps or _zero(b), sides, speed=speed)
            b = Number(1 / b.high, 1 / b.low)
        ends = [x * y if x and y else 0.0 for x in (a.low, a.high) for y in (b.low, b.high)]
        low, high = min(ends), max(ends)
    if math.isnan(low) or math.isnan(high):
        low, high = -math.inf, math.inf
    return Number(low, high, gaps, sides, speed=speed)


def _zero(divisor: Number) -> Gaps:
    cells = frozenset().union(*divisor.sides) if divisor.sides else NOBODY
    return frozenset({Gap(GapKind.UNMEASURED, "a divisor may be zero", cells)})


def order(op: str, a: Number, b: Number) -> bool | None:
    """Whether `a op b` holds for all, for none, or for some of the values that they may have (None)."""
    if op in (">", ">="):
        a, b, op = b, a, {">": "<", ">=": "<="}[op]
    if op == "<":
        return True if a.high < b.low else False if a.low >= b.high else None
    if op == "<=":
        return True if a.high <= b.low else False if a.low > b.high else None
    equal: bool | None = None
    if a.low == a.high == b.low == b.high:
        equal = True
    elif a.high < b.low or b.high < a.low:
        equal = False
    return equal if op == "==" or equal is None else not equal
