"""Bus and board: memory windows, link, atomics, IOMMU, NUMA, peers."""

from __future__ import annotations

from stillruns.judge.gates.path_view import PathView
from stillruns.model.absence import AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.card import Card, Link
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.machine import Kernel
from stillruns.model.raw import Cite

LAYER = Layer.BUS
DECIDES = (
    "the visible memory window against the memory, link width and speed up to the root, PCIe atomics, lines "
    "about missing "
    "windows, NUMA node, IOMMU mode, links between cards"
)


def judge(view: PathView) -> Gate | None:
    """`block` when the slot cannot do what the chip needs, `partial` for a narrow link or a small window."""
    card = view.card
    if card is None or view.backend is Backend.CPU:
        return None
    atomics = [event for event in view.events(LAYER) if event.id == "atomics"]
    if atomics and view.backend is Backend.ROCM:
        return view.gate(
            LAYER, GateStatus.BLOCK, atomics[0].text, atomics[0].cite, weight=79,
            advice="move the card to a slot of the CPU's own lanes, or use Vulkan",
            workarounds=("slot-with-atomics", "prefer-vulkan"),
        )  # fmt: skip
    problems: list[tuple[str, Cite | None, str]] = []
    link = _narrowest(card)
    if link is not None:
        problems.append(link)
    window = _window(card)
    if window is not None:
        problems.append(window)
    for event in view.events(LAYER):
        if event.id in ("bar-no-space", "pcie-errors"):
            problems.append((event.text, event.cite, "above-4g-decoding" if event.id == "bar-no-space" else ""))
    facts = "; ".join(filter(None, (_link_text(card), _board(view, card), _too_high(view, card))))
    if (
        not problems
        and (card.pci is None or not card.pci.link or card.pci.link.width is None)
        and _size(card) is None
    ):
        text = f"neither the link nor the memory window of the card was readable{'; ' if facts else ''}{facts}"
        return view.unknown(LAYER, text, AbsenceReason.NOT_COLLECTED, card.cite)
    if not problems:
        cite = card.pci.cites.get("current_link_width") if card.pci else None
        return view.gate(LAYER, GateStatus.ALLOW, facts or "nothing odd on the bus", cite or card.cite)
    text = "; ".join(text for text, _, _ in problems)
    return view.gate(
        LAYER, GateStatus.PARTIAL, f"{text}; {facts}" if facts else text, *(cite for _, cite, _ in problems),
        weight=20,
        advice=f"look at the slot and the board's settings: {problems[0][0]}",
        workarounds=tuple(dict.fromkeys(name for _, _, name in problems if name)),
    )  # fmt: skip


def _narrowest(card: Card) -> tuple[str, Cite | None, str] | None:
    """The narrowest link between the card and the root; a lower speed alone may be power saving and is told only."""
    if card.pci is None:
        return None
    links = ([(card.address, card.pci.link)] if card.pci.link else []) + list(card.pci.upstream)
    for place, link in links:
        if link.width and link.max_width and link.width < link.max_width and link.width < 8:
            where = "" if place == card.address else f" at the bridge {place}"
            text = f"link x{link.width} of x{link.max_width}{where}: loading and splitting over cards are slow"
            return text, card.pci.cites.get("current_link_width"), "equal-lanes"
    return None


def _size(card: Card) -> int | None:
    return card.state.visible_vram if card.state else None


def _window(card: Card) -> tuple[str, Cite | None, str] | None:
    state = card.state
    if state is None or not state.vram or not state.visible_vram or state.visible_vram >= state.vram:
        return None
    text = f"the CPU sees {state.visible_vram >> 20} of {state.vram >> 20} MiB (no resizable BAR)"
    return text, state.cites.get("mem_info_vis_vram_total"), "above-4g-decoding"


def _too_high(view: PathView, card: Card) -> str:
    """Neighbours whose memory window lies above what this chip can address: peer copies to them are not possible."""
    bits = view.info.dma_bits if view.info else 0
    high = [
        other.address
        for other in view.machine.cards
        if bits and other.pci is not None and other.address != card.address and other.vendor == card.vendor
        if any(start + size > 1 << bits for start, size in zip(other.pci.starts, other.pci.bars, strict=False))
    ]
    if not high:
        return ""
    return f"no peer copies to {', '.join(high)}: its window lies above {bits} bits (lower-mmio-window)"


def _link_text(card: Card) -> str:
    link: Link | None = card.pci.link if card.pci else None
    if link is None or link.width is None or link.speed is None:
        return ""
    slow = link.max_speed is not None and link.speed < link.max_speed
    return f"{link.speed:g} GT/s x{link.width}" + (f" of {link.max_speed:g} (may be power saving)" if slow else "")


def _board(view: PathView, card: Card) -> str:
    """NUMA, IOMMU, and the neighbours."""
    parts = []
    if card.pci is not None and card.pci.numa is not None:
        parts.append(f"NUMA node {card.pci.numa}")
    kernel = view.machine.kernel
    if isinstance(kernel, Kernel) and kernel.iommu_groups:
        parts.append("IOMMU passthrough" if "iommu=pt" in kernel.cmdline else "IOMMU on (translated)")
    same = [c for c in view.machine.cards if c.vendor == card.vendor and c.address != card.address]
    if view.backend is Backend.ROCM and card.kfd is not None:
        peers = [c for c in same if c.kfd is not None]
        linked = [c for c in peers if c.kfd and c.kfd.number in card.kfd.links]
        if peers:
            parts.append(f"direct links to {len(linked)} of {len(peers)} other cards")
        kinds = sorted({c.processor for c in peers if c.processor} - {card.processor})
        if kinds:
            parts.append(f"shares the host with {', '.join(kinds)}")
        mixed = {c.target for c in peers if c.processor == card.processor} - {card.target}
        if mixed:
            parts.append(f"another card of it is {', '.join(sorted(mixed))}")
    if {c.vendor for c in view.machine.cards} >= {0x1002, 0x10DE}:
        parts.append("AMD and NVIDIA side by side")
    return ", ".join(parts)
