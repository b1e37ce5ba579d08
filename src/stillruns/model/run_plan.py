"""What a spec would run, before any of it runs."""

from __future__ import annotations

from dataclasses import dataclass

from stillruns.model.spec import Decide


@dataclass(frozen=True, slots=True)
class Question:
    """How many applied trials it takes to tell two failure rates apart; probabilities and numbers are exact.

    `fixed` trials decide it where at most `allowed` of them may fail; the sequential test takes `mean_good` or
    `mean_bad` on average, and 95 % of its courses end `within`. `sentence` says the same.
    """

    rule: Decide
    fixed: int
    allowed: int
    mean_good: float
    mean_bad: float
    within: int
    sentence: str


@dataclass(frozen=True, slots=True)
class RunPlan:
    """`cells` and `references` by id; `trials` in all, `at_most` where a sequential test may end them earlier;
    `least_seconds` is what the durations alone take, 0 without any, `cost` the sentence about it; `question` is None
    where the number of trials is fixed, `shows` then says what so many trials without a failure would show."""

    name: str
    cells: tuple[str, ...]
    references: tuple[str, ...]
    trials: int
    at_most: bool
    least_seconds: float
    cost: str
    question: Question | None
    shows: str
    notes: tuple[str, ...] = ()
