"""A run as the JSON document `stillruns.run/1` (docs/schemas/run.json)."""

from __future__ import annotations

from typing import Any

import msgspec

from stillruns.model.cell import Cell
from stillruns.model.divergence import Check
from stillruns.model.known_floor import KnownFloor
from stillruns.model.observed import Circumstances
from stillruns.model.run_result import RunResult
from stillruns.model.verdict import TrialVerdict
from stillruns.report import claims_json
from stillruns.report.numbers import precise, rounded


def document(result: RunResult) -> dict[str, Any]:
    """The whole document; numbers have at most six decimal digits."""
    body: dict[str, Any] = {
        "schema": "stillruns.run/1",
        "run": result.run,
        "spec_sha256": result.spec_sha256,
        "name": result.name,
        "question": result.question,
        "complete": result.complete,
        "undecided": list(result.undecided),
        "cells": [_cell(cell) for cell in result.cells],
        "trials": [_trial(v, order, result.met.get(v.trial)) for order, v in enumerate(result.verdicts, 1)],
        "claims": [claims_json.entry(claim) for claim in result.claims],
        "warnings": [msgspec.to_builtins(w) for w in (*result.warnings, *result.shared)],
        "checks": [_check(check) for check in result.checks],
        "floors": [_floor(floor) for floor in result.floors],
        "survival": [msgspec.to_builtins(curve) for curve in result.survival],
        "log_rank": [msgspec.to_builtins(test) for test in result.log_rank],
    }
    clean = rounded({key: value for key, value in body.items() if key not in ("claims", "checks", "floors")})
    assert isinstance(clean, dict)
    return {key: clean.get(key, body[key]) for key in body}


def _check(check: Check) -> dict[str, Any]:
    """Divergences keep six significant digits: healthy ones are small."""
    body: dict[str, Any] = msgspec.to_builtins(check)
    for name in ("seen", "floor", "decode", "decode_floor", "text", "again"):
        if body[name] is not None:
            body[name] = precise(body[name])
    return body


def _floor(floor: KnownFloor) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.to_builtins(floor)
    return {**body, "seen": precise(body["seen"])}


def _cell(cell: Cell) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.to_builtins(cell)
    if not cell.unverified:
        del body["unverified"]
    if not cell.shown:
        del body["shown"]
    return body


def _trial(verdict: TrialVerdict, order: int, met: Circumstances | None) -> dict[str, Any]:
    body = {
        "trial": verdict.trial,
        "cell": verdict.cell,
        "index": verdict.index,
        "outcome": verdict.outcome.kind.value,
        "phase": verdict.outcome.phase.value,
        "signal": verdict.outcome.signal,
        "detail": verdict.outcome.detail,
        "components": [c.value for c in verdict.outcome.components],
        "applied": verdict.applied.status.value,
        "why": verdict.applied.why,
        "passed": verdict.passed,
        "output": verdict.agreement.verdict.value if verdict.agreement else None,
        "output_why": verdict.agreement.why if verdict.agreement else None,
        "output_floor": verdict.agreement.floor if verdict.agreement else None,
        "tokens_per_second": verdict.tokens_per_second,
        "seconds": verdict.seconds,
        "prompt_per_second": verdict.prompt_per_second,
        "order": order,
        "started": met.order if met else None,
        "measured": dict(met.measured) if met else {},
    }
    return body if verdict.served is None else {**body, "served": msgspec.to_builtins(verdict.served)}
