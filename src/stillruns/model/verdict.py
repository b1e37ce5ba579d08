"""A trial, judged."""

from __future__ import annotations

from dataclasses import dataclass

from stillruns.model.agreement import Agreement
from stillruns.model.applied import Answer, Applied
from stillruns.model.outcome import Outcome, OutcomeKind
from stillruns.model.placement import Placement
from stillruns.model.served import Served


@dataclass(frozen=True, slots=True)
class TrialVerdict:
    """What one trial shows. `passed` needs a clean outcome, `applied` yes, and sane output."""

    trial: str
    cell: str
    index: int
    outcome: Outcome
    applied: Applied
    placement: Placement | None
    agreement: Agreement | None
    tokens_per_second: float | None
    seconds: float
    prompt_per_second: float | None = None
    served: Served | None = None
    """Where more than one request was made; `tokens_per_second` is then the median of all, each over its own
    evaluation time: in parallel, that of one slot."""

    @property
    def void(self) -> bool:
        """The condition was not applied: neither a pass nor a failure."""
        return self.applied.status is Answer.NO

    @property
    def counts(self) -> bool:
        """Whether the trial enters a rate."""
        return self.applied.status is Answer.YES and self.outcome.kind is not OutcomeKind.INTERRUPTED

    @property
    def passed(self) -> bool:
        """Clean outcome (a wrong answer is an outcome of its own) under the asked condition."""
        return self.counts and self.outcome.kind is OutcomeKind.OK
