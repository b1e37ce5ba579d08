"""A run's verdicts as plain values, whatever its form, and the digest of their canonical form."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stillruns import __version__
from stillruns.model.once_result import OnceResult
from stillruns.model.run_result import RunResult
from stillruns.model.worklog import Study
from stillruns.store.ids import canonical, sha256_of

LATER = ("checks", "survival", "log_rank", "floors")
"""Parts that came after the first runs were recorded: left out where empty, so that old digests hold."""
BESIDE = ("shared", "blocks", "driver", "driver_unknown", "sides")
"""Parts that say again what counts, scopes and circumstances hold: they are in no digest."""

TOLD = ("started", "used", "system", "environment", "answer", "mixed", "programs")
"""Parts of a supervised command's report that are no verdict on it."""

LATER_PATHS = ("decode", "decode_floor", "text", "again")
"""The same within a check."""

LATER_MEASURED = ("prompt_per_second",)
"""Measurements of a trial that came later and that no verdict uses."""


def plain(result: RunResult) -> object:
    """Trials, cells and claims as plain values in a fixed order; circumstances are no verdict."""
    whole = msgspec.to_builtins(result, order="deterministic")
    assert isinstance(whole, dict)
    del whole["met"]
    for check in whole["checks"]:
        for name in LATER_PATHS:
            if check[name] is None:
                del check[name]
    for test in whole["log_rank"]:
        if test["unit"] == "tokens":
            del test["unit"]
    for verdict in whole["verdicts"]:
        for name in LATER_MEASURED:
            del verdict[name]
        if verdict["served"] is None:
            del verdict["served"]
    whole["claims"] = [{key: value for key, value in c.items() if key not in BESIDE} for c in whole["claims"]]
    return {key: value for key, value in whole.items() if key not in BESIDE and (key not in LATER or value)}


def of_once(results: Sequence[OnceResult]) -> object:
    """The verdicts on supervised commands, likewise; what is told beside them is no part."""
    plain = [msgspec.to_builtins(result) for result in results]
    return [{key: value for key, value in one.items() if key not in TOLD} for one in plain]


def of_study(study: Study) -> object:
    """The verdicts on an imported run, likewise."""
    whole = msgspec.to_builtins(study, order="deterministic")
    assert isinstance(whole, dict)
    for request in whole["requests"]:
        if request["client"]:
            del request["client"], request["told"]  # what only logs that came alone have
    return whole


def record(verdicts: object) -> dict[str, object]:
    """What `run_ended` records and replay compares with: the digest of plain verdicts, and who came to them."""
    return {"version": __version__, "verdicts_sha256": sha256_of(canonical(verdicts))}
