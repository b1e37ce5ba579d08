"""A run's verdicts in canonical form, and their digest."""

from __future__ import annotations

import msgspec

from stillruns.model.run_result import RunResult
from stillruns.store.ids import canonical, sha256_of


def plain(result: RunResult) -> object:
    """Trials, cells and claims as plain values in a fixed order."""
    return msgspec.to_builtins(result, order="deterministic")


def digest_of(result: RunResult) -> str:
    """What `run_ended` records and replay compares with."""
    return sha256_of(canonical(plain(result)))
