"""A failure rate with its interval."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """Failures out of `n` applied trials; `low` and `high` bound the true rate at `level`, two-sided.

    `method` is `fixed-n` (Clopper-Pearson) or `sequential` (confidence sequence).
    """

    failures: int
    n: int
    low: float
    high: float
    level: float = 0.95
    method: str = "fixed-n"
