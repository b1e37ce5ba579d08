"""What was imported, as text and as JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from stillruns.model.hint import hint
from stillruns.model.imported import Import, Imported
from stillruns.report.columns import PLAIN, Page, visible


def text(result: Import, page: Page = PLAIN) -> str:
    """One line a run folder, and how to go on."""
    rows = [["folder or log", "requests", "files", "run"]]
    rows += [[visible(r.folder), str(r.requests), str(r.files), _state(r)] for r in result.runs]
    lines = page.table(rows)
    lines += [f"left out: {visible(r.folder)}/{visible(name)}" for r in result.runs for name in r.left_out]
    lines += [f"left out: {visible(name)}" for name in result.left_out]
    taken = [r for r in result.runs if r.run]
    new = sum(not r.before for r in taken)
    lines += [
        "",
        f"{new} runs imported, {len(taken) - new} were there already; "
        f"{sum(r.requests for r in taken)} requests in all",
    ]
    lines += [f"see: {hint('report', result.study)}"] if taken else []
    return "\n".join(lines) + "\n"


def document(result: Import) -> dict[str, Any]:
    """`stillruns.import/1` (docs/schemas/import.json)."""
    body: dict[str, Any] = {"schema": "stillruns.import/1", **msgspec.to_builtins(result)}
    return body


def _state(entry: Imported) -> str:
    if entry.why:
        return f"passed over: {entry.why}"
    return f"{entry.run} (there already)" if entry.before else entry.run
