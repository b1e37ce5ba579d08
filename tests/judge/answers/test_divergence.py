"""The promise: distributions are compared position by position, and a floor decides what is rounding."""

from __future__ import annotations

import math

import pytest

from stillruns.judge.answers import divergence
from stillruns.model.agreement import OutputVerdict
from stillruns.model.exchange import TokenProb


def distribution(*logits: float) -> TokenProb:
    """A whole distribution over as many tokens, best first."""
    total = math.log(sum(math.exp(x) for x in logits))
    top = sorted(((t, x - total) for t, x in enumerate(logits)), key=lambda pair: -pair[1])
    return TokenProb(top[0][0], top[0][1], tuple(top))


BASE = [distribution(1.0, 0.5, -0.3, -1.0, 0.1, -2.0)] * 20


def shifted(by: float) -> list[TokenProb]:
    """Every second logit moved."""
    return [distribution(1.0, 0.5 + by, -0.3, -1.0 + by, 0.1, -2.0 + by)] * 20


def test_kl_of_known_distributions() -> None:
    """Against the formula; zero for equal sides; noise comes back as what was put in."""
    seen = divergence.measure(shifted(0.2), BASE, [0] * 20)
    assert seen
    p = [math.exp(v) for _, v in sorted(BASE[0].top)]
    q = [math.exp(v) for _, v in sorted(shifted(0.2)[0].top)]
    assert seen.kl_mean == pytest.approx(sum(a * math.log(a / b) for a, b in zip(p, q, strict=True)))
    assert seen.log_ppl_ratio == pytest.approx(math.log(p[0] / q[0]))
    assert (seen.positions, seen.same_top) == (20, 1.0)
    equal = divergence.measure(BASE, BASE, [])
    assert equal
    assert (equal.kl_max, equal.largest) == (0, 0)
    assert divergence.effective_noise(4e-3, 0.2) == pytest.approx(0.1)


def test_a_cut_list_bounds_from_below() -> None:
    """With the best tokens alone, the rest counts as one: never more than the whole."""
    whole = divergence.measure(shifted(0.5), BASE, [])
    cut = divergence.measure(
        [TokenProb(p.token, p.logprob, p.top[:3]) for p in shifted(0.5)],
        [TokenProb(p.token, p.logprob, p.top[:3]) for p in BASE],
        [],
    )
    assert whole and cut
    assert 0 < cut.kl_mean <= whole.kl_mean


def test_verdicts_go_by_the_floor() -> None:
    """Rounding, more than rounding, damage; and unknown without a floor."""
    floor = divergence.measure(shifted(0.05), BASE, [])
    for by, expected in (
        (0.0, OutputVerdict.SAME),
        (0.06, OutputVerdict.FLOOR_OK),
        (0.2, OutputVerdict.SUSPICIOUS),
        (2.0, OutputVerdict.WRONG),
    ):
        assert divergence.verdict(divergence.measure(shifted(by), BASE, []), floor)[0] is expected
    assert divergence.verdict(floor, None)[0] is OutputVerdict.UNKNOWN
    assert divergence.verdict(None, floor)[0] is OutputVerdict.UNKNOWN


def test_nan_and_strangers_are_damage() -> None:
    """A log-probability that is no number, and lists that share nothing."""
    floor = divergence.measure(shifted(0.05), BASE, [])
    nan = divergence.measure([TokenProb(0, None, ())], BASE[:1], [])
    other = [TokenProb(t.token + 50, t.logprob, tuple((i + 50, v) for i, v in t.top)) for t in BASE]
    assert divergence.verdict(nan, floor)[0] is OutputVerdict.WRONG
    assert divergence.verdict(divergence.measure(other, BASE, []), floor)[0] is OutputVerdict.WRONG


SURE = [TokenProb(0, 0.0, ((0, 0.0), (1, -3.4e38), (2, -3.4e38)))] * 20
"""A side that gives one token everything: the runtime prints the lowest float for the others."""
BROKEN = [TokenProb(0, None, ())] * 20


def test_certainty_that_the_reference_lacks_is_damage() -> None:
    """All probability on one token, where the reference leaves two thirds to others, is no `same`."""
    seen = divergence.measure(SURE, BASE, [])
    assert seen and seen.kl_mean > 1
    assert divergence.verdict(seen, divergence.measure(BASE, BASE, []))[0] is OutputVerdict.WRONG


def test_a_broken_reference_condemns_nobody() -> None:
    """Where the reference's own numbers are none there is nothing to compare with; ours being none is damage."""
    floor = divergence.measure(BASE, BASE, [])
    assert divergence.verdict(divergence.measure(BASE, BROKEN, []), floor)[0] is OutputVerdict.UNKNOWN
    assert divergence.verdict(divergence.measure(BROKEN, BASE, []), floor)[0] is OutputVerdict.WRONG


def test_a_floor_without_numbers_lets_nothing_pass() -> None:
    """Two paths of the reference of which one is broken are no floor."""
    broken = divergence.measure(BROKEN, BASE, [])
    for seen in (divergence.measure(shifted(0.5), BASE, []), divergence.measure(shifted(0.01), BASE, [])):
        verdict, why = divergence.verdict(seen, broken)
        assert verdict is OutputVerdict.UNKNOWN
        assert "no numbers" in why


def test_coarse_weights_are_never_wrong_by_distance() -> None:
    """A healthy card in Q4_0 was as far from the CPU as damage is; with F16 or Q8_0 that is no rounding."""
    floor = divergence.measure(shifted(0.01), BASE, [])
    seen = divergence.measure(shifted(2.0), BASE, [])
    found = {weights: divergence.verdict(seen, floor, weights) for weights in ("", "F16", "Q8_0", "Q4_0", "IQ3_XXS")}
    assert {weights for weights, (said, _) in found.items() if said is OutputVerdict.WRONG} == {"", "F16", "Q8_0"}
    assert found["Q4_0"][0] is OutputVerdict.SUSPICIOUS
    assert "only its F16 twin would tell" in found["Q4_0"][1]
