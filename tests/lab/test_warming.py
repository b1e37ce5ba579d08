"""A warming trial is not cut off by deadlines that were meant for warm shaders."""

from __future__ import annotations

from stillruns.lab.running import patient
from stillruns.lab.selftest import TIMEOUTS
from stillruns.model.spec import Timeouts


def test_short_deadlines_are_raised() -> None:
    """The self-test's, too short for a driver that compiles, become the defaults."""
    assert patient(TIMEOUTS) == Timeouts()


def test_long_deadlines_are_kept() -> None:
    """A spec that waits longer than the defaults still does."""
    assert patient(Timeouts(load=900.0, token=5.0)) == Timeouts(load=900.0)
