"""A whole run, judged: what `run --json` and `demo --json` print."""

from __future__ import annotations

from dataclasses import dataclass, field

from stillruns.model.cell import Cell
from stillruns.model.claim import Claim
from stillruns.model.divergence import Check
from stillruns.model.known_floor import KnownFloor
from stillruns.model.observed import Circumstances
from stillruns.model.survival import LogRank, Survival
from stillruns.model.verdict import TrialVerdict


@dataclass(frozen=True, slots=True)
class RunWarning:
    """`kind` is a word or two for what it is about (`speed`, `floor`, `not tested`), `text` one sentence, `refs`
    places."""

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
    floors: tuple[KnownFloor, ...] = ()
    """What the run's checks measured, by architecture, quantisation, card and path."""
    met: dict[str, Circumstances] = field(default_factory=dict)
    """What each trial met: when it began, and what the devices said then."""
    shared: tuple[RunWarning, ...] = ()
    """What all evidence for a rate has in common: warnings that came after the first runs were recorded."""
