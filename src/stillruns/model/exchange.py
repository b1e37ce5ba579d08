"""One request to a server and its answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenProb:
    """One generated token with the log-probabilities of its best rivals: `top` is ((token id, logprob), ...),
    best first, natural logarithm. `logprob` is None where the server printed null (NaN)."""

    token: int
    logprob: float | None
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Answered:
    """The part of a completion that judgement needs. `finished` is true only when the server's own final event
    arrived: an early end of stream is no end. Rates are tokens over the server's own evaluation time, in 1/s."""

    status: int | None
    finished: bool
    text: str | None
    tokens: tuple[int, ...]
    probs: tuple[TokenProb, ...]
    prompt_tokens: int | None
    prompt_per_second: float | None
    predicted_per_second: float | None
    stop_reason: str = ""
    evaluated: int | None = None
    """Tokens of the prompt that were computed for it, those in a cache left out, as llama-server's answers say."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """What happened on the wire, in seconds since the child's start.

    `error` is empty or one line (`connection reset after 3 tokens`); `timed_out` names the deadline that passed
    (`first_token`, `token`) or is empty; `evidence` is the id of the stored response body; `answered` is None when
    no body could be read as an answer.
    """

    sent_at: float
    first_token_at: float | None
    ended_at: float
    status: int | None
    error: str
    timed_out: str
    evidence: str | None
    tokens_seen: int = 0
    lane: int = 0
    """Which of the parallel askers sent it."""
