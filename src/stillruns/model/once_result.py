"""A user's own command, supervised once, judged."""

from __future__ import annotations

from dataclasses import dataclass, field

from stillruns.model.applied import Applied
from stillruns.model.evidence import Ref
from stillruns.model.outcome import Outcome

STOPPED_BY = "stillruns was stopped by "
"""How a note begins that names the signal which ended the command, where it was not Ctrl-C."""


@dataclass(frozen=True, slots=True)
class OnceResult:
    """`asked` are the command's own settings, `applied` what the log shows of them; `stopped_by_us` when it ended
    because we (or Ctrl-C) stopped it; `added` are variables that stillruns put into its environment; `excerpts` maps
    refs to lines; `explanation` and `next_step` come from the catalogue and may be empty.

    Told beside the verdict, in no digest of it: `started` is the command line of the llama.cpp program that a wrapper
    started, `used` the devices that its log says were in use, `system` the host in one line, `environment` the
    variables that the stack reads, `answer` what came back to our own request. `mixed` says how many llama.cpp
    programs ran at least where that is more than one, else it is 0: none of them is judged then, only how the command
    itself ended; `programs` are the command lines of those that were seen."""

    run: str
    trial: str
    argv: tuple[str, ...]
    program: str
    version: str
    devices: tuple[str, ...]
    asked: dict[str, str]
    applied: Applied
    outcome: Outcome
    stopped_by_us: bool
    tokens_per_second: float | None
    seconds: float
    explanation: str = ""
    next_step: str = ""
    notes: tuple[str, ...] = ()
    refs: tuple[Ref, ...] = ()
    added: dict[str, str] = field(default_factory=dict)
    excerpts: dict[str, str] = field(default_factory=dict)
    started: tuple[str, ...] = ()
    used: tuple[str, ...] = ()
    system: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    answer: str = ""
    mixed: int = 0
    programs: tuple[tuple[str, ...], ...] = ()
