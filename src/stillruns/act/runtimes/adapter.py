"""What every runtime adapter can do. tests/test_conformance.py finds each module with an `ADAPTER` and calls it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from stillruns.model.backend import Runtime
from stillruns.model.condition import Condition
from stillruns.model.engine import Engine
from stillruns.model.spec import Timeouts
from stillruns.model.trial import TrialPlan
from stillruns.proc import Finished


@dataclass(frozen=True, slots=True)
class FoundRuntime:
    """A runtime on this machine: `binary` is a path (or the address of a running server), `found_by` says which place
    it came from, `env` is what must be set for it to run."""

    binary: str
    found_by: str
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProbeOutput:
    """What the binary says about itself, raw. Each part is a whole run, so a probe that hung or crashed shows too.

    `help` its options, `devices` what it lists, `version` its version, `system` a start that ends before any model is
    loaded but after the line with the CPU features. For an attached server the parts are its HTTP answers, see
    runtimes/openai.py.
    """

    help: Finished
    devices: Finished
    version: Finished
    system: Finished


@dataclass(frozen=True, slots=True)
class Occasion:
    """What one execution of a condition has of its own: the trial's id, its run and cell, its `index` among
    the cell's trials, how long each phase may take, the shell's environment, and the cards to sample meanwhile."""

    trial: str
    run: str
    cell: str
    index: int
    timeouts: Timeouts
    environ: Mapping[str, str]
    sample_devices: tuple[str, ...] = ()


class Adapter(Protocol):
    """One runtime."""

    runtime: Runtime

    def find(self, binary: str, environ: Mapping[str, str]) -> FoundRuntime:
        """Where it is; `binary` is what the spec says, or empty. Raises EnvironmentLacks when it is nowhere."""
        ...

    def probe(
        self,
        found: FoundRuntime,
        prefix: tuple[str, ...] = (),
        *,
        environ: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        args: tuple[str, ...] = (),
        timeout: float = 60.0,
    ) -> ProbeOutput:
        """Ask it, in the environment that trials get: `environ` is the shell's (default ours), `env` the spec's."""
        ...

    def plan(self, condition: Condition, engine: Engine, occasion: Occasion) -> TrialPlan:
        """The complete plan of one trial of this condition. Pure: it starts nothing and reads nothing."""
        ...
