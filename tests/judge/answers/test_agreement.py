"""Tests of judge/answers/agreement.py: rounding is told from damage, on answers of the real server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_samples import answered, with_probs
from stillruns.judge.answers.agreement import compare, first_nan, floor_warning, measure_floor, one_token
from stillruns.model.agreement import OutputVerdict
from stillruns.model.exchange import Answered, TokenProb
from stillruns.model.floor import Floor

GOLDEN = Path(__file__).parents[2] / "golden" / "agreement" / "b10068.json"
MODELS: dict[str, dict[str, Any]] = json.loads(GOLDEN.read_text())["models"]
FAULT = "fault: logits + (i mod 7) / 2"
REAL = [(model, path) for model, paths in MODELS.items() for path in paths if path != "cpu"]


def real(model: str, path: str) -> Answered:
    """One measured answer."""
    probs = tuple(TokenProb(t, lp, tuple((i, v) for i, v in top)) for t, lp, top in MODELS[model][path])
    return answered([p.token for p in probs], probs=probs)


@pytest.mark.parametrize(("model", "path"), REAL)
def test_real_answers(model: str, path: str) -> None:
    """No healthy path of the real server is wrong or suspicious; corrupted logits are wrong; 0 layers the same."""
    reference = real(model, "cpu")
    floor = measure_floor(reference, real(model, "cpu, flash attention"))
    seen = compare(real(model, path), reference, floor)
    if path.startswith("fault"):
        assert seen.verdict is OutputVerdict.WRONG, seen.why
    else:
        good = OutputVerdict.SAME if path == "vulkan 0" else OutputVerdict.FLOOR_OK
        assert seen.verdict is good, seen.why
    assert seen.floor == floor.worst_token


@pytest.mark.parametrize("model", [m for m, path in REAL if path == FAULT])
def test_corruption_from_one_token_on(model: str) -> None:
    """Damage that sets in late is not diluted by the good tokens before it."""
    good, bad = real(model, "cpu"), real(model, FAULT)
    floor = measure_floor(good, real(model, "cpu, flash attention"))
    start = compare(bad, good, floor).compared - 1
    before, after = good.probs[: 31 - start], bad.probs[start:]
    reference = (*before, *good.probs[start:])
    mixed = (*before, *after)
    seen = compare(*(answered([p.token for p in side], probs=side) for side in (mixed, reference)), floor)
    assert seen.verdict is OutputVerdict.WRONG, seen.why
    assert seen.first_divergence == len(before)


def test_self_comparison_and_floor() -> None:
    """An answer agrees with itself; the floor of two paths is positive."""
    model = "llama-Q8_0"
    cpu, flash = real(model, "cpu"), real(model, "cpu, flash attention")
    assert compare(cpu, cpu, None).verdict is OutputVerdict.SAME
    zero, floor = measure_floor(cpu, cpu), measure_floor(cpu, flash)
    assert (zero.worst_token, zero.mean, zero.largest, zero.tokens) == (0.0, 0.0, 0.0, 32)
    assert floor.worst_token is not None and floor.mean is not None and floor.largest is not None
    assert 0.0 < floor.mean < floor.worst_token < floor.largest < 0.5


def test_nan_is_wrong() -> None:
    """llama-server prints null for a NaN: wrong whatever the reference says, and a NaN reference judges nothing."""
    good = with_probs([1, 2, 3])
    bad = answered([1, 0, 0], probs=(good.probs[0], TokenProb(0, None), TokenProb(0, None)))
    seen = compare(bad, good, None)
    assert (seen.verdict, seen.first_divergence, seen.why) == (OutputVerdict.WRONG, 1, "NaN at token 1")
    assert first_nan(bad) == 1 and first_nan(good) is None
    assert compare(good, bad, None).verdict is OutputVerdict.UNKNOWN


def test_one_token_again_and_again() -> None:
    """One repeated token is wrong only if the reference does not do the same, and rounding does not explain it."""
    varied, stuck = answered([5, 6, 7, 8, 9, 9, 9, 9]), answered([9] * 8)
    assert one_token(stuck) and not one_token(varied)
    assert compare(stuck, varied, None).verdict is OutputVerdict.WRONG
    assert compare(stuck, stuck, None).verdict is OutputVerdict.SAME
    assert not one_token(answered([9, 9]))
    # a healthy model that ends in one token: the reference leaves the row at the last token, by a hair
    top = ((9, -0.700), (4, -0.701), (1, -4.0), (2, -5.0))
    other = ((4, -0.699), (9, -0.702), (1, -4.0), (2, -5.0))
    row = tuple(TokenProb(9, -0.7, top) for _ in range(8))
    left = (*row[:7], TokenProb(4, -0.699, other))
    seen = compare(answered([9] * 8, probs=row), answered([9] * 7 + [4], probs=left), Floor(0.01, 0.005, 0.02, 8))
    assert seen.verdict is OutputVerdict.FLOOR_OK


def test_thresholds() -> None:
    """Between what rounding explains and what is broken lies suspicious; a high floor moves both limits."""
    tokens = [1, 2, 3, 4]
    reference = with_probs(tokens)
    for shift, floor, expected in (
        (0.2, Floor(0.01, 0.01, 0.02, 32), OutputVerdict.FLOOR_OK),
        (0.5, Floor(0.01, 0.01, 0.02, 32), OutputVerdict.SUSPICIOUS),
        (0.5, Floor(0.25, 0.1, 0.5, 32), OutputVerdict.FLOOR_OK),
        (0.5, None, OutputVerdict.FLOOR_OK),
        (2.0, Floor(0.01, 0.01, 0.02, 32), OutputVerdict.WRONG),
        (2.0, None, OutputVerdict.WRONG),
    ):
        seen = compare(with_probs(tokens, shift), reference, floor)
        assert seen.verdict is expected, (shift, floor, seen.why)
        assert seen.max_logprob_difference == pytest.approx(shift)


@pytest.mark.parametrize(("weights", "expected"), [("Q4_0", "suspicious"), ("Q8_0", "wrong"), ("F16", "wrong")])
def test_coarse_weights_are_not_called_wrong(weights: str, expected: str) -> None:
    """0.709 nats, as a healthy card computed a 4-bit model: no rounding of F16, but no proof of damage in 4 bits; and
    the sentence names what would tell."""
    tokens = [1, 2, 3, 4]
    seen = compare(with_probs(tokens, 0.709), with_probs(tokens), Floor(0.106, 0.08, 0.3, 32), weights)
    assert seen.verdict.value == expected
    assert ("F16 twin" in seen.why) is (weights == "Q4_0")


@pytest.mark.parametrize("weights", ["Q4_0", "F16"])
def test_damage_stays_wrong_with_any_weights(weights: str) -> None:
    """Lists of best tokens that share nothing are wrong however coarse the weights are."""
    ours, theirs = [1, 2, 3, 4], [91, 92, 93, 94]
    a, b = (
        answered(ids, probs=tuple(TokenProb(i, -1.0, tuple((10 * i + k, -1.0 - k) for k in range(5))) for i in ids))
        for ids in (ours, theirs)
    )
    seen = compare(a, b, None, weights)
    assert seen.verdict is OutputVerdict.WRONG, seen.why


def test_without_logprobs() -> None:
    """Tokens alone: equal is the same; different is rounding only where the reference was nearly undecided."""
    sure = with_probs([1, 2, 3])
    assert compare(answered([1, 2, 3]), sure, None).verdict is OutputVerdict.SAME
    seen = compare(answered([1, 7, 3]), sure, None)
    assert (seen.verdict, seen.first_divergence) == (OutputVerdict.SUSPICIOUS, 1)
    assert seen.margin == pytest.approx(1.0)
    assert compare(answered([1, 7]), answered([1, 2]), None).verdict is OutputVerdict.UNKNOWN
    near = answered([1, 2], probs=(sure.probs[0], TokenProb(2, -0.5, ((2, -0.5), (7, -0.6)))))
    assert compare(answered([1, 7]), near, None).verdict is OutputVerdict.FLOOR_OK


def test_text_only() -> None:
    """Without token ids only equal text says something."""
    assert compare(answered([], text="a"), answered([], text="a"), None).verdict is OutputVerdict.SAME
    assert compare(answered([], text="a"), answered([], text="b"), None).verdict is OutputVerdict.UNKNOWN
    assert compare(answered([], text=None), answered([1]), None).verdict is OutputVerdict.UNKNOWN


def test_disjoint_and_strangers() -> None:
    """Lists of best tokens with nothing in common are wrong; a choice that the other does not list, suspicious."""
    a = answered([1], probs=(TokenProb(1, -0.1, ((1, -0.1), (2, -3.0), (3, -3.5), (4, -4.0))),))
    b = answered([5], probs=(TokenProb(5, -0.1, ((5, -0.1), (6, -3.0), (7, -3.5), (8, -4.0))),))
    assert compare(a, b, None).verdict is OutputVerdict.WRONG
    c = answered([5], probs=(TokenProb(5, -0.1, ((5, -0.1), (2, -3.0), (3, -3.5), (4, -4.0))),))
    assert compare(a, c, None).verdict is OutputVerdict.SUSPICIOUS
    assert floor_warning(measure_floor(a, a)) is None
    assert "sensitive" in (floor_warning(Floor(0.9, 0.4, 2.0, 32)) or "")


def test_probability_zero_measures_nothing() -> None:
    """llama-server prints the lowest float for a probability of zero: no difference is taken from it."""
    low = -3.4028234663852886e38
    a = answered([1], probs=(TokenProb(1, -0.1, ((1, -0.1), (2, low))),))
    b = answered([1], probs=(TokenProb(1, -0.1, ((1, -0.1), (2, -9.0))),))
    assert compare(a, b, None).verdict is OutputVerdict.SAME


_LOGPROB = st.one_of(st.none(), st.floats(), st.floats(-30, 0))
_PROB = st.builds(
    TokenProb,
    st.integers(0, 5),
    _LOGPROB,
    st.lists(st.tuples(st.integers(0, 9), st.floats()), max_size=6).map(tuple),
)


@given(st.lists(_PROB, max_size=6), st.lists(_PROB, max_size=6))
def test_hostile_numbers(a: list[TokenProb], b: list[TokenProb]) -> None:
    """Whatever a server prints, comparing gives a verdict, and numbers that JSON can carry."""
    ours, theirs = (answered([p.token for p in side], probs=tuple(side)) for side in (a, b))
    seen = compare(ours, theirs, measure_floor(theirs, ours))
    for number in (seen.max_logprob_difference, seen.floor):
        assert number is None or 0.0 <= number < float("inf")
    assert seen.margin is None or seen.margin >= 0.0
