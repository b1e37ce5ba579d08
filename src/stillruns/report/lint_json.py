"""`lint --json` (schema `stillruns.lint/1`, docs/schemas/lint.json)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stillruns.model.lint import LintItem, LintResult

SCHEMA = "stillruns.lint/1"


def document(results: Sequence[LintResult]) -> dict[str, Any]:
    """The whole answer. `corrected` is the text of the only recipe that changes; with several, each has its own under
    `recipes`."""
    changed = [result.corrected for result in results if result.corrected is not None]
    return {
        "schema": SCHEMA,
        "clean": all(result.clean for result in results),
        "items": [_item(item) for result in results for item in result.items],
        "corrected": changed[0] if len(changed) == 1 else None,
        "recipes": [_recipe(result) for result in results],
    }


def _recipe(result: LintResult) -> dict[str, Any]:
    return {
        "path": result.recipe,
        "form": result.form,
        "against": [
            {"name": a.name, "how": a.how, "version": a.version or None, "place": a.place or None}
            for a in result.against
        ],
        "corrected": result.corrected,
        "edits": [{"line": e.line, "before": e.before, "after": e.after, "why": e.why} for e in result.edits],
        "still_open": list(result.still_open),
        "notes": list(result.notes),
    }


def _item(item: LintItem) -> dict[str, Any]:
    return {
        "kind": item.kind.value,
        "name": item.name,
        "value": item.value,
        "program": item.program or None,
        "said": item.said,
        "verdict": item.verdict.value,
        "value_verdict": item.value_verdict.value if item.value_verdict else None,
        "why": item.why,
        "reader": item.reader,
        "effect": item.effect,
        "default": item.default or None,
        "accepts": item.accepts or None,
        "since": item.since,
        "until": item.until,
        "use": item.use,
        "evidence": [
            {"kind": c.kind, "place": c.place, "text": c.text, "source": c.source or None} for c in item.evidence
        ],
    }
