"""Claims of runs in a store: each run's own hypotheses, others over the same cells, or over several runs together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stillruns.catalogue.load import known_issues
from stillruns.errors import UsageError
from stillruns.judge.claims import hypotheses, quoting
from stillruns.lab.runs import freezing, judging, observing
from stillruns.lab.studies import observing_study, studying
from stillruns.model.claim import Claim, Frozen
from stillruns.model.observed import ObservedCell
from stillruns.model.spec import HypothesisSpec
from stillruns.model.worklog import Finding
from stillruns.store.store import Store

AFTERWARDS = "written after the trials: it explores, it does not confirm"


@dataclass(frozen=True, slots=True)
class Claimed:
    """The claims over one set of cells. `about` names it: a run, a study and model, or several runs."""

    about: str
    claims: tuple[Claim, ...]


def of_run(store: Store, run: str, others: Sequence[HypothesisSpec] = ()) -> Claimed:
    """A matrix run's frozen hypotheses, and others over its cells. Raises UsageError for a run that is no matrix."""
    start = judging.opening(store, run)
    judged = judging.Judged(store, run, start.plans, start.spec.backends, start.engines)
    posed = freezing.posed(store, run, start.spec, others)
    return Claimed(run, hypotheses.judge(posed, judging.observed(start, judged), known_issues()))


def together(store: Store, runs: Sequence[str], others: Sequence[HypothesisSpec]) -> Claimed:
    """Hypotheses over the cells of several runs; cells that are equal in every factor are one.

    Raises UsageError without hypotheses: what one run froze is about that run.
    """
    if not others:
        raise UsageError("several runs together need hypotheses: give --hypotheses FILE or --library NAME")
    cells: list[ObservedCell] = []
    for run in runs:
        start = judging.opening(store, run)
        judged = judging.Judged(store, run, start.plans, start.spec.backends, start.engines)
        cells += judging.observed(start, judged)
    posed = [hypotheses.Posed(h, Frozen.AFTER, AFTERWARDS) for h in others]
    return Claimed(", ".join(runs), hypotheses.judge(posed, observing.merged(cells), known_issues()))


def of_study(
    store: Store, name: str, runs: Sequence[str], others: Sequence[HypothesisSpec], *, asked: bool = False
) -> list[Claimed]:
    """Hypotheses over the cells of an imported study, one model after the other; a statement that none of a model's
    cells is about is left out. Where they were `asked` for, one that is about no cell of any model is judged as such.
    Nothing was frozen before these trials."""
    posed = [hypotheses.Posed(h, Frozen.AFTER, AFTERWARDS) for h in others]
    sets = []
    models = observing_study.models(store, runs)
    for model, cells in models.items():
        claims = hypotheses.judge(posed, cells, known_issues())
        narrow = quoting.otherwise(cells, [c for other, theirs in models.items() if other != model for c in theirs])
        concerned = tuple(
            replace(c, warnings=(*narrow, *c.warnings))
            for c in claims
            if any(row.applied or row.void for row in c.counts)
        )
        if concerned:
            sets.append(Claimed(f"{name}, {model}", concerned))
    heard = {claim.id for claimed in sets for claim in claimed.claims}
    missed = [p for p in posed if p.hypothesis.id not in heard] if asked else []
    if missed:
        sets.append(Claimed(name, hypotheses.judge(missed, [c for cells in models.values() for c in cells])))
    return sets


def findings(store: Store, name: str, runs: Sequence[str]) -> tuple[Finding, ...]:
    """What an imported study's own tables could not show."""
    return studying.judge(store, name, runs).findings


def matrices(store: Store) -> tuple[str, ...]:
    """Every run of the store that is a matrix of trials of ours, oldest first."""
    return tuple(dict.fromkeys(r.run for r in store.records(kind="run_started") if not r.body.get("form")))
