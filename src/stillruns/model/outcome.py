"""How a trial or a request ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from stillruns.model.component import Component
from stillruns.model.evidence import Ref
from stillruns.model.phase import Phase


class OutcomeKind(str, Enum):
    """Cause before manner: the first that fits, from the top."""

    OOM = "oom"
    DEVICE_LOST = "device_lost"
    HANG = "hang"
    CRASH = "crash"
    ABORT = "abort"
    ERROR = "error"
    WRONG_OUTPUT = "wrong_output"
    NOT_READY = "not_ready"
    INTERRUPTED = "interrupted"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`signal` is a name such as `SIGSEGV` or None; `detail` keeps the manner in one line; `key_line` is the single
    most telling line of evidence (None when no line tells)."""

    kind: OutcomeKind
    phase: Phase
    signal: str | None = None
    exit_status: int | None = None
    detail: str = ""
    components: tuple[Component, ...] = ()
    key_line: Ref | None = None
    key_text: str = ""
    refs: tuple[Ref, ...] = ()

    @property
    def text(self) -> str:
        """The manner, or else the kind and the phase: `crash in prompt`."""
        return self.detail or f"{self.kind.value} in {self.phase.value}"
