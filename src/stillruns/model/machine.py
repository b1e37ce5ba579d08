"""Everything that was read about a machine, as facts."""

from __future__ import annotations

from dataclasses import dataclass, field

from stillruns.model.absence import Absence
from stillruns.model.card import Card, KfdNode
from stillruns.model.code_object import CodeObjects
from stillruns.model.hip_runtime import HipRuntime
from stillruns.model.kernel_library import KernelLibrary
from stillruns.model.raw import Cite
from stillruns.model.source_build import SourceBuild
from stillruns.model.vulkan_limits import VulkanLimits


@dataclass(frozen=True, slots=True)
class Kfd:
    """The KFD topology. `present` is whether /sys/class/kfd is there; `device` is /dev/kfd's presence."""

    present: bool
    nodes: tuple[KfdNode, ...]
    cite: Cite


@dataclass(frozen=True, slots=True)
class Kernel:
    """The kernel: its release, its command line, GPU modules (`amdgpu` -> `live`) and their parameters."""

    release: str
    cmdline: str
    modules: dict[str, str]
    parameters: dict[str, str]
    iommu_groups: int | None
    cites: dict[str, Cite] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KernelSign:
    """A line of the kernel's log that bears on a gate. `id` is the catalogue's, `address` a PCI address or empty."""

    id: str
    layer: str
    severity: str
    address: str
    text: str
    cite: Cite


@dataclass(frozen=True, slots=True)
class KernelLog:
    """What the kernel's log says that bears on gates; `lines` were read, `source` is the file or the command."""

    events: tuple[KernelSign, ...]
    lines: int
    source: str


@dataclass(frozen=True, slots=True)
class Node:
    """A device node: who may open it. `access` is `rw`, `r`, `` on the live machine, `?` elsewhere."""

    path: str
    mode: int
    uid: int
    gid: int
    group: str
    access: str
    cite: Cite


@dataclass(frozen=True, slots=True)
class Permissions:
    """Device nodes and the users who want them. `groups` maps a user to the groups that /etc/group gives; `uid` and
    `gids` are this process's (None for another machine); `selinux` is enforcing, permissive or empty."""

    nodes: tuple[Node, ...]
    uid: int | None
    gids: tuple[int, ...]
    groups: dict[str, tuple[str, ...]]
    selinux: str
    cites: dict[str, Cite] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Container:
    """Whether we run in one, by what sign, and what its device cgroup allows (empty: not told)."""

    kind: str
    cite: Cite
    device_rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Firmware:
    """`wanted` is the driver's own list (from its module file; empty where it was not read), `present` the names
    under the firmware folders, without compression suffixes."""

    wanted: tuple[str, ...]
    present: frozenset[str]
    module: str
    cite: Cite


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of ROCm: `name` (a package or `rocm`), its version, and what told it (dpkg, pacman, /opt/rocm, pip)."""

    name: str
    version: str
    told_by: str
    cite: Cite


@dataclass(frozen=True, slots=True)
class VulkanDriver:
    """A driver's manifest. `library` as written; `found` is the resolved path or empty; `software` for
    rasterisers."""

    manifest: str
    library: str
    found: str
    software: bool
    api: str
    problem: str
    cite: Cite


@dataclass(frozen=True, slots=True)
class VulkanDevice:
    """A device that vulkaninfo listed."""

    name: str
    kind: str
    driver: str
    api: str
    vendor: int
    device: int
    software: bool
    cite: Cite


@dataclass(frozen=True, slots=True)
class Vulkan:
    """The loader, the drivers and what vulkaninfo said, in short and at length (absences where it was not run)."""

    loader: str
    drivers: tuple[VulkanDriver, ...]
    devices: tuple[VulkanDevice, ...] | Absence
    limits: tuple[VulkanLimits, ...] | Absence


@dataclass(frozen=True, slots=True)
class NvidiaState:
    """What nvidia-smi says of one card: `throttle` is the mask of reasons for low clocks, temperature in degrees,
    power in watts, `uncorrected` memory errors since the driver started, memory in MiB; None where it says [N/A]."""

    throttle: int | None
    temperature: int | None
    power: float | None
    power_limit: float | None
    uncorrected: int | None
    memory: int | None
    cite: Cite


@dataclass(frozen=True, slots=True)
class Nvidia:
    """The NVIDIA driver: version (of its module, else of its libcuda), model names by PCI address, and device nodes
    that are there. `minors` are the numbers of /dev/nvidiaN by address, `states` what nvidia-smi says, by address
    (empty where it was not run)."""

    driver: str
    models: dict[str, str]
    nodes: tuple[str, ...]
    library: str
    cite: Cite
    minors: dict[str, int] = field(default_factory=dict)
    states: dict[str, NvidiaState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BackendLibrary:
    """A runtime's library of one backend: `path`, and what it links (soname -> path, empty where nothing answers).
    `opens` are names that its HIP runtime opens when it needs them (dlopen), `uncached` those that lie in a folder of
    ld.so.conf and not in the loader's cache (soname -> folder)."""

    backend: str
    path: str
    links: dict[str, str] = field(default_factory=dict)
    opens: dict[str, str] = field(default_factory=dict)
    uncached: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RuntimeInstall:
    """A runtime that is installed. `version` is empty where nothing tells it; `low` and `high` bound it then.
    `loaded` are folders beside its own whose libraries it brings along; `program` is a server without libraries
    beside it, which may hold its backends itself."""

    runtime: str
    folder: str
    version: str
    told_by: str
    low: str
    high: str
    backends: tuple[BackendLibrary, ...]
    cite: Cite
    cpu_variants: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    program: str = ""


@dataclass(frozen=True, slots=True)
class Environment:
    """Variables of one process, unit or shell. `serving` is True when a model server reads them.

    Of a process: `pid`, `program` (its executable's real path, empty where it is not shown), `gids` (all its groups)
    and `readable` (False where another user's process hides its environment), `container` the kind of
    container that it runs in (empty: none seen). `unit` is a unit's name; `user` a name or, of a process, a number.
    """

    owner: str
    serving: bool
    variables: dict[str, str]
    cite: Cite
    user: str = ""
    pid: int | None = None
    program: str = ""
    gids: tuple[int, ...] = ()
    readable: bool = True
    unit: str = ""
    container: str = ""


@dataclass(frozen=True, slots=True)
class DeviceInit:
    """What a backend listed about itself in a child process (`ok` False: it died or timed out)."""

    runtime: str
    backend: str
    ok: bool
    devices: tuple[str, ...]
    text: str
    cite: Cite


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """What the store says about a target on a backend: applied trials that passed and failed, and the run. `target`
    is empty where neither the log nor the card's name tells it."""

    backend: str
    target: str
    passed: int
    failed: int
    run: str
    outcome: str


@dataclass(frozen=True, slots=True)
class Tool:
    """What another tool says about a card: `says` maps a topic to a value, to be compared with ours."""

    name: str
    address: str
    says: dict[str, str]
    cite: Cite


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as far as it was read; an absence says why a part is missing. `engines` are the container engines
    that are here, `remarks` what two sources said differently; `whole` whether the tree is a whole system (it has a C
    library), so that what is not in it is not installed."""

    name: str
    live: bool
    cards: tuple[Card, ...]
    kfd: Kfd | Absence
    kernel: Kernel | Absence
    log: KernelLog | Absence
    permissions: Permissions | Absence
    container: Container | None
    firmware: Firmware | Absence
    rocm: tuple[Piece, ...]
    vulkan: Vulkan | Absence
    nvidia: Nvidia | Absence
    cpu_name: str
    cpu_flags: frozenset[str]
    runtimes: tuple[RuntimeInstall, ...]
    environments: tuple[Environment, ...]
    code: dict[str, CodeObjects | Absence] = field(default_factory=dict)
    libraries: tuple[KernelLibrary, ...] = ()
    sources: tuple[SourceBuild, ...] = ()
    inits: tuple[DeviceInit, ...] | None = None
    runs: tuple[RunEvidence, ...] | None = None
    tools: tuple[Tool, ...] = ()
    model: str = ""
    whole: bool = True
    engines: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    hip: dict[str, HipRuntime | Absence] = field(default_factory=dict)
