"""How far a cell's distributions lie from the reference's, position by position under teacher forcing."""

from __future__ import annotations

from dataclasses import dataclass

from stillruns.model.agreement import OutputVerdict


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
    checked: the twin in F16 where there is one."""

    cell: str
    trial: str
    model: str
    verdict: OutputVerdict
    why: str
    seen: Divergence | None
    floor: Divergence | None
