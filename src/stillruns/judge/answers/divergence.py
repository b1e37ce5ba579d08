"""How far two computations of the same distributions differ: Kullback-Leibler and friends, position by position.

Both sides saw the same tokens before each position (teacher forcing), so positions are comparable whatever each side
would have said. From lists of best tokens only a lower bound can be had: the listed ones, and all others as one.
KL ~ (s^2 / 2)(1 - sum P^2) for independent noise s on the logits, which turns a KL into nats of logit noise
(`effective_noise`). Thresholds: three and thirty times the floor that healthy paths of the reference show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from stillruns.judge.answers.weights import coarse
from stillruns.model.agreement import OutputVerdict
from stillruns.model.divergence import Divergence
from stillruns.model.exchange import TokenProb

ROUNDING, DAMAGE = 3.0, 30.0
"""Times the floor: up to the first it is rounding, beyond the second no rounding."""

LEAST_NOTICED, LEAST_DAMAGE = 1e-4, 1e-2
"""Mean nats below which nothing is suspicious, and none is wrong: a floor of zero must not condemn the last bit.
F16 weights on healthy backends differ by 3e-6 to 1e-5 nats, one dead row of 640 by 2e-4."""


_LEAST_REST = 1e-9
"""Probability of all tokens that are not listed, below which it is none; where the reference has more and ours does
not, ours counts as having so much."""

SHIFT_ERRORS, LEAST_SHIFT = 3.0, 1e-3
"""How far perplexity on a fixed text may move: in standard errors, and in nats below which nothing is suspicious."""


@dataclass(frozen=True, slots=True)
class _Position:
    kl: float
    same_top: bool
    largest: float
    mass: float
    """Sum of squares of the reference's probabilities."""
    reference_nll: float | None
    ours_nll: float | None


def measure(
    ours: Sequence[TokenProb], reference: Sequence[TokenProb], tokens: Sequence[int | None]
) -> Divergence | None:
    """Over all positions that both sides list; `tokens` are those that the reference went on with. None without any,
    infinite values where a log-probability of ours is no number or no token is listed by both. Where the reference's
    is no number there is nothing to compare with."""
    seen = [
        found
        for place, (a, b) in enumerate(zip(ours, reference, strict=False))
        if (found := _position(a, b, tokens[place] if place < len(tokens) else None)) is not None
    ]
    if not seen:
        return None
    kls = sorted(p.kl for p in seen)
    pairs = [(p.ours_nll, p.reference_nll) for p in seen if p.ours_nll is not None and p.reference_nll is not None]
    differences = [a - b for a, b in pairs]
    spread = math.sqrt(sum((d - fmean(differences)) ** 2 for d in differences)) if differences else 0.0
    mean = fmean(kls)
    return Divergence(
        positions=len(seen),
        kl_mean=mean,
        kl_p99=kls[min(len(kls) - 1, math.ceil(0.99 * len(kls)) - 1)],
        kl_max=kls[-1],
        same_top=sum(p.same_top for p in seen) / len(seen),
        largest=max(p.largest for p in seen),
        noise=effective_noise(mean, fmean(p.mass for p in seen)),
        log_ppl_ratio=fmean(differences) if differences else None,
        log_ppl_error=spread / len(differences) if differences else None,
    )


def effective_noise(kl: float, mass: float) -> float:
    """Nats of independent noise on the logits that would give this KL; `mass` is the sum of squared probabilities."""
    return math.sqrt(2 * kl / (1 - mass)) if mass < 1 and math.isfinite(kl) else 0.0


def verdict(seen: Divergence | None, floor: Divergence | None, weights: str = "") -> tuple[OutputVerdict, str]:
    """What a measured divergence means beside the floor of the reference's own healthy paths; `weights` is their type
    (`Q4_0`), empty where it is not known."""
    if seen is None:
        return OutputVerdict.UNKNOWN, "no position has log-probabilities on both sides"
    if not math.isfinite(seen.kl_mean):
        return OutputVerdict.WRONG, "a log-probability is not a number, or none of the best tokens is the reference's"
    text = (
        f"KL {seen.kl_mean:.2g} nats on average, {seen.kl_max:.2g} at the worst of {seen.positions} positions, the "
        f"same best token at {100 * seen.same_top:.0f} %"
    )
    if floor is None:
        return OutputVerdict.UNKNOWN, f"{text}; no floor was measured to compare with"
    if not (math.isfinite(floor.kl_mean) and math.isfinite(floor.kl_p99)):
        return OutputVerdict.UNKNOWN, f"{text}; the reference's own paths give no numbers to compare with"
    beside = f"{text}; floor {floor.kl_mean:.2g} and {floor.kl_p99:.2g}"
    if seen.kl_max == 0 and seen.largest == 0:
        return OutputVerdict.SAME, "the same distributions at every position"
    if seen.kl_mean <= max(ROUNDING * floor.kl_mean, LEAST_NOTICED) and seen.kl_p99 <= max(
        ROUNDING * floor.kl_p99, ROUNDING * LEAST_NOTICED
    ):
        return OutputVerdict.FLOOR_OK, beside
    if coarse(weights):
        why = f"more than rounding explains, unless it is that of {weights}: only its F16 twin would tell"
        return OutputVerdict.SUSPICIOUS, f"{beside}: {why}"
    if seen.kl_mean > max(DAMAGE * floor.kl_mean, LEAST_DAMAGE):
        return OutputVerdict.WRONG, f"{beside}: no rounding"
    return OutputVerdict.SUSPICIOUS, f"{beside}: more than rounding explains"


def perplexity(text: Divergence) -> tuple[OutputVerdict, str]:
    """What the perplexity of fixed texts says beside the reference's: a shift beyond three of its paired standard
    errors, and more than a thousandth, is no rounding, which goes either way."""
    if text.log_ppl_ratio is None or text.log_ppl_error is None:
        return OutputVerdict.UNKNOWN, "the texts gave no perplexity"
    ratio, error = text.log_ppl_ratio, text.log_ppl_error
    said = f"perplexity {100 * math.expm1(ratio):+.2g} % on {text.positions} positions of fixed text"
    if not ratio and not error:
        return OutputVerdict.SAME, said
    if abs(ratio) > max(SHIFT_ERRORS * error, LEAST_SHIFT):
        return OutputVerdict.SUSPICIOUS, f"{said}: more than {SHIFT_ERRORS:g} standard errors"
    return OutputVerdict.FLOOR_OK, said


def _position(ours: TokenProb, reference: TokenProb, token: int | None) -> _Position | None:
    a, b = _listed(ours), _listed(reference)
    if b is None:
        return None
    if a is None:
        return _Position(math.inf, False, math.inf, 0.0, None, None)
    shared = a.keys() & b.keys()
    if not shared:
        return None if not a or not b else _Position(math.inf, False, math.inf, 0.0, None, None)
    p, q = [math.exp(b[t]) for t in sorted(shared)], [math.exp(a[t]) for t in sorted(shared)]
    rest_p, rest_q = max(0.0, 1 - math.fsum(p)), max(0.0, 1 - math.fsum(q))
    kl = math.fsum(x * math.log(x / y) for x, y in zip(p, q, strict=True) if x > 0 and y > 0)
    if rest_p > _LEAST_REST:
        kl += rest_p * math.log(rest_p / max(rest_q, _LEAST_REST))
    return _Position(
        kl=max(0.0, kl),
        same_top=max(a, key=lambda t: (a[t], -t)) == max(b, key=lambda t: (b[t], -t)),
        largest=max(abs(a[t] - b[t]) for t in shared),
        mass=math.fsum(x * x for x in p),
        reference_nll=-b[token] if token is not None and token in b else None,
        ours_nll=-a[token] if token is not None and token in a else None,
    )


def _listed(prob: TokenProb) -> dict[int, float] | None:
    """Log-probabilities by token; None where one is no number."""
    if prob.logprob is None or math.isnan(prob.logprob) or any(math.isnan(v) for _, v in prob.top):
        return None
    listed = {token: value for token, value in prob.top if math.isfinite(value) and value > -1e30}
    if math.isfinite(prob.logprob):
        listed.setdefault(prob.token, prob.logprob)
    return listed
