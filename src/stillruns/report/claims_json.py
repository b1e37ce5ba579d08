"""Claims as the JSON document `stillruns.claims/1` (docs/schemas/claims.json), and as a part of `run --json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stillruns.model.claim import Claim
from stillruns.model.worklog import Finding
from stillruns.report.claims_text import scope
from stillruns.report.numbers import precise, rounded


def document(claims: Sequence[tuple[str, Claim]], findings: Sequence[tuple[str, Finding]] = ()) -> dict[str, Any]:
    """`claims` are pairs of what a claim is about (a run, a study) and the claim, `findings` pairs of a study and
    what threatens its own reading; p-values keep their digits."""
    return {
        "schema": "stillruns.claims/1",
        "claims": [{"about": about, **entry(claim)} for about, claim in claims],
        "findings": [
            {"about": about, "kind": f.kind, "text": f.text, "places": [list(place) for place in f.places]}
            for about, f in findings
        ],
    }


def entry(claim: Claim) -> dict[str, Any]:
    """One claim."""
    body: dict[str, Any] = msgspec.to_builtins(claim)
    tests = [precise(test) for test in body.pop("tests")]
    contrasts = body.pop("contrasts")
    body["warnings"] = [*body["warnings"], *body.pop("shared")]
    body["driver"] = claim.driver or None
    body["scope"] = scope(claim)
    del body["driver_unknown"]
    intervals = [{"cell": c["cell"], **c["rate"]} for c in body["counts"] if c["rate"] is not None]
    clean = rounded(
        {
            **body,
            "differs_in": list(dict.fromkeys(text for c in contrasts for text in c["differs_in"])),
            "unknown_factors": list(dict.fromkeys(text for c in contrasts for text in c["unknown"])),
            "interval": intervals,
        }
    )
    assert isinstance(clean, dict)
    return {**clean, "tests": tests, "contrasts": contrasts}
