"""How a child process ended and what it used."""

from __future__ import annotations

from dataclasses import dataclass

from stillruns.model.absence import Absence


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """One child's end as the kernel tells it.

    `exit_status` and `signal` are exclusive; both are None when the process could not be reaped (state D after
    SIGKILL). `stopped_by_us` is the signal that we sent to end it, or None when it ended by itself: a SIGTERM of
    ours is no crash. `max_rss_kib`, `cpu_seconds` come from the kernel's accounting of that child.
    """

    exit_status: int | None
    signal: str | None
    core_dumped: bool
    stopped_by_us: str | None
    seconds: float
    cpu_seconds: float
    max_rss_kib: int
    orphans_killed: int = 0


@dataclass(frozen=True, slots=True)
class CoreNotes:
    """What the notes of a core file tell without a debugger.

    `signal` by name, `fault_address` where the signal carries one, `module` and `offset` of the instruction pointer
    (module is the mapped file's path, or None when it points into no file), `modules` all mapped files.
    """

    signal: str | None
    fault_address: int | None
    instruction_pointer: int | None
    module: str | None
    offset: int | None
    modules: tuple[str, ...]
    threads: int


CoreResult = CoreNotes | Absence
