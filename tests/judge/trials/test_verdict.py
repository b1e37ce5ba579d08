"""Tests of judge/trials/verdict.py: a trial put together."""

from __future__ import annotations

from typing import Any

from judge_samples import (
    ENGINE,
    NO_ANSWER,
    answered,
    condition,
    died,
    exchange,
    facts,
    on_the_cpu,
    record,
    with_probs,
)
from stillruns.judge.trials.verdict import speed, trial
from stillruns.model.agreement import OutputVerdict
from stillruns.model.backend import Backend
from stillruns.model.exchange import Answered, TokenProb
from stillruns.model.floor import Floor
from stillruns.model.outcome import OutcomeKind
from stillruns.model.phase import Phase
from stillruns.model.server_facts import Timing
from stillruns.model.verdict import TrialVerdict

FLOOR = Floor(0.01, 0.005, 0.05, 32)
GOOD = with_probs([1, 2, 3, 4])


def judged(answer: Answered | Any = GOOD, reference: Answered | None = GOOD, **changes: Any) -> TrialVerdict:
    """A healthy Vulkan trial with another answer."""
    seen = changes.pop("facts", facts())
    asked = changes.pop("condition", condition())
    return trial(asked, ENGINE, seen, record(asked, **changes), answer, reference, FLOOR)


def test_a_pass_needs_three_things() -> None:
    """A clean outcome, applied = yes, and sane output: only then it passes."""
    good = judged()
    assert good.passed and good.counts and not good.void
    assert good.agreement is not None and good.agreement.verdict is OutputVerdict.SAME
    assert (good.tokens_per_second, good.seconds) == (500.0, 1.5)
    void = judged(facts=on_the_cpu())
    assert void.void and not void.passed and not void.counts
    wrong = judged(with_probs([1, 2, 3, 4], shift=3.0))
    assert wrong.counts and not wrong.passed
    assert (wrong.outcome.kind, wrong.outcome.phase) == (OutcomeKind.WRONG_OUTPUT, Phase.DECODE)
    assert wrong.outcome.detail.startswith("wrong output: no divergence, ")


def test_suspicious_passes() -> None:
    """Suspicious is flagged, not failed."""
    seen = judged(with_probs([1, 2, 3, 4], shift=0.5))
    assert seen.passed and seen.agreement is not None and seen.agreement.verdict is OutputVerdict.SUSPICIOUS


def test_failed_trials_are_not_compared() -> None:
    """Half an answer before a crash has no output verdict."""
    lost = exchange(error="connection reset after 2 tokens", tokens_seen=2)
    seen = judged(with_probs([1, 2]), end=died("SIGSEGV"), exchange=lost, stop_sent_at=None)
    assert seen.outcome.kind is OutcomeKind.CRASH and seen.agreement is None and not seen.passed


def test_unknown_outputs() -> None:
    """No reference yet, or no stored text: unknown with the reason, and the trial still passes."""
    for seen in (judged(reference=None), judged(NO_ANSWER)):
        assert seen.agreement is not None and seen.agreement.verdict is OutputVerdict.UNKNOWN and seen.agreement.why
        assert seen.passed


def test_the_reference_itself() -> None:
    """The reference is the reference, unless it prints NaN."""
    asked = condition(backend=Backend.CPU, is_reference=True)
    seen = judged(reference=None, condition=asked, facts=on_the_cpu())
    assert seen.passed and seen.agreement is not None and seen.agreement.verdict is OutputVerdict.REFERENCE
    nan = answered([0], probs=(TokenProb(0, None),))
    bad = judged(nan, None, condition=asked, facts=on_the_cpu())
    assert bad.outcome.kind is OutcomeKind.WRONG_OUTPUT
    assert bad.agreement is not None and bad.agreement.verdict is OutputVerdict.WRONG


def test_nan_without_a_reference() -> None:
    """NaN needs no reference to be wrong."""
    nan = answered([0], probs=(TokenProb(0, None),))
    seen = judged(nan, None)
    assert seen.outcome.kind is OutcomeKind.WRONG_OUTPUT
    assert seen.agreement is not None and seen.agreement.verdict is OutputVerdict.WRONG


def test_speed_from_the_log() -> None:
    """Where the answer has no rate, the server's own timing lines give tokens over evaluation time."""
    timed = facts(timings=(Timing(19, 1.01, 4, 0.5, "s0:L186"),))
    seen = judged(answered(predicted_per_second=None), None, facts=timed)
    assert seen.tokens_per_second == 8000.0
    assert judged(answered([1], predicted_per_second=None), None).tokens_per_second is None


def test_one_token_has_no_speed() -> None:
    """llama-server reports 1000000 tokens/s for the one token that the prompt's evaluation gave."""
    assert speed(facts(), [answered([5], predicted_per_second=1e6)]) is None
    assert speed(facts(), [answered([5, 6], predicted_per_second=50.0)]) == 50.0
    rates = [answered([5, 6], predicted_per_second=rate) for rate in (10.0, 30.0, 20.0)]
    assert speed(facts(), rates) == 20.0
