"""Whether a trial ran under the condition that it was asked to run under."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from stillruns.model.evidence import Ref


class Answer(str, Enum):
    """`unknown` is a legal answer and never counts as yes."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class FactorApplied:
    """One factor of the condition: what was asked, what the evidence shows, and where.

    `got` is the text form of the value seen, or None when nothing shows it. `why` is one sentence.
    """

    status: Answer
    asked: str
    got: str | None
    why: str
    refs: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True)
class Applied:
    """The map over the factors that the spec sets or varies (`backend`, `gpu_layers`, `context`, ...).

    `status` is `no` if any factor is no, else `unknown` if any is unknown, else `yes`; `why` repeats the deciding
    factor's sentence.
    """

    status: Answer
    why: str
    factors: dict[str, FactorApplied]

    @staticmethod
    def of(factors: dict[str, FactorApplied]) -> Applied:
        """Fold the factors by the rule above. No factor at all is `unknown`."""
        for status in (Answer.NO, Answer.UNKNOWN):
            for factor in factors.values():
                if factor.status is status:
                    return Applied(status, factor.why, factors)
        if not factors:
            return Applied(Answer.UNKNOWN, "no factor of the condition was asked about", {})
        return Applied(Answer.YES, "; ".join(f.why for f in factors.values() if f.why), factors)
