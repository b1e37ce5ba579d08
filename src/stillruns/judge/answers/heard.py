"""What a server was asked in all: how often, for how long, how many at once, what each slot did."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from stillruns.model.exchange import Answered, Exchange
from stillruns.model.served import Served, Slot
from stillruns.model.trial import TrialRecord
from stillruns.model.verdict import TrialVerdict

Told = tuple[Exchange, Answered]


def served(record: TrialRecord, answers: Sequence[Told]) -> Served | None:
    """None for a trial of one request."""
    exchanges = record.exchanges
    if len(exchanges) < 2:
        return None
    lanes = sorted({e.lane for e in exchanges})
    return Served(
        requests=len(exchanges) + record.unkept,
        answered=sum(_whole(e) for e in exchanges) + record.unkept,
        tokens=sum(e.tokens_seen for e in exchanges) + record.unkept_tokens,
        seconds=seconds(record),
        at_once=at_once(exchanges),
        different=None if len(lanes) > 1 else _different([a for _, a in answers if a.finished]),
        unkept=record.unkept,
        slots=tuple(_slot(lane, exchanges, answers) for lane in lanes),
    )


def seconds(record: TrialRecord) -> float:
    """From the first request to the end of the last; 0 without any."""
    exchanges = record.exchanges
    return max(e.ended_at for e in exchanges) - exchanges[0].sent_at if exchanges else 0.0


def at_once(exchanges: Sequence[Exchange]) -> int:
    """How many requests were under way together at most."""
    moments = sorted([(e.sent_at, 1) for e in exchanges] + [(e.ended_at, -1) for e in exchanges])
    most = now = 0
    for _, step in moments:
        now += step
        most = max(most, now)
    return most


def speed(answered: Answered) -> float | None:
    """Generated tokens per second of the server's own evaluation time.

    None for a single token: it comes out of the prompt's evaluation, and its own time is a clock's tick.
    """
    return None if len(answered.tokens or answered.probs) == 1 else answered.predicted_per_second


def not_repeated(verdict: TrialVerdict) -> str:
    """One sentence when a server gave other tokens to the same request, asked one at a time and without a cache."""
    seen = verdict.served
    if seen is None or not seen.different:
        return ""
    return (
        f"{verdict.cell}: {seen.different} of {seen.answered} answers of one server ({verdict.trial}) to the same "
        "greedy request are not the first one's: its arithmetic does not repeat itself"
    )


def _slot(lane: int, exchanges: Sequence[Exchange], answers: Sequence[Told]) -> Slot:
    mine = [e for e in exchanges if e.lane == lane]
    rates = [rate for e, a in answers if e.lane == lane and (rate := speed(a)) is not None]
    return Slot(lane, len(mine), sum(e.tokens_seen for e in mine), median(rates) if rates else None)


def _different(answers: Sequence[Answered]) -> int:
    first = answers[0].tokens or answers[0].text if answers else None
    return sum((a.tokens or a.text) != first for a in answers[1:])


def _whole(exchange: Exchange) -> bool:
    return not (exchange.error or exchange.timed_out) and exchange.status == 200
