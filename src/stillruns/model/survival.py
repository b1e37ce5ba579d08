"""How long servers live: time to failure, censored where a run ended healthy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """At `at` (tokens or seconds) `died` of `at_risk` runs ended by a failure; `survival` is the share that is left
    after it by Kaplan and Meier's estimate."""

    at: float
    at_risk: int
    died: int
    survival: float


@dataclass(frozen=True, slots=True)
class Survival:
    """The curve of one cell. `unit` is `tokens` or `seconds`; `censored` runs ended healthy, the longest at
    `longest`: nothing is known beyond it."""

    cell: str
    unit: str
    runs: int
    deaths: int
    censored: int
    longest: float
    curve: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class LogRank:
    """Two cells' curves compared: chi-squared with one degree of freedom, and its p (an approximation that wants some
    ten deaths)."""

    left: str
    right: str
    chi_squared: float
    p: float
    deaths: int
    unit: str = "tokens"
