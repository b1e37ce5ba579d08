"""A fact that is not there, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class AbsenceReason(str, Enum):
    """Why a value is missing. There is no silent default anywhere."""

    NOT_INSTALLED = "NOT_INSTALLED"
    NO_PERMISSION = "NO_PERMISSION"
    TIMED_OUT = "TIMED_OUT"
    UNPARSABLE = "UNPARSABLE"
    NOT_COLLECTED = "NOT_COLLECTED"
    HIDDEN = "HIDDEN"
    """The runtime knows it but does not print it at this verbosity."""
    REDACTED = "REDACTED"


@dataclass(frozen=True, slots=True)
class Absence:
    """`detail` is one sentence for a person; `hint` says what would bring the value, or is empty."""

    reason: AbsenceReason
    detail: str = ""
    hint: str = ""
