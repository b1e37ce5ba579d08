"""A cell before its trials: what is to be run, and when it is enough."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from stillruns.model.condition import Condition
from stillruns.model.spec import StopRule


@dataclass(frozen=True, slots=True)
class CellPlan:
    """`id` is the cell's name in DESIGN's `--cell` form (`backend=vulkan,gpu_layers=2,context=1024`).

    `is_reference` marks the added reference cells, which enter no rate: the reference itself, and its floor path
    (`is_floor`), which runs the same question on a second healthy path so that the difference of the two measures
    rounding. `reference` is the id of the reference plan that this cell's output is compared with (for a floor path:
    the reference that it belongs to and in whose row it is counted), or empty when there is none. `stop` says when
    the cell is decided.
    """

    id: str
    condition: Condition
    stop: StopRule
    is_reference: bool = False
    is_floor: bool = False
    reference: str = ""


class CellState(str, Enum):
    """How far a cell is."""

    OPEN = "open"
    """More trials are to be run."""
    DECIDED = "decided"
    """Enough applied trials."""
    UNDECIDED = "undecided"
    """Its trials are spent, or the rest of them could not decide its sequential test any more."""
    VOID = "void"
    """Given up: its condition was not applied, again and again."""
    UNKNOWN = "unknown"
    """Given up: nothing shows whether its condition was applied (an attached server without a log)."""
