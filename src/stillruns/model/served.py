"""What one server of a trial was asked in all, where that was more than one request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Slot:
    """One of the parallel askers: its requests, their tokens, and the median of the server's own rates for them, in
    tokens per second of one request's evaluation time (None without any)."""

    slot: int
    requests: int
    tokens: int
    tokens_per_second: float | None


@dataclass(frozen=True, slots=True)
class Served:
    """`requests` were sent and `answered` of them came to their end, `tokens` in all, within `seconds` from the first
    request to the end of the last; `at_once` is how many were under way together at most.

    `different` answers to the same request are not the first one's, token by token; None where requests ran in
    parallel, since a batch of several rounds differently. `unkept` answers were dropped: only their number and tokens
    are known.
    """

    requests: int
    answered: int
    tokens: int
    seconds: float
    at_once: int
    different: int | None
    unkept: int
    slots: tuple[Slot, ...]
