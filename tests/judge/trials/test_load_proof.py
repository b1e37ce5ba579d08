"""The promise: a load that a server did not bear makes the trial void, by its own lines; a failure
under it counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from judge_samples import answered, condition, exchange, facts, record
from stillruns.judge.answers import heard
from stillruns.judge.trials import load_proof, settings_proof
from stillruns.judge.trials.view import TrialView
from stillruns.model.applied import Answer
from stillruns.model.exchange import Exchange
from stillruns.model.server_facts import Timing
from stillruns.model.trial import TrialRecord


def sent(lane: int = 0, at: float = 0.5, until: float = 2.0, **changes: Any) -> Exchange:
    """One of several requests."""
    return replace(exchange(), sent_at=at, ended_at=until, lane=lane, **changes)


def of(*exchanges: Exchange, **changes: Any) -> TrialRecord:
    """A record of these; the last is the one that decides."""
    return replace(record(), more=exchanges[:-1], exchange=exchanges[-1], **changes)


def view(asked: dict[str, Any], seen: TrialRecord, **printed: Any) -> TrialView:
    """A trial that asked for a load, with these lines of the server's."""
    return TrialView(condition(**asked), facts(**printed), None, seen)


def slots(number: int, context: int = 2048) -> dict[str, Any]:
    """The settings that a server with so many slots prints."""
    return {**facts().settings, "n_seq_max": (str(number), "s0:L109"), "n_ctx": (str(context), "s0:L110")}


TOGETHER = tuple(sent(lane) for lane in range(4))


@pytest.mark.parametrize(
    ("seen", "settings", "status", "why"),
    [
        (of(*TOGETHER), slots(4), Answer.YES, "4 requests at once on 4 slots"),
        (of(*TOGETHER), slots(1), Answer.NO, "other number of slots"),
        (of(*TOGETHER), facts().settings, Answer.UNKNOWN, "nothing shows the number of slots"),
        (of(*TOGETHER[:3], sent(3, 2.5, 3.0)), slots(4), Answer.NO, "not at once: 3 requests of 4"),
        (of(sent(0), sent(1, status=None, error="reset")), slots(4), Answer.YES, "2 requests at once"),
    ],
)
def test_slots(seen: TrialRecord, settings: dict[str, Any], status: Answer, why: str) -> None:
    """As many slots as asked, by the server's line, and as many requests under way together."""
    found = load_proof.prove(view({"concurrency": 4}, seen, settings=settings))["concurrency"]
    assert (found.status, why in found.why) == (status, True), found.why


def test_the_context_is_that_of_a_slot() -> None:
    """Four slots of 512 are 2048 in the server's line; 512 there would be a quarter for each."""
    asked = {"concurrency": 4, "context": 512}
    good = settings_proof.prove(view(asked, of(*TOGETHER), settings=slots(4, 2048)), None)["context"]
    bad = settings_proof.prove(view(asked, of(*TOGETHER), settings=slots(4, 512)), None)["context"]
    assert (good.status, bad.status) == (Answer.YES, Answer.NO)


def test_prompt_tokens() -> None:
    """The server's timing line says how many tokens it evaluated; without one, a failure counts and an answer not."""
    timing = Timing(90, 1.0, 32, 1.0, "s0:L200")
    asked = {"prompt_tokens": 90}
    broken = of(sent(), sent(status=None, error="reset"))
    for seen, timings, status in (
        (of(sent()), (timing,), Answer.YES),
        (of(sent()), (Timing(88, 1.0, 32, 1.0, "s0:L200"),), Answer.NO),
        (of(sent()), (), Answer.UNKNOWN),
        (broken, (), Answer.YES),
    ):
        assert load_proof.prove(view(asked, seen, timings=timings))["prompt_tokens"].status is status


def test_prompt_tokens_of_a_log_that_ends_early() -> None:
    """Where the log lost its last lines, the answers say how many tokens were evaluated; its log comes first."""
    asked = {"prompt_tokens": 90}
    for evaluated, status in (((90, 90), Answer.YES), ((90, 88), Answer.NO), ((), Answer.UNKNOWN)):
        seen = replace(view(asked, of(sent()), timings=()), evaluated=evaluated)
        assert load_proof.prove(seen)["prompt_tokens"].status is status
    printed = view(asked, of(sent()), timings=(Timing(90, 1.0, 32, 1.0, "s0:L200"),))
    assert load_proof.prove(replace(printed, evaluated=(88,)))["prompt_tokens"].status is Answer.YES


def test_duration_and_epochs() -> None:
    """A healthy server that was asked for less is void; one that failed bore what it bore."""
    short, long = of(sent(), sent(at=2.0, until=4.0)), of(sent(), sent(at=2.0, until=11.0))
    dead = of(sent(), sent(at=2.0, until=2.5, status=None, error="reset"))
    for seen, status in ((short, Answer.NO), (long, Answer.YES), (dead, Answer.YES)):
        assert load_proof.prove(view({"duration": 10.0}, seen))["duration"].status is status
    for seen, epochs, status in ((short, 2, Answer.YES), (short, 3, Answer.NO), (dead, 3, Answer.YES)):
        assert load_proof.prove(view({"epochs": epochs}, seen))["epochs"].status is status
    assert load_proof.prove(view({}, short)) == {}


def test_what_was_served() -> None:
    """Slots apart, unkept answers counted, a repeated question answered otherwise noticed; one request is no load."""
    same = answered([1, 2, 3], predicted_per_second=10.0)
    other = answered([1, 2, 9], predicted_per_second=30.0)
    first, second, third = sent(), sent(at=2.0, until=3.0), sent(at=3.0, until=4.0)
    seen = heard.served(of(first, second, third, unkept=5, unkept_tokens=50), list(zip(
        (first, second, third), (same, same, other), strict=True
    )))  # fmt: skip
    assert seen is not None
    assert (seen.requests, seen.answered, seen.different, seen.unkept) == (8, 8, 1, 5)
    assert seen.tokens == 3 * first.tokens_seen + 50
    assert seen.slots[0].tokens_per_second == 10.0
    parallel = heard.served(of(*TOGETHER), [(e, same) for e in TOGETHER])
    assert parallel is not None
    assert (parallel.at_once, parallel.different, len(parallel.slots)) == (4, None, 4)
    assert heard.served(of(sent()), []) is None
