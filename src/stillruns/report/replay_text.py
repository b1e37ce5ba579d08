"""A replay as text and as the JSON document `stillruns.replay/1` (docs/schemas/replay.json)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from stillruns.report.columns import PLAIN, Page


class Entry(Protocol):
    """What is known of one replayed run."""

    run: str
    form: str
    sha256: str
    verdicts: bytes
    recorded: str
    by: str
    failed: str


def document(found: Sequence[Any], other: Mapping[str, str], *, verdicts: bool) -> dict[str, Any]:
    """One entry a run. `other` maps runs to digests that another machine came to, and goes before what is on
    record."""
    return {"schema": "stillruns.replay/1", "runs": [_entry(r, other.get(r.run, ""), verdicts) for r in found]}


def _entry(one: Entry, other: str, verdicts: bool) -> dict[str, Any]:
    expected = other or one.recorded
    verdict = "failed" if one.failed else "not recorded"
    if expected and not one.failed:
        verdict = "same" if one.sha256 == expected else "differs"
    body = {
        "run": one.run,
        "form": one.form,
        "verdict": verdict,
        "sha256": one.sha256,
        "expected": expected,
        "recorded_by": one.by,
        "failed": one.failed,
    }
    return {**body, "verdicts": json.loads(one.verdicts)} if verdicts and one.verdicts else body


def text(document: Mapping[str, Any], page: Page = PLAIN) -> str:
    """One line a run, and a sum."""
    runs = document["runs"]
    rows = [["run", "form", "verdicts", "digest"]]
    rows += [[r["run"], r["form"], r["failed"] or r["verdict"], r["sha256"][:23]] for r in runs]
    count = {word: sum(r["verdict"] == word for r in runs) for word in ("same", "differs", "not recorded", "failed")}
    total = ", ".join(f"{number} {word}" for word, number in count.items() if number) or "no run"
    return "\n".join([*page.table(rows), "", total]) + "\n"
