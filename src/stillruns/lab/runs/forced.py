"""A check's evidence as chains of positions: the distribution after each longer prefix, by the path that computed it.

Each request names what was fed and the token that was to come next; a prefix that is one element longer than the one
before it, asked the same way, goes on with its chain. The server's timing lines tell how many tokens each request had
evaluated, or its answers where the log lacks lines: on the decode path it has to be one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stillruns.lab.runs import reading
from stillruns.model.divergence import Path
from stillruns.model.exchange import Answered, Exchange, TokenProb
from stillruns.model.server_facts import ServerFacts
from stillruns.store.store import Store


@dataclass(frozen=True, slots=True)
class Chain:
    """Positions in their order. `tokens` are those that came next, None where the request does not tell;
    `recomputed` is the most tokens that one of its further positions had evaluated, None where that is not shown."""

    path: Path
    positions: tuple[TokenProb, ...]
    tokens: tuple[int | None, ...]
    recomputed: int | None = None


@dataclass(frozen=True, slots=True)
class _Position:
    path: Path
    length: int
    prob: TokenProb
    token: int | None
    evaluated: int | None


def told(store: Store, read: reading.Reading) -> tuple[tuple[Chain, ...], tuple[TokenProb, TokenProb] | None]:
    """All chains of a check, up to the first position without log-probabilities, and what its first request got at
    first and again at the end; None for the latter where it was not asked again, or either has none."""
    record = read.record
    timings = read.facts.timings if isinstance(read.facts, ServerFacts) else ()
    bodies, exchanges = reading.Bodies(store, record), record.exchanges
    shown = _evaluated([t.prompt_tokens for t in timings], len(exchanges), record.unkept)
    last = None
    if _asked_again(bodies, exchanges):
        last = _position(bodies, exchanges[-1], None)
        exchanges, shown = exchanges[:-1], shown[:-1]
    found: list[list[_Position]] = []
    for exchange, evaluated in zip(exchanges, shown, strict=True):
        position = _position(bodies, exchange, evaluated)
        if position is None:
            break
        if found and _goes_on(found[-1][-1], position):
            found[-1].append(position)
        else:
            found.append([position])
    again = (found[0][0].prob, last.prob) if found and last else None
    return tuple(_chain(part) for part in found), again


def _asked_again(bodies: reading.Bodies, exchanges: Sequence[Exchange]) -> bool:
    if len(exchanges) < 2:
        return False
    first = bodies.request(exchanges[0])
    return bool(first) and first == bodies.request(exchanges[-1])


def _evaluated(timings: list[int | None], kept: int, unkept: int) -> list[int | None]:
    """How many tokens each kept request had evaluated; None for each where the log has not one timing for every
    request. Of a trial with unkept answers the first half and the last half were kept."""
    if len(timings) != kept + unkept:
        return [None] * kept
    return [*timings[: kept // 2], *timings[kept // 2 + unkept :]]


def _goes_on(last: _Position, this: _Position) -> bool:
    return this.path is last.path and this.length == last.length + 1


def _chain(part: list[_Position]) -> Chain:
    evaluated = [p.evaluated for p in part[1:]]
    known = [n for n in evaluated if n is not None]
    return Chain(
        part[0].path,
        tuple(p.prob for p in part),
        tuple(p.token for p in part),
        max(known, default=0) if len(known) == len(evaluated) else None,
    )


def _position(bodies: reading.Bodies, exchange: Exchange, evaluated: int | None) -> _Position | None:
    told = bodies.answer(exchange)
    if not isinstance(told, Answered) or not told.probs:
        return None
    asked = bodies.request(exchange)
    prompt = asked.get("prompt")
    length = len(prompt) if isinstance(prompt, list) else 1
    path = Path.DECODE if asked.get("cache_prompt") is True else Path.PROMPT
    shown = told.evaluated if evaluated is None else evaluated
    return _Position(path, length, told.probs[0], _next(asked), shown)


def _next(asked: dict[str, object]) -> int | None:
    bias = asked.get("logit_bias")
    first = bias[0] if isinstance(bias, list) and bias else None
    return first[0] if isinstance(first, list) and first and isinstance(first[0], int) else None
