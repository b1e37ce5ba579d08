"""How one output compares with the reference's."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class OutputVerdict(str, Enum):
    """`suspicious` passes, flagged."""

    REFERENCE = "reference"
    SAME = "same"
    FLOOR_OK = "floor ok"
    SUSPICIOUS = "suspicious"
    WRONG = "wrong"
    UNKNOWN = "unknown"


WORST_FIRST = (
    OutputVerdict.WRONG,
    OutputVerdict.SUSPICIOUS,
    OutputVerdict.UNKNOWN,
    OutputVerdict.FLOOR_OK,
    OutputVerdict.SAME,
    OutputVerdict.REFERENCE,
)
"""What several answers of one cell or trial come to: the first of these that any of them is."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """`first_divergence` is the index of the first differing token, None when the compared prefix is equal;
    `compared` tokens were looked at; `max_logprob_difference` is over the shared prefix, in nats (None without
    logprobs); `margin` is the reference's lead of its first over its second token at the divergence, in nats;
    `floor` the measured difference between two healthy paths of the reference. `why` is one sentence."""

    verdict: OutputVerdict
    compared: int
    first_divergence: int | None
    max_logprob_difference: float | None
    margin: float | None
    floor: float | None
    why: str
