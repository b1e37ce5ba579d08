"""A whole run, judged: what `run --json` and `demo --json` print."""

from __future__ import annotations

from dataclasses import dataclass

from stillruns.model.cell import Cell
from stillruns.model.claim import Claim
from stillruns.model.divergence import Check
from stillruns.model.survival import LogRank, Survival
from stillruns.model.verdict import TrialVerdict


@dataclass(frozen=True, slots=True)
class RunWarning:
    """`kind` is a short word (`confounded`, `skipped`, `engine`), `text` one sentence, `refs` places."""

    kind: str
    text: str
    refs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunResult:
    """`complete` is true when every cell is decided: enough applied trials, none left."""

    run: str
    spec_sha256: str
    name: str
    question: str
    cells: tuple[Cell, ...]
    verdicts: tuple[TrialVerdict, ...]
    warnings: tuple[RunWarning, ...]
    complete: bool
    claims: tuple[Claim, ...] = ()
    checks: tuple[Check, ...] = ()
    survival: tuple[Survival, ...] = ()
    log_rank: tuple[LogRank, ...] = ()
    """Where runs died after their first token: the curves of all tested cells, and tests between sides."""
    undecided: tuple[str, ...] = ()
    """Cells whose sequential test was not decided within their trials."""
    shared: tuple[RunWarning, ...] = ()
    """What all evidence for a rate has in common: warnings that came after the first runs were recorded."""
