"""One trial, judged: its outcome, whether its condition was applied, and whether its output is sane."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median

from stillruns.judge.answers import agreement, heard
from stillruns.judge.trials import applied, outcome
from stillruns.model.absence import Absence
from stillruns.model.agreement import WORST_FIRST, Agreement, OutputVerdict
from stillruns.model.component import Component
from stillruns.model.condition import Condition
from stillruns.model.engine import Engine
from stillruns.model.exchange import Answered, Exchange
from stillruns.model.floor import Floor
from stillruns.model.outcome import Outcome, OutcomeKind
from stillruns.model.phase import Phase
from stillruns.model.server_facts import ServerFacts
from stillruns.model.trial import TrialRecord
from stillruns.model.verdict import TrialVerdict


def trial(
    condition: Condition,
    engine: Engine | None,
    facts: ServerFacts | Absence,
    record: TrialRecord,
    answered: Answered | Absence,
    reference: Answered | None = None,
    floor: Floor | None = None,
    others: Sequence[tuple[Exchange, Answered]] = (),
    weights: str = "",
) -> TrialVerdict:
    """Judge a trial from its record and from what was read out of its evidence.

    `reference` is the reference's answer to the same question and `floor` the measured rounding; None where there is
    none (yet): then the output is unknown, and may be judged again later. `others` are the answers to the trial's
    other requests: the worst of all is the trial's. `weights` is the type of the model's weights, empty if not known.
    """
    every = list(others)
    if record.exchange is not None and isinstance(answered, Answered):
        every.append((record.exchange, answered))
    evaluated = [told.evaluated for _, told in every if told.evaluated is not None]
    proof, placement = applied.judge(condition, engine, facts, record, evaluated)
    ended = outcome.judge(record, facts, answered)
    output = _output(condition, ended, answered, reference, floor, weights)
    for _, other in others if output is not None else ():
        output = _worse(output, _output(condition, ended, other, reference, floor, weights))
    if ended.kind is OutcomeKind.OK and output is not None and output.verdict is OutputVerdict.WRONG:
        ended = _wrong(ended, output, answered)
    return TrialVerdict(
        trial=record.trial,
        cell=record.cell,
        index=record.index,
        outcome=ended,
        applied=proof,
        placement=placement,
        agreement=output,
        tokens_per_second=speed(facts, [a for _, a in every]),
        prompt_per_second=_median([a.prompt_per_second for _, a in every]),
        served=heard.served(record, every),
        seconds=record.end.seconds if record.end is not None else record.sighting.ended_at,
    )


def _output(
    condition: Condition,
    ended: Outcome,
    answered: Answered | Absence,
    reference: Answered | None,
    floor: Floor | None,
    weights: str,
) -> Agreement | None:
    """None where the trial failed otherwise: half an answer is not compared."""
    if ended.kind not in (OutcomeKind.OK, OutcomeKind.WRONG_OUTPUT):
        return None
    if isinstance(answered, Absence):
        return agreement.unknown(answered.detail or "the answer was not stored")
    if agreement.first_nan(answered) is not None:
        return agreement.compare(answered, answered, floor)
    if condition.is_reference:
        return agreement.reference(answered)
    if reference is None:
        return agreement.unknown("there is no answer of a reference to compare with")
    return agreement.compare(answered, reference, floor, weights)


def _wrong(ended: Outcome, output: Agreement, answered: Answered | Absence) -> Outcome:
    """A wrong answer is an outcome of its own; who is at fault, the answer does not say. An answer that is one token
    again and again was wrong from its first token on, which the prompt gives."""
    stuck = isinstance(answered, Answered) and agreement.one_token(answered)
    phase = Phase.PROMPT if stuck or output.first_divergence == 0 else Phase.DECODE
    return replace(
        ended,
        kind=OutcomeKind.WRONG_OUTPUT,
        phase=phase,
        detail=f"wrong output: {output.why}",
        components=(Component.UNKNOWN,),
    )


def _worse(one: Agreement | None, other: Agreement | None) -> Agreement | None:
    """The worse of two; an answer that could be compared tells more than one that could not."""
    found = [a for a in (one, other) if a is not None]
    return min(found, key=lambda a: WORST_FIRST.index(a.verdict), default=None)


def speed(facts: ServerFacts | Absence, answers: Sequence[Answered]) -> float | None:
    """Generated tokens per second of the server's own evaluation time, the median of a trial's requests: from the
    answers, else from its log. None for answers of a single token."""
    rates = [heard.speed(a) for a in answers]
    if answers and all(len(a.tokens or a.probs) == 1 for a in answers):
        return None
    known = _median(rates)
    if known is not None:
        return known
    if isinstance(facts, ServerFacts):
        for timing in reversed(facts.timings):
            if timing.predicted_tokens and timing.predicted_tokens > 1 and timing.predicted_ms:
                return 1000.0 * timing.predicted_tokens / timing.predicted_ms
    return None


def _median(rates: Iterable[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return median(known) if known else None
