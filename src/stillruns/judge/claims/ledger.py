"""What evaluating hypotheses over the same cells has looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stillruns.judge.cells.contrast import Contrast
from stillruns.judge.claims.values import Basis, Cells
from stillruns.model.claim import RateTest
from stillruns.model.observed import ObservedCell

Key = tuple[str, Cells, Cells]
"""A comparison of two rates: the name of the rate, and the cells of both sides (that of the first cell first)."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One contrast that was looked at: its sides, what they were restricted to, and what came of it."""

    left: Cells
    right: Cells
    on: str
    seen: Contrast
    separate: tuple[str, ...]


@dataclass(slots=True)
class Ledger:
    """`adjusted` holds Holm's p of every exact test once all are known; before, the raw p decides. In `strict` mode a
    comparison counts only where its contrast is clean. `family` are the exact tests that an answer hangs on, `tests`
    all that were computed. `bounds` are the comparisons of a rate with a number, and what
    they came to: where further trials may change the answer. `used` are cells that some quantifier surely is about,
    `witnesses` those that made an `any` true; `shown` those whose trials the part that is evaluated looked at."""

    cells: Sequence[ObservedCell]
    adjusted: Mapping[Key, float] = field(default_factory=dict)
    strict: bool = True
    tests: dict[Key, RateTest] = field(default_factory=dict)
    family: set[Key] = field(default_factory=set)
    compared: dict[tuple[Cells, Cells], Compared] = field(default_factory=dict)
    bounds: dict[tuple[Basis, str, float], bool | None] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)
    witnesses: list[Cells] = field(default_factory=list)
    speeds: dict[str, int] = field(default_factory=dict)
    """How many more speeds a side needs before they show anything, by its name."""
    shown: set[int] = field(default_factory=set)
    steps: int = 0
