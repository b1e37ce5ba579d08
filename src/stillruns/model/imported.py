"""What `stillruns import` took over."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Imported:
    """One run folder, or one log that came alone. `run` is its id in the store; `before` says that it was there
    already; `why` is set where the folder was passed over."""

    folder: str
    run: str = ""
    requests: int = 0
    files: int = 0
    before: bool = False
    why: str = ""
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Import:
    """Everything that was named: `study` is the name by which `stillruns report` knows it, `left_out` are files that
    are no log, each with why."""

    study: str
    runs: tuple[Imported, ...]
    left_out: tuple[str, ...] = ()
