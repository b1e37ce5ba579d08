"""The fault matrix, run: what was injected, what it was taken for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FaultResult:
    """One injected fault. `expected` and `judged` are `outcome in phase` texts; `fired` tells that the library really
    struck; `right` needs all of: it fired, the outcome, the phase (of a failure) and the signal are as expected, and
    nothing of the trial is left alive. `wrong` says what is not right, in one line."""

    fault: str
    phase: str
    kind: str
    backend: str
    does: str
    expected: str
    judged: str
    detail: str
    fired: bool
    right: bool
    wrong: str
    trial: str
    seconds: float


@dataclass(frozen=True, slots=True)
class SelftestResult:
    """All of them; `skipped` holds sentences on what could not be injected here, `stopped` one on a Ctrl-C."""

    run: str
    results: tuple[FaultResult, ...]
    skipped: tuple[str, ...]
    engine: str
    version: str
    sha256: str
    stopped: str = ""
