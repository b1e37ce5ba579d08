"""The `[stop]` table of a spec: when a cell is decided."""

from __future__ import annotations

from pathlib import Path

import msgspec

from stillruns.errors import SpecError
from stillruns.model.spec import Decide, StopRule

FUTILITY = 0.05
"""What `futility` is where `decide` stands without it."""


class DecideTable(msgspec.Struct, forbid_unknown_fields=True):
    """`decide` as it is written."""

    fail_below: float
    fail_above: float
    error: float = 0.05


class StopTable(msgspec.Struct, forbid_unknown_fields=True):
    """`[stop]` as it is written; None where a field was not."""

    trials: int | None = None
    max_voids: int = 3
    max_minutes: float = 0.0
    decide: DecideTable | None = None
    min_trials: int | None = None
    max_trials: int | None = None
    futility: float | None = None


def stop_rule(table: StopTable, path: Path) -> StopRule:
    """A fixed number of trials, or a sequential test with its own bounds: what of the one is given with the other
    would silently mean nothing."""
    given = {"max_voids": table.max_voids, "max_minutes": table.max_minutes}
    own = {name: getattr(table, name) for name in ("trials", "min_trials", "max_trials", "futility")}
    for name, value in own.items():
        if value is None:
            continue
        if (name == "trials") is (table.decide is not None):
            raise SpecError(
                f"{path}: [stop] {name} "
                + ("cannot stand beside decide; give max_trials" if name == "trials" else "needs decide; give trials")
            )
        given[name] = value
    if table.decide is None:
        return StopRule(**given)  # type: ignore[arg-type]
    decide = Decide(**msgspec.structs.asdict(table.decide))
    if not 0 < decide.fail_below < decide.fail_above < 1 or not 0 < decide.error < 0.5:
        raise SpecError(
            f"{path}: [stop] decide needs 0 < fail_below < fail_above < 1 and 0 < error < 0.5, such as "
            "{ fail_below = 0.05, fail_above = 0.5, error = 0.05 }"
        )
    given.setdefault("futility", FUTILITY)
    rule = StopRule(decide=decide, **given)  # type: ignore[arg-type]
    if not 1 <= rule.min_trials <= rule.max_trials <= 100_000:
        raise SpecError(f"{path}: [stop] needs 1 <= min_trials <= max_trials <= 100000")
    if not 0 <= rule.futility < 1:
        raise SpecError(
            f"{path}: [stop] futility is a probability below 1; 0 waits until nothing can decide a cell any more"
        )
    return rule
