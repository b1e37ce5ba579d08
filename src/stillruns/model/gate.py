"""The verdict on one layer for one path, and what follows from all of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from stillruns.model.absence import AbsenceReason
from stillruns.model.raw import Cite


class GateStatus(str, Enum):
    """`unlisted` is "not on the official list": it blocks nothing."""

    ALLOW = "allow"
    BLOCK = "block"
    PARTIAL = "partial"
    UNLISTED = "unlisted"
    UNKNOWN = "unknown"


class Layer(str, Enum):
    """One place that can stop a path, from the paper down to the run."""

    SUPPORT = "official support"
    BUILD_FILTER = "build filter"
    CODE_OBJECTS = "code objects"
    KERNEL_LIBRARIES = "kernel libraries"
    MODEL_NEEDS = "model needs"
    RUNTIME_FILTER = "runtime filter"
    FIRMWARE = "firmware"
    KERNEL_DRIVER = "kernel driver"
    PERMISSIONS = "permissions"
    BUS = "bus and board"
    POWER = "power and heat"
    VERSIONS = "versions"
    VULKAN = "Vulkan"
    HOST_CPU = "host CPU"
    SOURCE_MACROS = "source macros"
    ENVIRONMENT = "environment"
    DEVICE_INIT = "device init"
    EXECUTION = "execution"


@dataclass(frozen=True, slots=True)
class Gate:
    """`path` is a backend's name or `any`; `device` a PCI address, or None for a target that no card here has.

    `reason` is one line. `absent` says why a fact is missing. `workarounds` are catalogue ids that bear on this gate;
    `weight` orders advice (0: says nothing, higher: more likely the cause). `doubt` marks an unknown verdict that may
    well be a block: its path is not called open.
    """

    layer: Layer
    path: str
    target: str
    device: str | None
    status: GateStatus
    reason: str
    evidence: tuple[Cite, ...] = ()
    absent: AbsenceReason | None = None
    workarounds: tuple[str, ...] = ()
    advice: str = ""
    weight: int = 0
    doubt: bool = False


class PathStatus(str, Enum):
    """What the gates together say. `open` means that nothing that was read stops it; only a run proves it."""

    OPEN = "open"
    STOPPED = "stopped"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class GatePath:
    """A backend on a target on a card."""

    path: str
    target: str
    device: str | None
    status: PathStatus
    stopped_by: tuple[Layer, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Advice:
    """One piece of advice, tied to a gate. `gate` is the layer's name. `workarounds` are in the order of what they
    change, the least first; `one_is_enough`: they are ways around one obstacle, of which one is to be chosen."""

    rank: int
    text: str
    path: str
    gate: Layer
    workarounds: tuple[str, ...]
    one_is_enough: bool = False


@dataclass(frozen=True, slots=True)
class CardAnswer:
    """The one-line answer to "why was my GPU skipped?" for one card."""

    device: str | None
    name: str
    target: str
    text: str


@dataclass(frozen=True, slots=True)
class GateMatrix:
    """Everything that `check` prints. `machine` names the tree that was judged (`/`, a sysroot, a snapshot)."""

    machine: str
    targets: tuple[str, ...]
    gates: tuple[Gate, ...]
    paths: tuple[GatePath, ...]
    cards: tuple[CardAnswer, ...]
    advice: tuple[Advice, ...]
    notes: tuple[str, ...] = ()
