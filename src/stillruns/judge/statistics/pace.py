"""Whether a run's trials became faster or slower while it went on, whatever their cell.

Each speed stands beside its cell's own mean (as logarithms), all of them in the order of their trials. The run is cut
into ten parts of as many trials, since what happens to a host or a card lasts for more than one of them, and the
means of the parts are tested for a trend (Mann-Kendall, exact: how often so many pairs stand in one order when any
order of the parts is as likely). How large it is says the median of the slopes of all pairs of parts (Theil-Sen).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, pairwise
from statistics import fmean, median

from stillruns.model.observed import ObservedCell

PARTS = 10
LEAST = 3
"""Trials that a part needs for a mean; and speeds that a cell needs."""
CHANCE = 0.01
"""How often a steady run is called none."""
NOTICED = 0.1
"""A change below this is not worth a sentence, however certain."""


def changed(cells: Sequence[ObservedCell]) -> str:
    """One sentence when the speeds of a run's passing trials fell or rose while it went on, else nothing; nothing,
    too, below thirty trials. Says whether the CPU's own cells did so too, which no card can do to them."""
    change = _trend(cells)
    if change is None or abs(change) < NOTICED:
        return ""
    alone = _trend([cell for cell in cells if cell.layers == "none"])
    host = (
        "; so did the CPU's own cells, which no card can do to them"
        if alone is not None and alone * change > 0
        else ""
    )
    return (
        f"speeds {_word(change)} while the run went on, each trial beside the mean of its cell{host}: this widens "
        "every interval, and cells that were not interleaved cannot be compared"
    )


def _word(change: float) -> str:
    return f"{'fell' if change < 0 else 'rose'} by {100 * abs(change):.0f} %"


def _trend(cells: Sequence[ObservedCell]) -> float | None:
    """The change from the first part to the last as a ratio less 1; None where there is no trend, or too little."""
    found: list[tuple[float, float]] = []
    for cell in cells:
        logs = [
            (trial.circumstances.order, math.log(trial.tokens_per_second))
            for trial in cell.applied
            if trial.passed and trial.tokens_per_second and trial.circumstances.order is not None
        ]
        if len(logs) >= LEAST:
            own = fmean(log for _, log in logs)
            found += [(order, log - own) for order, log in logs]
    if len(found) < PARTS * LEAST:
        return None
    beside = [log for _, log in sorted(found)]
    cuts = [len(beside) * part // PARTS for part in range(PARTS + 1)]
    parts = [fmean(beside[a:b]) for a, b in pairwise(cuts)]
    if chance(parts) > CHANCE:
        return None
    steep = median((b - a) / (j - i) for (i, a), (j, b) in combinations(enumerate(parts), 2))
    return math.expm1(steep * (PARTS - 1))


def chance(values: Sequence[float]) -> float:
    """How often a random order has its pairs at least as one-sided as these values, either way (two-sided p)."""
    n = len(values)
    falling = sum(a > b for a, b in combinations(values, 2))
    rising = sum(a < b for a, b in combinations(values, 2))
    counts = [1]
    for length in range(2, n + 1):  # how many orders of `length` values have so many falling pairs
        most = len(counts) + length - 1
        counts = [sum(counts[max(0, k - length + 1) : k + 1]) for k in range(most)]
    fewest = min(falling, rising)
    return min(1.0, 2 * sum(counts[: fewest + 1]) / math.factorial(n)) if falling + rising else 1.0
