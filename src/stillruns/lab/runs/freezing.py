"""Hypotheses are frozen before the first trial: their digests are in the journal, and what changes later is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from stillruns.judge.claims.hypotheses import Posed
from stillruns.model.claim import Frozen
from stillruns.model.spec import HypothesisSpec, Spec
from stillruns.store.ids import digest, without_later
from stillruns.store.store import Store

RECORD = "hypotheses_frozen"


def digests(hypotheses: Sequence[HypothesisSpec]) -> dict[str, str]:
    """Hypothesis id -> digest of all that it says."""
    return {h.id: digest(h) for h in hypotheses}


def design(spec: Spec) -> str:
    """Digest of a spec without its hypotheses: two specs of one design make the same trials."""
    plain = without_later(msgspec.to_builtins(spec))
    assert isinstance(plain, dict)
    return digest({key: value for key, value in plain.items() if key not in ("hypotheses", "path", "sha256")})


def record(spec: Spec) -> dict[str, object]:
    """The body of the journal's record: it stands before the first `trial_started`."""
    return {"hypotheses": digests(spec.hypotheses), "sha256": digest(spec.hypotheses)}


def changed(store: Store, spec: Spec) -> dict[str, str]:
    """Hypothesis id -> the last run of the same design in which one of that id said something else."""
    wanted, mine, found = design(spec), digests(spec.hypotheses), {}
    for started in store.records(kind="run_started"):
        if started.body.get("design_sha256") != wanted:
            continue
        before = started.body.get("hypotheses")
        for name, was in before.items() if isinstance(before, dict) else ():
            if name in mine and mine[name] != was:
                found[name] = started.run
    return found


def warnings(body: Mapping[str, object]) -> tuple[str, ...]:
    """What a run's first record says about hypotheses that were changed since an earlier run."""
    listed = body.get("changed_hypotheses")
    if not isinstance(listed, dict):
        return ()
    return tuple(
        f"{name} says something else than when run {run} of the same design froze it" for name, run in listed.items()
    )


def posed(store: Store, run: str, spec: Spec, others: Sequence[HypothesisSpec] = ()) -> tuple[Posed, ...]:
    """The run's own hypotheses, and others: frozen where the journal says so before the first trial, changed where it
    says otherwise, else written afterwards."""
    frozen = _frozen(store, run, spec)
    known = {h.id for h in others}
    return tuple(_posed(h, frozen) for h in (*(h for h in spec.hypotheses if h.id not in known), *others))


def _posed(hypothesis: HypothesisSpec, frozen: Mapping[str, str]) -> Posed:
    was = frozen.get(hypothesis.id)
    if was is None:
        return Posed(hypothesis, Frozen.AFTER, "written after the trials: it explores, it does not confirm")
    if was != digest(hypothesis):
        return Posed(hypothesis, Frozen.CHANGED, f"changed since it was frozen as {was[:19]}... before the trials")
    return Posed(hypothesis, Frozen.BEFORE)


def _frozen(store: Store, run: str, spec: Spec) -> dict[str, str]:
    """What the journal holds before the first trial; a run of an older version has its hypotheses in its first
    record, which is before the trials too."""
    for line in store.records(run=run):
        if line.kind == "trial_started":
            break
        if line.kind == RECORD:
            listed = line.body.get("hypotheses")
            return {str(k): str(v) for k, v in listed.items()} if isinstance(listed, dict) else {}
    return digests(spec.hypotheses)
