"""The catalogue's tables that gates are judged by."""

from __future__ import annotations

from dataclasses import dataclass

from stillruns.model.target import TargetInfo
from stillruns.model.workaround import Workaround


@dataclass(frozen=True, slots=True)
class SupportRow:
    """What one source says about a target in ROCm releases `first` to `last`.

    `stream` is production or therock; `kind` official (a table of supported hardware), therock, announcement or
    library (what one library is built for); `status` supported, deprecated, removed, unsupported, not-listed or
    library-built-but-unsupported.
    """

    target: str
    stream: str
    kind: str
    status: str
    first: str
    last: str
    first_date: str
    last_date: str
    product: str
    scope: str
    source: str
    read_on: str


@dataclass(frozen=True, slots=True)
class RuntimeRow:
    """What a runtime's releases `since` to `until` are built for, delete, or filter (`facet`); `newest` when `until`
    is the newest release that was looked at."""

    runtime: str
    platform: str
    facet: str
    since: str
    since_date: str
    until: str
    newest: bool
    value: str
    place: str
    notes: str
    source: str
    read_on: str


@dataclass(frozen=True, slots=True)
class PackageRow:
    """A distribution's package and one target that it carries files for."""

    package: str
    version: str
    suite: str
    rocm: str
    library: str
    target: str
    files: int
    fallback_only: str
    path: str
    source: str
    read_on: str


@dataclass(frozen=True, slots=True)
class GpuName:
    """A PCI id (`1002:66a1`), its processor and its name in pci.ids."""

    pci_id: str
    target: str
    name: str
    source: str
    read_on: str


@dataclass(frozen=True, slots=True)
class NvidiaArchitecture:
    """A compute capability. `names` is a regular expression over model names; `last_toolkit` the last CUDA toolkit
    that compiles for it and `last_driver` the last driver branch (empty = still current)."""

    id: str
    target: str
    name: str
    names: str
    last_toolkit: str
    last_driver: str
    source: str
    read_on: str


@dataclass(frozen=True, slots=True)
class RuntimeGate:
    """A filter that a runtime applies before it tries a device. `kind` is list (a file named after the target must
    exist, and the target's major is 9 or more), probe (a child initialises the device and may die), file (as list,
    without the major), integrated (drops integrated GPUs), vulkan-off (Vulkan waits for a switch), driver-floor
    (needs NVIDIA's driver `driver` or newer) or newest-cuda (from `driver` on every card gets the newest CUDA's
    libraries); the last two only for targets below `below`, where it is given."""

    id: str
    runtime: str
    kind: str
    since: str
    until: str
    driver: str
    below: str
    text: str
    source: str
    read_on: str


@dataclass(frozen=True, slots=True)
class KernelEventRule:
    """A form of line in the kernel's log. `layer` is a layer's name, `severity` stop, warn or note; `anchor` stands
    in every matching line; the groups `id` (a PCI id), `pci` (an address
    without its function), `file`, `ring` and `code` are looked at where the rule has them."""

    id: str
    layer: str
    severity: str
    anchor: str
    regex: str
    text: str
    source: str
    read_on: str


@dataclass(frozen=True, slots=True)
class FirmwareNames:
    """How amdgpu's firmware files of a target are called. Each of `prefixes` is one chip that the target stands for;
    `whole` is True where every file of the chip has that prefix, False where others go by IP versions that only the
    running driver knows."""

    id: str
    target: str
    prefixes: tuple[str, ...]
    whole: bool
    source: str
    read_on: str


@dataclass(frozen=True, slots=True)
class MesaRow:
    """A chip that older Mesas do not know: `unknown_to` is the last series without it (`24.0`). Of newer ones it says
    nothing."""

    target: str
    unknown_to: str
    source: str
    read_on: str


@dataclass(frozen=True, slots=True)
class GateTables:
    """All of them, as `lab` hands them to normalise and judge."""

    targets: dict[str, TargetInfo]
    gpus: dict[str, GpuName]
    support: tuple[SupportRow, ...]
    runtimes: tuple[RuntimeRow, ...]
    packages: tuple[PackageRow, ...]
    nvidia: tuple[NvidiaArchitecture, ...]
    gates: tuple[RuntimeGate, ...]
    events: tuple[KernelEventRule, ...]
    firmware: tuple[FirmwareNames, ...]
    workarounds: dict[str, Workaround]
    neighbours: dict[str, tuple[str, ...]]
    """Target -> other targets whose code has no instruction that it lacks (an override may name them)."""
    mesa: dict[str, MesaRow]
    """Target -> what was read of Mesa's driver for it (RADV)."""
