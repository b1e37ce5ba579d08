"""How far two healthy paths of the reference differ: the rounding that is not a fault."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Floor:
    """Differences of log-probabilities, in nats, over the tokens that both paths list, up to and including the first
    token on which they differ.

    `worst_token` is the largest mean difference at one token (the number that verdicts compare with), `mean` the mean
    over all, `largest` the largest single one; `tokens` positions were compared. All are None when a path printed no
    log-probabilities: then nothing was measured.
    """

    worst_token: float | None
    mean: float | None
    largest: float | None
    tokens: int
