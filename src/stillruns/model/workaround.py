"""A change that may make a path run, and what is known about it."""

from __future__ import annotations

from enum import Enum
from fnmatch import fnmatchcase

import msgspec

from stillruns.model.backend import Backend


class WorkaroundKind(str, Enum):
    """What kind of thing is changed."""

    BUILD = "build"
    OVERRIDE = "override"
    RUNTIME = "runtime"
    SYSTEM = "system"
    HARDWARE = "hardware"


class Workaround(msgspec.Struct, frozen=True):
    """One catalogue entry. Every field but `targets`, `runtimes` and `backends` (empty = any) is required to say
    something: an entry without a way back or a source does not load.

    `targets` are names, or `gfx*` for all of AMD's. `set_env`, `set_args` is the machine-readable change where it is
    one (`{"HSA_OVERRIDE_GFX_VERSION": "9.0.0"}`); `verify` says how to see that it took effect, `undo` how to take it
    back, `risk` what it can break, `evidence` one of measured, source, reported, folklore.
    """

    id: str
    title: str
    kind: WorkaroundKind
    change: str
    mechanism: str
    targets: tuple[str, ...]
    runtimes: tuple[str, ...]
    backends: tuple[str, ...]
    set_env: dict[str, str]
    set_args: tuple[str, ...]
    verify: str
    undo: str
    risk: str
    evidence: str
    sources: tuple[str, ...]
    read_on: str

    def fits(self, processor: str) -> bool:
        """Whether it is for that target (`gfx906`, `sm_61`): listed, or one of the family `gfx*`, and with a backend
        that the target's maker has."""
        listed = not self.targets or any(fnmatchcase(processor, target) for target in self.targets)
        foreign = {Backend.ROCM.value} if processor.startswith("sm_") else {Backend.CUDA.value}
        return listed and not (self.backends and set(self.backends) <= foreign)


class KnownIssue(msgspec.Struct, frozen=True):
    """A fault that upstream knows: where it applies and in which version it was fixed (None = not, or not known).

    An incident is this fault only where a sign is seen and every condition holds. Signs: one of the `signatures`; or
    one each of those given among `patterns` (ids of crash patterns), `lines` (expressions searched in the incident's
    lines) and `frames` (starts of function names). An entry without signs fits no incident. Conditions: `runtimes`,
    `backends`, `targets`, `models` (architectures as a model file names them), `drivers` (expressions searched in the
    device's driver), `outcomes`, `phases`, and the versions, which are those of the only runtime that is named.
    """

    id: str
    title: str
    runtimes: tuple[str, ...]
    backends: tuple[str, ...]
    targets: tuple[str, ...]
    versions_from: str | None
    versions_until: str | None
    fixed_in: str | None
    signatures: tuple[str, ...]
    sources: tuple[str, ...]
    read_on: str
    text: str
    patterns: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
