"""The runs of a store, one line each."""

from __future__ import annotations

from collections.abc import Iterable

from stillruns.report.columns import PLAIN, Page
from stillruns.store.store import RunSummary


def text(runs: Iterable[RunSummary], page: Page = PLAIN) -> str:
    """Id, name, number of trials, and when it ended, to the second."""
    rows = [["run", "name", "trials", "ended"]]
    rows += [[r.run, r.name, str(r.trials), _second(r.ended) if r.ended else "unfinished"] for r in runs]
    return "\n".join(page.table(rows)) + "\n"


def _second(at: str) -> str:
    """`2026-11-30T10:17:23.269118Z` without its fraction."""
    return at.split(".")[0].rstrip("Z") + "Z"
