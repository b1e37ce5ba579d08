"""A run's verdicts in canonical form, and their digest."""

from __future__ import annotations

import msgspec

from stillruns.model.run_result import RunResult
from stillruns.store.ids import canonical, sha256_of

LATER = ("checks", "survival", "log_rank")
"""Parts that came after the first runs were recorded: left out where empty, so that old digests hold."""


def plain(result: RunResult) -> object:
    """Trials, cells and claims as plain values in a fixed order."""
    whole = msgspec.to_builtins(result, order="deterministic")
    assert isinstance(whole, dict)
    return {key: value for key, value in whole.items() if key not in LATER or value}


def digest_of(result: RunResult) -> str:
    """What `run_ended` records and replay compares with."""
    return sha256_of(canonical(plain(result)))
