"""A failure rate with its interval."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """Failures out of `n` applied trials; `low` and `high` bound the true rate at `level`, two-sided.

    `method` is `fixed-n` (Clopper-Pearson) or `sequential` (confidence sequence), with `, by block` where the trials
    come from several boots or warm servers and whole ones were drawn anew.
    """

    failures: int
    n: int
    low: float
    high: float
    level: float = 0.95
    method: str = "fixed-n"
