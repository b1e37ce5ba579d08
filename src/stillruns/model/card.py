"""A GPU of a machine, as the kernel shows it."""

from __future__ import annotations

from dataclasses import dataclass, field

from stillruns.model.raw import Cite


@dataclass(frozen=True, slots=True)
class Link:
    """A PCIe link. Speeds in GT/s, widths in lanes; None where the file was not there."""

    speed: float | None
    width: int | None
    max_speed: float | None
    max_width: int | None


@dataclass(frozen=True, slots=True)
class PciDevice:
    """A display or accelerator function. `address` is `0000:04:00.0`; `bars` are sizes in bytes of the non-empty
    regions and `starts` their addresses; `upstream` are the bridges above, nearest first, with their links."""

    address: str
    vendor: int
    device: int
    subsystem: str
    revision: int
    device_class: int
    driver: str
    numa: int | None
    iommu_group: str
    link: Link | None
    bars: tuple[int, ...]
    upstream: tuple[tuple[str, Link], ...]
    starts: tuple[int, ...] = ()
    cites: dict[str, Cite] = field(default_factory=dict)

    @property
    def pci_id(self) -> str:
        """`1002:66a1`."""
        return f"{self.vendor:04x}:{self.device:04x}"


@dataclass(frozen=True, slots=True)
class KfdNode:
    """A node of the KFD topology. `number` counts CPUs too; `version` is gfx_target_version (None on old kernels);
    `address` comes from location_id and domain; `memory` in bytes (0 = not told); `links` the nodes it has links to.
    `sramecc` is the bit that says whether ECC of the shader memories is on (None where capability is missing)."""

    number: int
    name: str
    simd_count: int
    version: int | None
    vendor: int
    device: int
    address: str
    render_minor: int
    memory: int
    sramecc: bool | None
    fw_version: int | None
    links: tuple[int, ...]
    cite: Cite

    @property
    def is_gpu(self) -> bool:
        """CPUs are nodes too."""
        return self.simd_count > 0


@dataclass(frozen=True, slots=True)
class DrmNode:
    """A DRM node of a card: `card0` or `renderD128`, and the PCI address it belongs to."""

    name: str
    address: str


@dataclass(frozen=True, slots=True)
class Temperature:
    """One sensor in degrees Celsius; `critical` None where the driver gives none."""

    label: str
    now: float
    critical: float | None


@dataclass(frozen=True, slots=True)
class CardState:
    """What the driver tells about one card. Sizes in bytes, power in watts, clocks in MHz; None = not told.

    `asleep` says that the card is suspended and was not woken. `errors` are counts by block: (uncorrectable,
    correctable). `metrics` is the driver's gpu_metrics table as read, `product` the name in the board's memory."""

    address: str
    asleep: bool = False
    vram: int | None = None
    visible_vram: int | None = None
    gtt: int | None = None
    vbios: str = ""
    performance_level: str = ""
    busy_percent: int | None = None
    sclk: tuple[int, int] | None = None
    mclk: tuple[int, int] | None = None
    power: float | None = None
    power_cap: float | None = None
    power_cap_default: float | None = None
    temperatures: tuple[Temperature, ...] = ()
    fan_rpm: int | None = None
    replays: int | None = None
    errors: dict[str, tuple[int, int]] = field(default_factory=dict)
    metrics: bytes = b""
    product: str = ""
    cites: dict[str, Cite] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU, joined from every source. `target` is a target id with the features that are known
    (`gfx906:sramecc+`), empty when nothing tells it; `target_from` says what told it. `integrated` is None where
    nobody knows."""

    address: str
    name: str
    vendor: int
    target: str
    target_from: str
    integrated: bool | None
    pci: PciDevice | None
    kfd: KfdNode | None
    drm: tuple[DrmNode, ...]
    state: CardState | None
    cite: Cite

    @property
    def processor(self) -> str:
        """The target without its features."""
        return self.target.partition(":")[0]

    @property
    def render_node(self) -> str:
        """`renderD128`, or empty."""
        return next((node.name for node in self.drm if node.name.startswith("renderD")), "")
