"""An imported study as the JSON document `stillruns.study/1` (docs/schemas/study.json)."""

from __future__ import annotations

from typing import Any

import msgspec

from stillruns.model.worklog import Study
from stillruns.report.numbers import rounded


def document(study: Study) -> dict[str, Any]:
    """The whole document; numbers have at most six decimal digits."""
    body: dict[str, Any] = {"schema": "stillruns.study/1", **msgspec.to_builtins(study)}
    body["runs"] = [{"folder": folder, "run": run, "journal": journal} for folder, run, journal in study.runs]
    for shown, finding in zip(body["findings"], study.findings, strict=True):
        shown["places"] = [{"folder": folder, "ref": ref} for folder, ref in finding.places]
    for shown, cell in zip(body["cells"], study.cells, strict=True):
        shown["outcomes"] = dict(cell.outcomes)
        shown["speed"] = dict(zip(("median", "low", "high"), cell.speed, strict=True)) if cell.speed else None
    clean = rounded(body)
    assert isinstance(clean, dict)
    return clean
