"""What logs that came alone show of how far their sides can be compared."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from stillruns.judge.cells import contrast
from stillruns.model.evidence import Ref
from stillruns.model.observed import ObservedCell
from stillruns.model.wording import enumerated
from stillruns.model.worklog import Finding, StudyRequest


def findings(cells: Sequence[ObservedCell], requests: Sequence[StudyRequest]) -> tuple[Finding, ...]:
    """One for each pair of sides that no comparison can keep apart, then trials of unknown condition."""
    sides: dict[str, list[ObservedCell]] = {}
    for cell in cells:
        if cell.applied and cell.factors.get("backend"):
            sides.setdefault(cell.side, []).append(cell)
    found = []
    for a, b in itertools.combinations(sides, 2):
        left, right, on = contrast.common(sides[a], sides[b])
        seen = contrast.compare(left, right)
        others = [f"{name} ({x} against {y})" for name, (x, y) in seen.free.items() if name != "backend"]
        missing = [name for name in seen.unknown if name != "backend"]
        if not others and not missing:
            continue
        parts = []
        if others:
            parts.append(f"differ in {enumerated(others)} too: a difference between them is confounded with that")
        if missing:
            parts.append(f"do not both show {enumerated(missing)}: whether they are alike in it is not known")
        places = [_place(requests, side) for side in (a, b)]
        where = f" (on {on})" if on else ""
        found.append(Finding("sides", f"{a} and {b}{where} {'; they '.join(parts)}", tuple(p for p in places if p)))
    unsure = [r for r in requests if r.applied.value == "unknown"]
    for why in dict.fromkeys(r.why for r in unsure):
        group = [r for r in unsure if r.why == why]
        text = f"{len(group)} of {len(requests)} trials have no known condition and enter no rate: {why}"
        found.append(Finding("unknown condition", text, tuple((r.run, r.access_ref) for r in group if r.access_ref)))
    return tuple(found)


def _place(requests: Sequence[StudyRequest], side: str) -> tuple[str, Ref] | None:
    for request in requests:
        if request.side.value == side and request.runner_ref:
            return request.run, request.runner_ref
    return None
