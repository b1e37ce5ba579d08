"""One target of fuzzing, and how one input is tried."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from types import FrameType

FLOOR = 0.5
"""CPU seconds that any input may cost, however small."""
PER_MEGABYTE = 1.0
HANG = 30.0
"""CPU seconds after which an input is given up."""


class TooSlow(Exception):
    """More than a second a megabyte."""


@dataclass(frozen=True, slots=True)
class Target:
    """`seeds` are good inputs, `check` raises on a broken promise, `inputs` gives damaged ones for ever (or, where it
    ends, all there are)."""

    name: str
    seeds: Callable[[], Sequence[bytes]]
    check: Callable[[bytes], object]
    inputs: Callable[[Sequence[bytes], Random], Iterator[bytes]]
    floor: float = FLOOR
    total: Callable[[Sequence[bytes]], int] | None = None
    """How many inputs there are, where that is a number."""


def trial(target: Target, data: bytes, slower: float = 1.0) -> None:
    """Raises what the target raises, and TooSlow. The time is CPU time of this process, measured again before it is
    believed: a machine may be busy. `slower`: how many times slower this machine may be than the one for which the
    limits were written."""
    allowed = slower * max(target.floor, PER_MEGABYTE * len(data) / 1e6)
    with _limit():
        for _ in range(3):
            began = time.process_time()
            target.check(data)
            taken = time.process_time() - began
            if taken <= allowed:
                return
    raise TooSlow(f"{taken:.2f} s for {len(data)} bytes")


@contextlib.contextmanager
def _limit() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise TooSlow(f"more than {HANG:.0f} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, HANG)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
