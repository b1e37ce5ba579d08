"""What a run costs: cells times trials times what each cell's trials have taken so far."""

from __future__ import annotations

from collections.abc import Sequence

from stillruns.judge import experiment
from stillruns.model.cell_plan import CellPlan
from stillruns.model.verdict import TrialVerdict


class Pace:
    """Seconds by cell; a cell that has not run yet is taken to cost as much as the slowest that has."""

    def __init__(self, plans: Sequence[CellPlan]) -> None:
        self.plans = plans
        self.seconds: dict[str, list[float]] = {}
        self.told = 0

    def took(self, plan: CellPlan, seconds: float, verdicts: Sequence[TrialVerdict]) -> str:
        """Note one trial's time; returns a sentence about the cost, or nothing.

        It is said twice: after the first trial, when only that one is known, and once every cell has run.
        """
        self.seconds.setdefault(plan.id, []).append(seconds)
        counted = [p for p in self.plans if not p.is_reference]
        every = all(p.id in self.seconds for p in counted)
        left = experiment.trials_left(self.plans, verdicts)
        if self.told == 0 and left:
            self.told = 1
            cells = "1 cell" if len(counted) == 1 else f"{len(counted)} cells"
            return (
                f"{cells}, {left} trials to go; the first trial took {seconds:.1f} s, so expect about "
                f"{duration(left * seconds)} if they all take as long"
            )
        if self.told == 1 and every and left:
            self.told = 2
            return (
                f"every cell has run once: expect about {duration(self.left(verdicts) or 0.0)} for {left} more trials"
            )
        return ""

    def left(self, verdicts: Sequence[TrialVerdict]) -> float | None:
        """Seconds until all cells are decided, or None before any trial."""
        if not self.seconds:
            return None
        means = {cell: sum(took) / len(took) for cell, took in self.seconds.items()}
        slowest = max(means.values())
        return sum(experiment.trials_left([p], verdicts) * means.get(p.id, slowest) for p in self.plans)


def duration(seconds: float) -> str:
    """`1 s` (and for less), `40 s`, `12 min`, `3.5 h`, `2.1 days`."""
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{max(1.0, seconds):.0f} s"
