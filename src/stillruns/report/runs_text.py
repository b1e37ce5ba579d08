"""The runs of a store, one line each."""

from __future__ import annotations

from collections.abc import Iterable

from stillruns.report.columns import columns
from stillruns.store.store import RunSummary


def text(runs: Iterable[RunSummary]) -> str:
    """Id, name, number of trials, and when it ended."""
    rows = [["run", "name", "trials", "ended"]]
    rows += [[r.run, r.name, str(r.trials), r.ended or "not yet"] for r in runs]
    return "\n".join(columns(rows)) + "\n"
