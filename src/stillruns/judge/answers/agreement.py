"""Compares an answer with the reference's: different rounding, or broken.

Two correct backends round differently, and greedy decoding then picks another token wherever the first two are close;
so tokens are compared up to the first divergence only, and log-probabilities decide. The statistic is the mean
absolute difference of the log-probabilities at one token, over the ids that both sides list among their best, and of
it the worst token: a single outlier in the tail of a distribution does not move it, and a fault that sets in late is
not diluted by the good tokens before it. The position of the divergence itself counts, because both sides got the
same tokens until there. Thresholds and the measurements behind them: docs/decisions/0004-output-agreement.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean

from stillruns.judge.answers.weights import coarse
from stillruns.model.agreement import Agreement, OutputVerdict
from stillruns.model.exchange import Answered, TokenProb
from stillruns.model.floor import Floor

EQUAL = 1e-6
"""Nats; below it two printed log-probabilities are the same number (single precision, printed in decimal)."""

FACTOR_TOLERATED = 10.0
LEAST_TOLERATED = 0.3
MOST_TOLERATED = 0.5
FACTOR_NEVER_FLAGGED = 2.0
"""Tolerated is ten times the floor, but at least 0.3 nats (other precision on the device), and at most 0.5 nats,
unless the floor itself is so high that twice the floor is more."""

FACTOR_BROKEN = 3.0
LEAST_BROKEN = 0.6
"""Beyond 0.6 nats, and three times the floor, the answer is wrong."""

_ROUNDING = 1e-3
"""A log-probability is at most 0; a server's arithmetic may end this little above."""
_NO_PROBABILITY = -1e30
"""llama-server prints the lowest float for a probability of zero; such an entry measures nothing."""

_FEW = 4
"""A shorter answer says nothing by repeating one token; a shorter list of best tokens, nothing by what it lacks."""


@dataclass(frozen=True, slots=True)
class _Comparison:
    """What the shared prefix shows; differences in nats, None without log-probabilities on both sides."""

    compared: int
    divergence: int | None
    worst_token: float | None
    mean: float | None
    largest: float | None
    margin: float | None
    strangers: bool
    """A chosen token is not among the other side's best."""
    disjoint: int | None
    """The first token at which the two lists of best tokens have nothing in common."""


def measure_floor(a: Answered, b: Answered) -> Floor:
    """The rounding floor, from the answers of two healthy paths of the reference to the same question."""
    seen = _compare(b, a)
    return Floor(seen.worst_token, seen.mean, seen.largest, seen.compared)


def floor_warning(floor: Floor) -> str | None:
    """One sentence when the reference's own two paths differ by more than rounding ever did, else None."""
    if floor.worst_token is None or floor.worst_token <= MOST_TOLERATED:
        return None
    return (
        f"the reference's two CPU paths differ by {floor.worst_token:.2f} nats: this model is that sensitive, or one "
        "of them is broken; outputs are compared with little power"
    )


def first_nan(answered: Answered) -> int | None:
    """The first token whose log-probability is not a number (llama-server prints null for it); None without one."""
    places = (i for i, p in enumerate(answered.probs) if p.logprob is None or math.isnan(p.logprob))
    return next(places, None)


def one_token(answered: Answered) -> bool:
    """Whether the whole answer, of at least four tokens, is one token again and again."""
    return len(answered.tokens) >= _FEW and len(set(answered.tokens)) == 1


def reference(answered: Answered) -> Agreement:
    """The reference's own entry: it agrees with itself."""
    return Agreement(OutputVerdict.REFERENCE, len(answered.tokens), None, None, None, None, "the reference itself")


def unknown(why: str) -> Agreement:
    """Nothing to compare, and why."""
    return Agreement(OutputVerdict.UNKNOWN, 0, None, None, None, None, why)


def compare(answered: Answered, reference: Answered, floor: Floor | None, weights: str = "") -> Agreement:
    """How `answered` agrees with the reference's answer to the same question.

    `floor` is the measured rounding floor, or None where there is none: then as much is tolerated as ever is.
    `weights` is the type of the model's weights as its file says it (`Q4_0`), empty where that is not known.
    """
    where = first_nan(answered)
    if where is not None:
        return Agreement(
            OutputVerdict.WRONG, len(answered.tokens), where, None, None, _level(floor), f"NaN at token {where}"
        )
    if first_nan(reference) is not None:
        return unknown(
            "the reference's own answer has NaN: the CPU path is broken, so there is nothing to compare with"
        )
    if not answered.tokens or not reference.tokens:
        return _by_text(answered, reference)
    seen = _compare(answered, reference)
    verdict, why = _decide(seen, floor, weights)
    rounding = verdict in (OutputVerdict.SAME, OutputVerdict.FLOOR_OK)
    if one_token(answered) and not one_token(reference) and not (rounding and seen.worst_token is not None):
        verdict = OutputVerdict.WRONG
        why = f"the whole answer is token {answered.tokens[0]} again and again, the reference's is not"
    return Agreement(verdict, seen.compared, seen.divergence, seen.largest, seen.margin, _level(floor), why)


def tolerated(floor: Floor | None) -> float:
    """The worst token's difference, in nats, up to which it is rounding."""
    level = _level(floor)
    if level is None:
        return MOST_TOLERATED
    return max(LEAST_TOLERATED, min(FACTOR_TOLERATED * level, MOST_TOLERATED), FACTOR_NEVER_FLAGGED * level)


def broken(floor: Floor | None) -> float:
    """The worst token's difference, in nats, from which on it is no rounding any more."""
    return max(LEAST_BROKEN, FACTOR_BROKEN * (_level(floor) or 0.0))


def _decide(seen: _Comparison, floor: Floor | None, weights: str) -> tuple[OutputVerdict, str]:
    """The verdict on a shared prefix, and one sentence."""
    at = "no divergence" if seen.divergence is None else f"first divergence at token {seen.divergence}"
    if seen.disjoint is not None:
        return OutputVerdict.WRONG, f"at token {seen.disjoint} not one of the best tokens is among the reference's"
    if seen.worst_token is None or seen.largest is None:
        return _by_tokens(seen, at)
    if seen.divergence is None and seen.largest <= EQUAL:
        return OutputVerdict.SAME, "same tokens, same log-probabilities"
    limit, end = tolerated(floor), broken(floor)
    measured = f"{seen.worst_token:.3f} nats at the worst token"
    if seen.worst_token > end and coarse(weights):
        why = f"{at}, {measured}: more than rounding explains (limit {limit:.3f}), unless it is that of {weights}"
        return OutputVerdict.SUSPICIOUS, f"{why}: only its F16 twin would tell"
    if seen.worst_token > end:
        return OutputVerdict.WRONG, f"{at}, {measured}: no rounding (limit {end:.3f})"
    if seen.worst_token > limit:
        return OutputVerdict.SUSPICIOUS, f"{at}, {measured}: more than rounding explains (limit {limit:.3f})"
    if seen.strangers:
        return OutputVerdict.SUSPICIOUS, f"{at}, and a chosen token is not among the other side's best"
    unmeasured = "" if _level(floor) is not None else ", without a measured floor"
    return OutputVerdict.FLOOR_OK, f"{at}, {measured}: rounding (limit {limit:.3f}{unmeasured})"


def _by_tokens(seen: _Comparison, at: str) -> tuple[OutputVerdict, str]:
    """Without log-probabilities on both sides: the reference's margin at the divergence is all there is."""
    if seen.divergence is None:
        return OutputVerdict.SAME, "same tokens (no log-probabilities to compare)"
    if seen.margin is None:
        return OutputVerdict.UNKNOWN, f"{at}, and no log-probabilities to tell rounding from a fault"
    if seen.margin <= MOST_TOLERATED:
        return OutputVerdict.FLOOR_OK, f"{at}, where the reference's first two are {seen.margin:.3f} nats apart"
    return OutputVerdict.SUSPICIOUS, f"{at}, where the reference was sure by {seen.margin:.3f} nats"


def _by_text(answered: Answered, reference: Answered) -> Agreement:
    """Without token ids on both sides, only equal text says something."""
    if answered.text is None or reference.text is None:
        return unknown("no tokens and no text on both sides to compare")
    if answered.text == reference.text:
        return Agreement(OutputVerdict.SAME, 0, None, None, None, None, "same text (no tokens to compare)")
    return unknown("the texts differ, and without token ids rounding and a fault look alike")


def _compare(answered: Answered, reference: Answered) -> _Comparison:
    """Walk the shared prefix, the first divergence included."""
    pairs = list(zip(answered.tokens, reference.tokens, strict=False))
    divergence = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    if divergence is None and len(answered.tokens) != len(reference.tokens):
        divergence = len(pairs)
    positions = len(pairs) if divergence is None else min(divergence + 1, len(pairs))
    shown = min(positions, len(answered.probs), len(reference.probs))
    means: list[float] = []
    largest: float | None = None
    strangers = False
    disjoint = None
    for place, (ours, theirs) in enumerate(zip(answered.probs[:shown], reference.probs[:shown], strict=True)):
        a, b = _listed(ours), _listed(theirs)
        shared = [abs(a[token] - b[token]) for token in a.keys() & b.keys()]
        telling = len(a) >= _FEW and len(b) >= _FEW
        strangers = strangers or (telling and (theirs.token not in a or ours.token not in b))
        if shared:
            means.append(fmean(sorted(shared)))
            largest = max(shared) if largest is None else max(largest, *shared)
        elif telling and disjoint is None:
            disjoint = place
    margin = None
    if divergence is not None and divergence < len(reference.probs):
        best = sorted((lp for _, lp in reference.probs[divergence].top if _usable(lp)), reverse=True)
        margin = best[0] - best[1] if len(best) > 1 else None
    return _Comparison(
        compared=positions,
        divergence=divergence,
        worst_token=max(means) if means else None,
        mean=fmean(means) if means else None,
        largest=largest,
        margin=margin,
        strangers=strangers,
        disjoint=disjoint,
    )


def _listed(prob: TokenProb) -> dict[int, float]:
    """The usable log-probabilities at one position by token id, the chosen token included."""
    listed = {token: logprob for token, logprob in prob.top if _usable(logprob)}
    if prob.logprob is not None and _usable(prob.logprob):
        listed.setdefault(prob.token, prob.logprob)
    return listed


def _usable(logprob: float) -> bool:
    """Whether a number can be a log-probability at all: finite, not the runtime's mark for none, not above certainty
    by more than rounding."""
    return math.isfinite(logprob) and _NO_PROBABILITY < logprob <= _ROUNDING


def _level(floor: Floor | None) -> float | None:
    return None if floor is None else floor.worst_token
