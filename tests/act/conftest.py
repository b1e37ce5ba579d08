"""Fixtures of the tests of `act`: where evidence goes, and plans for the bad server."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from act_helpers import PATIENT, SERVER, Shelf, carriers, named

from real_parts import need_loopback
from stillruns.act.environment import build
from stillruns.model.spec import Timeouts
from stillruns.model.trial import TrialPlan


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    """Where evidence goes."""
    return Shelf(tmp_path / "blobs")


@pytest.fixture
def plan(request: pytest.FixtureRequest) -> Iterator[Callable[..., TrialPlan]]:
    """Plans that run the bad server with the given manners. At the end nothing that carries the marker may live."""
    need_loopback()
    name = f"{request.node.name}-{os.getpid()}-{time.monotonic_ns()}"

    def make(*manners: str, timeouts: Timeouts = PATIENT, env: dict[str, str] | None = None) -> TrialPlan:
        return TrialPlan(
            trial=name,
            run="run",
            cell="cell",
            index=0,
            argv=(sys.executable, "-I", "-S", str(SERVER), "{port}", *manners),
            env=build(os.environ, {}, env),
            ready_path="/health",
            request_path="/completion",
            request={"prompt": "x", "stream": True},
            timeouts=timeouts,
        )

    yield make
    assert carriers(name) + named(name) == [], "a process of the trial outlived it"
