"""A run's verdicts in canonical form, and their digest."""

from __future__ import annotations

import msgspec

from stillruns.model.run_result import RunResult
from stillruns.store.ids import canonical, sha256_of

LATER = ("checks", "survival", "log_rank", "floors")
"""Parts that came after the first runs were recorded: left out where empty, so that old digests hold."""

LATER_PATHS = ("decode", "decode_floor", "text")
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
    for verdict in whole["verdicts"]:
        for name in LATER_MEASURED:
            del verdict[name]
        if verdict["served"] is None:
            del verdict["served"]
    return {key: value for key, value in whole.items() if key not in LATER or value}


def digest_of(result: RunResult) -> str:
    """What `run_ended` records and replay compares with."""
    return sha256_of(canonical(plain(result)))
