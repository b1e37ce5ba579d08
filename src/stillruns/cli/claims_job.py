"""What `stillruns claims` does once its arguments are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from stillruns.cli.output import emit_json, emit_text, page
from stillruns.errors import ExitCode, UsageError
from stillruns.lab import claiming
from stillruns.lab.claiming import Claimed
from stillruns.lab.runs import judging
from stillruns.lab.specs import hypothesis_file
from stillruns.lab.studies import studying
from stillruns.model.claim import ClaimVerdict
from stillruns.model.hint import hint
from stillruns.model.spec import HypothesisSpec
from stillruns.report import claims_json, claims_text
from stillruns.store.opening import open_store
from stillruns.store.store import Store


def print_library(*, as_json: bool) -> None:
    """Every hypothesis that ships with the package."""
    library = hypothesis_file.library()
    if as_json:
        emit_json({"schema": "stillruns.hypotheses/1", "hypotheses": [msgspec.to_builtins(h) for h in library]})
        return
    emit_text("\n".join(page().table([["name", "statement"], *([h.id, h.text] for h in library)])))


def run(
    runs: Sequence[str],
    files: Sequence[Path],
    names: Sequence[str],
    *,
    together: bool,
    fail_on: str,
    as_json: bool,
    store_dir: Path | None,
) -> ExitCode:
    """0 whatever the verdicts are, 1 when one is among `fail_on`."""
    wanted = {word.strip() for word in fail_on.split(",") if word.strip()}
    known = {verdict.value for verdict in ClaimVerdict}
    if wanted - known:
        raise UsageError(f"--fail-on knows {', '.join(sorted(known))}; not {', '.join(sorted(wanted - known))}")
    others = _others(files, names)
    with open_store(store_dir, create=False) as store:
        sets = _sets(store, runs, others, together=together)
        studies = studying.names(store)
        found = [
            (name, finding)
            for name in (studies if not runs else [n for n in runs if n in studies])
            for finding in claiming.findings(store, name, studies[name])
        ]
    pairs = [(s.about, claim) for s in sets for claim in s.claims]
    if as_json:
        emit_json(claims_json.document(pairs, found))
    else:
        emit_text(claims_text.text(pairs, page()) + claims_text.findings(found, page()))
    return ExitCode.NO if wanted & {claim.verdict.value for _, claim in pairs} else ExitCode.COMPLETE


def _sets(store: Store, runs: Sequence[str], others: Sequence[HypothesisSpec], *, together: bool) -> list[Claimed]:
    studies = studying.names(store)
    named = [name for name in runs if name in studies] if runs else list(studies)
    own = [judging.resolve_run(store, name) for name in runs if name not in studies]
    if not runs:
        own = list(claiming.matrices(store))
    if not named and not own:
        raise UsageError(f"the store {store.path} holds no experiment; start one with: {hint('demo')}")
    if together:
        return [claiming.together(store, own, others)]
    found: list[Claimed] = []
    for name in named:
        found += claiming.of_study(
            store, name, studies[name], others or hypothesis_file.library(), asked=bool(others)
        )
    return [*found, *(claiming.of_run(store, run, others) for run in own)]


def _others(files: Sequence[Path], names: Sequence[str]) -> tuple[HypothesisSpec, ...]:
    found: list[HypothesisSpec] = []
    for path in files:
        found += hypothesis_file.load(path)
    if names:
        found += hypothesis_file.library(() if "all" in names else names)
    ids = [h.id for h in found]
    for name in ids:
        if ids.count(name) > 1:
            raise UsageError(f"the hypothesis {name} is given twice")
    return tuple(found)
