"""How far a cell's distributions lie from the reference's, position by position under teacher forcing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from stillruns.model.agreement import OutputVerdict


class Path(str, Enum):
    """How a position was computed."""

    PROMPT = "prompt"
    """As the last of a batch of tokens, each prefix anew."""
    DECODE = "decode"
    """Alone, on top of what was computed before: other kernels than a batch uses."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """Kullback-Leibler divergence in nats over the listed tokens and the rest as one (a lower bound): mean, 99th
    percentile and largest over `positions`. `same_top` is the share of positions with the same best token, `largest`
    the largest difference of log-probabilities, `noise` the nats of logit noise that the mean amounts to.
    `log_ppl_ratio` is ln(perplexity / the reference's) on the reference's tokens, with its paired standard error."""

    positions: int
    kl_mean: float
    kl_p99: float
    kl_max: float
    same_top: float
    largest: float
    noise: float
    log_ppl_ratio: float | None
    log_ppl_error: float | None


@dataclass(frozen=True, slots=True)
class Check:
    """A cell's distributions checked against the reference's: one trial of its own, in no rate. `model` is what was
    checked: the twin in F16 where there is one. `seen` and `floor` are on the prompt path, `decode` and
    `decode_floor` on the decode path, `text` those of `seen` that lie in fixed texts, `again` the first request's
    answer at the end beside its first; None where nothing was measured."""

    cell: str
    trial: str
    model: str
    verdict: OutputVerdict
    why: str
    seen: Divergence | None
    floor: Divergence | None
    decode: Divergence | None = None
    decode_floor: Divergence | None = None
    text: Divergence | None = None
    again: Divergence | None = None
