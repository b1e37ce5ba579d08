"""What a run costs: cells times trials times what each cell's trials have taken so far.

Before every cell has run once nothing is foretold: the reference runs first and on the CPU, and says nothing about a
card, and a cell that crashes in load costs less than one that answers.
"""

from __future__ import annotations

from collections.abc import Sequence

from stillruns.judge.cells import experiment
from stillruns.model.cell_plan import CellPlan
from stillruns.model.verdict import TrialVerdict


class Pace:
    """Seconds by cell, references apart: each of them runs once."""

    def __init__(self, plans: Sequence[CellPlan]) -> None:
        self.plans = plans
        self.seconds: dict[str, list[float]] = {}
        self.told = False

    def before(self, verdicts: Sequence[TrialVerdict]) -> str:
        """What is known before the first trial, or nothing where none is left."""
        left = experiment.trials_left(self.plans, verdicts)
        if not left:
            return ""
        counted = sum(not p.is_reference for p in self.plans)
        cells = "1 cell" if counted == 1 else f"{counted} cells"
        most = "at most " if any(p.stop.decide is not None for p in self.plans) else ""
        return f"{cells}, {most}{left} trials to go; what they cost is not known until each cell has run once"

    def took(self, plan: CellPlan, seconds: float, verdicts: Sequence[TrialVerdict]) -> str:
        """Note one trial's time; returns a sentence about the cost once every cell has run, or nothing."""
        self.seconds.setdefault(plan.id, []).append(seconds)
        cost = None if self.told else self.left(verdicts)
        left = experiment.trials_left(self.plans, verdicts)
        if not cost or not left:
            return ""
        self.told = True
        most = "at most " if any(p.stop.decide is not None for p in self.plans) else ""
        return f"every cell has run once: expect {most}about {duration(cost)} for {left} more trials"

    def left(self, verdicts: Sequence[TrialVerdict]) -> float | None:
        """Seconds until all cells are decided at what each one's trials took; None while an open cell has not run."""
        cost = 0.0
        for plan in self.plans:
            left = experiment.trials_left([plan], verdicts)
            took = self.seconds.get(plan.id, ())
            if left and not took:
                return None
            cost += left * sum(took) / len(took) if took else 0.0
        return cost


def duration(seconds: float) -> str:
    """`1 s` (and for less), `40 s`, `12 min`, `3.5 h`, `2.1 days`."""
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{max(1.0, seconds):.0f} s"
