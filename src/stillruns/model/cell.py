"""A cell of the matrix: all trials of one condition, counted."""

from __future__ import annotations

from dataclasses import dataclass, field

from stillruns.model.agreement import OutputVerdict
from stillruns.model.condition import Layers
from stillruns.model.placement import Placement
from stillruns.model.rate import Rate


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens per second of evaluation time over the passing trials: median, and the range from the slowest to the
    fastest trial (`low`, `high`); the interval of the median is `judge.statistics.throughput`'s."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Cell:
    """DESIGN's `run --json` cell. `trials` = applied + void + unknown; `interrupted` is apart; `rate.n` = applied;
    `outcomes` and `phases` count applied trials only (`phases` the phases of failures)."""

    backend: str
    gpu_layers: Layers
    placement: Placement | None
    axes: dict[str, str | int | float | bool]
    trials: int
    applied: int
    void: int
    unknown: int
    failed_unknown: int
    interrupted: int
    passed: int
    outcomes: dict[str, int]
    phases: dict[str, int]
    rate: Rate | None
    tokens_per_second: Speed | None
    output: OutputVerdict | None
    note: str
    unverified: dict[str, int] = field(default_factory=dict)
    shown: str = ""
    """What the sequential test has shown, in one sentence; empty where the number of trials was fixed."""
