"""A plan for a matrix too large to run whole: few rows in which every pair of values of every two axes occurs.

Most faults that need a condition need one or two (Kuhn, Wallace and Gallo, IEEE TSE 30, 2004). Greedy and the same
each time: each row starts from the first pair that is not covered, and takes for every other axis the value that
covers most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

LARGEST_WHOLE = 64
"""Combinations of one backend that are run whole."""

Pair = tuple[int, int, int, int]
"""(axis, value, axis, value), by their places."""


def size(axes: Sequence[Sequence[object]]) -> int:
    """How many combinations the axes have."""
    return math.prod(len(values) for values in axes)


def pairwise(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Rows of value places, one for each axis with so many values, that cover every pair. An axis has a value."""
    if len(sizes) < 2:
        return [(value,) for value in range(sizes[0])] if sizes else [()]
    open_pairs: dict[Pair, None] = dict.fromkeys(
        (a, x, b, y) for a, b in combinations(range(len(sizes)), 2) for x in range(sizes[a]) for y in range(sizes[b])
    )
    used = [[0] * n for n in sizes]
    rows = []
    while open_pairs:
        a, x, b, y = next(iter(open_pairs))
        row: dict[int, int] = {a: x, b: y}
        for axis in range(len(sizes)):
            if axis not in row:
                row[axis] = _best(row, axis, used[axis], open_pairs)
        for axis, value in row.items():
            used[axis][value] += 1
        for a, b in combinations(range(len(sizes)), 2):
            open_pairs.pop((a, row[a], b, row[b]), None)
        rows.append(tuple(row[axis] for axis in range(len(sizes))))
    return rows


def _best(row: dict[int, int], axis: int, used: Sequence[int], open_pairs: dict[Pair, None]) -> int:
    """The value that covers most, of those the least used, of those the first."""
    ranked = [(-_gain(row, axis, value, open_pairs), times, value) for value, times in enumerate(used)]
    return min(ranked)[2]


def _gain(row: dict[int, int], axis: int, value: int, open_pairs: dict[Pair, None]) -> int:
    """How many open pairs a value of one more axis would cover."""
    return sum(
        ((other, theirs, axis, value) if other < axis else (axis, value, other, theirs)) in open_pairs
        for other, theirs in row.items()
    )
