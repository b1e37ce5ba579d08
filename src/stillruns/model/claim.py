"""A hypothesis after its trials."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from stillruns.model.rate import Rate


class ClaimVerdict(str, Enum):
    """What the trials say about a hypothesis."""

    SUPPORTED = "supported"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"
    VOID = "void"
    """The cells that it is about were never really tested."""
    CONFOUNDED = "confounded"
    """The numbers decide, but the sides that they compare differ in more than one factor."""


class Frozen(str, Enum):
    """When a hypothesis was written."""

    BEFORE = "before"
    """Its digest is in the journal before the first trial."""
    CHANGED = "changed"
    """One of that id was frozen with the run, and this is another."""
    AFTER = "after"
    """Written, or taken from the library, after the trials: it explores, it does not confirm."""


@dataclass(frozen=True, slots=True)
class CellCounts:
    """A row of a claim: one cell that it was decided on."""

    cell: str
    runs: tuple[str, ...]
    trials: int
    applied: int
    failed: int
    crashed: int
    passed: int
    output_unknown: int
    void: int
    unknown: int
    rate: Rate | None


@dataclass(frozen=True, slots=True)
class CellBlocks:
    """How many server processes, long-lived servers that started them, and boots the applied trials of a cell come
    from; None where that is not on record."""

    cell: str
    applied: int
    processes: int | None
    servers: int | None
    boots: int | None


@dataclass(frozen=True, slots=True)
class RateTest:
    """An exact or sequential comparison of two failure rates. `p` and `fisher` are None where the numbers of trials
    were not fixed; `adjusted` is `p` after Holm's correction over the whole evaluation."""

    what: str
    left: str
    right: str
    left_failed: int
    left_n: int
    right_failed: int
    right_n: int
    method: str
    p: float | None
    fisher: float | None
    adjusted: float | None


@dataclass(frozen=True, slots=True)
class ContrastView:
    """The comparison that a claim rests on. `differs_in` are sentences, one a factor that counts; `unknown` factors
    that the evidence does not show on some side; `separate` the smallest set of further trials that would make it
    clean. `on` says what both sides were restricted to, or is empty."""

    left: str
    right: str
    status: str
    differs_in: tuple[str, ...]
    unknown: tuple[str, ...]
    separate: tuple[str, ...]
    on: str = ""


@dataclass(frozen=True, slots=True)
class QuotedLine:
    """A line of evidence: `ref` is `TRIAL s1:L55`."""

    ref: str
    text: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A judged hypothesis. `why` is one sentence; `scope` says what its cells share and so how wide it is;
    `not_varied` lists those factors; `untested` the cells that never really ran; `would_decide` what further trials
    would decide it. `predicted` and `refuted` are what the two expressions came to (None = not decided)."""

    id: str
    text: str
    verdict: ClaimVerdict
    why: str
    scope: str
    predicted: bool | None
    refuted: bool | None
    frozen: Frozen
    runs: tuple[str, ...]
    counts: tuple[CellCounts, ...]
    tests: tuple[RateTest, ...]
    contrasts: tuple[ContrastView, ...]
    untested: tuple[str, ...]
    not_varied: tuple[str, ...]
    would_decide: tuple[str, ...]
    evidence: tuple[QuotedLine, ...]
    warnings: tuple[str, ...] = ()
    known_issues: tuple[str, ...] = field(default_factory=tuple)
    driver: str = ""
    """The drivers of its devices; empty where no device takes part, or no evidence names one."""
    driver_unknown: tuple[str, ...] = ()
    """The backends whose driver is not on record."""
    blocks: tuple[CellBlocks, ...] = ()
    sides: tuple[str, ...] = ()
    """Its cells added up by backend, and whether the device was seen to compute faster than the CPU."""
    shared: tuple[str, ...] = ()
    """Warnings: what all evidence for a rate has in common, where that is one boot or one server."""
