"""A plan as text, and as the document `stillruns.plan/1` (docs/schemas/plan.json)."""

from __future__ import annotations

from typing import Any

import msgspec

from stillruns.model.run_plan import Question, RunPlan
from stillruns.report.columns import PLAIN, Page
from stillruns.report.numbers import rounded

MOST_CELLS = 40


def text(plan: RunPlan, page: Page = PLAIN) -> str:
    """The cells, what they cost, what they can show."""
    lines = [*page.line(f"plan {plan.name}: nothing was started"), ""]
    shown = [*plan.references, *plan.cells]
    lines += [part for cell in shown[:MOST_CELLS] for part in page.line(cell, "  ")]
    if len(shown) > MOST_CELLS:
        lines.append(f"  and {len(shown) - MOST_CELLS} more")
    told = (plan.cost, plan.question.sentence if plan.question else plan.shows, *plan.notes)
    return "\n".join([*lines, "", *(part for line in told for part in page.line(line, "", "  "))]) + "\n"


def document(plan: RunPlan | None, question: Question | None) -> dict[str, Any]:
    """One form for both: a spec's plan, and the question alone."""
    found = rounded(
        {
            "schema": "stillruns.plan/1",
            "plan": msgspec.to_builtins(plan) if plan else None,
            "question": msgspec.to_builtins(question) if question else None,
        }
    )
    assert isinstance(found, dict)
    if found["plan"] is not None:
        del found["plan"]["question"]
    return found
