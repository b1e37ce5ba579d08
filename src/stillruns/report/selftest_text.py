"""The fault matrix as a table, and as JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from stillruns.model.hint import hint
from stillruns.model.selftest import FaultResult, SelftestResult
from stillruns.report.columns import PLAIN, Page, visible
from stillruns.report.numbers import rounded


def text(result: SelftestResult, page: Page = PLAIN) -> str:
    """One line a fault, the wrong ones last and marked, the count, and where more is."""
    rows = [["fault", "expected", "judged", "verdict", "detail"]]
    for entry in sorted(result.results, key=lambda e: not e.right):
        rows.append([entry.fault, entry.expected, entry.judged, "right" if entry.right else "WRONG", _detail(entry)])
    right = sum(e.right for e in result.results)
    lines = [*page.table(rows), ""]
    lines += [part for s in result.skipped for part in page.line(f"not injected: {s}", "", "  ")]
    lines += page.line(f"{right} of {len(result.results)} faults were recognised ({result.engine})", "", "  ")
    telling = [entry for entry in result.results if not entry.right] or list(result.results)
    lines += [f"evidence of one: {hint('show', telling[0].trial)}"] if telling else []
    return "\n".join(lines) + "\n"


def document(result: SelftestResult) -> dict[str, Any]:
    """`stillruns.selftest/1` (docs/schemas/selftest.json)."""
    clean = rounded({"schema": "stillruns.selftest/1", **msgspec.to_builtins(result)})
    assert isinstance(clean, dict)
    return clean


def markdown(result: SelftestResult) -> str:
    """The generated table of docs/fault-matrix.md: kinds down, phases across, and the count.

    A fault that was recognised stands as the outcome that was judged, one that was not in bold with what is wrong.
    """
    kinds = list(dict.fromkeys(e.kind for e in result.results))
    phases = list(dict.fromkeys(e.phase for e in result.results))
    cells = {(e.phase, e.kind): e for e in result.results}
    lines = ["| kind | " + " | ".join(phases) + " |", "|---" * (len(phases) + 1) + "|"]
    for kind in kinds:
        row = [_mark(cells.get((phase, kind))) for phase in phases]
        lines.append(f"| `{kind}` | " + " | ".join(row) + " |")
    right = sum(e.right for e in result.results)
    lines += [
        "",
        f"{right} of {len(result.results)} faults were recognised (llama-server {visible(result.version)}).",
    ]
    return "\n".join(lines) + "\n"


def _mark(entry: FaultResult | None) -> str:
    if entry is None:
        return ""
    if not entry.right:
        return f"**{entry.judged}** ({entry.wrong})"
    return entry.judged.removesuffix(f" in {entry.phase}")


def _detail(entry: FaultResult) -> str:
    return entry.wrong if not entry.right else entry.detail
