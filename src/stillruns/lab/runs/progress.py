"""What a job tells while it runs; the CLI decides how it looks."""

from __future__ import annotations

from typing import Protocol

from stillruns.model.cell_plan import CellPlan
from stillruns.model.verdict import TrialVerdict


class Progress(Protocol):
    """Called from the thread that runs the job; nothing here may fail the job."""

    def note(self, text: str) -> None:
        """One sentence that a person should see."""

    def started(self, plan: CellPlan, done: int, total: int, seconds_left: float | None) -> None:
        """A trial begins; `done` of `total` trials are over, `seconds_left` is an estimate or None."""

    def ended(self, plan: CellPlan, verdict: TrialVerdict) -> None:
        """A trial is over and judged."""


class Silent:
    """Tells nothing: for tests and for `replay`."""

    def note(self, text: str) -> None:
        """Nothing."""

    def started(self, plan: CellPlan, done: int, total: int, seconds_left: float | None) -> None:
        """Nothing."""

    def ended(self, plan: CellPlan, verdict: TrialVerdict) -> None:
        """Nothing."""
