"""What a probe says about itself before it reads anything."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Probe:
    """`reads` are paths with `*` within a component, `commands` are command lines that are run only on the live
    machine and only when they are installed (never needed: what they say is compared with the files). `applies` says
    when there is anything to read; `limit` bounds one file's bytes.
    """

    id: str
    applies: str
    reads: tuple[str, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    limit: int = 1 << 20
