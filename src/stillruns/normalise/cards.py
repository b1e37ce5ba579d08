"""Joins what PCI, KFD, DRM and the driver say into cards."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from stillruns.model.absence import Absence
from stillruns.model.card import Card, CardState, DrmNode, KfdNode, PciDevice
from stillruns.model.gate_tables import GateTables
from stillruns.model.machine import Kfd, Nvidia
from stillruns.model.raw import Cite
from stillruns.model.target import TargetId, from_kfd
from stillruns.normalise.sysfs import DEVICES

_AMD, _NVIDIA, _INTEL = 0x1002, 0x10DE, 0x8086


def join(
    pci: Sequence[PciDevice],
    kfd: Kfd | Absence,
    drm: Sequence[DrmNode],
    states: Mapping[str, CardState],
    nvidia: Nvidia | Absence,
    tables: GateTables,
) -> tuple[Card, ...]:
    """One card per PCI function; a KFD node whose function the bus does not show is a card of its own."""
    nodes = {node.address: node for node in kfd.nodes if node.is_gpu} if isinstance(kfd, Kfd) else {}
    cards = []
    for device in pci:
        node = nodes.pop(device.address, None) or _by_minor(nodes, drm, device.address)
        mine = tuple(entry for entry in drm if entry.address == device.address)
        cards.append(_card(device.address, device, node, mine, states.get(device.address), nvidia, tables))
    cards += [_card(address, None, node, (), None, nvidia, tables) for address, node in nodes.items() if address]
    return tuple(sorted(cards, key=lambda card: card.address))


def _by_minor(nodes: dict[str, KfdNode], drm: Sequence[DrmNode], address: str) -> KfdNode | None:
    """Old kernels do not tell the domain: the render node leads from the node to its card."""
    for entry in drm:
        if entry.address != address or not entry.name.startswith("renderD"):
            continue
        for key, node in nodes.items():
            if node.render_minor == int(entry.name[7:]):
                return nodes.pop(key)
    return None


def _card(
    address: str,
    pci: PciDevice | None,
    node: KfdNode | None,
    drm: tuple[DrmNode, ...],
    state: CardState | None,
    nvidia: Nvidia | Absence,
    tables: GateTables,
) -> Card:
    vendor = pci.vendor if pci else node.vendor if node else 0
    device = pci.device if pci else node.device if node else 0
    pci_id = f"{vendor:04x}:{device:04x}"
    known = tables.gpus.get(pci_id)
    name = known.name if known else ""
    target, told_by = "", ""
    if vendor == _AMD:
        target, told_by = _amd(pci_id, node, tables)
    elif vendor == _NVIDIA:
        model = "" if isinstance(nvidia, Absence) else nvidia.models.get(address, "")
        name = re.sub(r" \(compute [\d.]+\)\Z", "", model) or name
        target, told_by = _nvidia(model, pci_id, tables)
    info = tables.targets.get(target.partition(":")[0])
    integrated = info.kind == "APU" if info else False if vendor == _NVIDIA else None
    maker = {_AMD: "AMD", _NVIDIA: "NVIDIA", _INTEL: "Intel"}.get(vendor, "unknown maker")
    cite = node.cite if node else pci.cites.get("device") if pci else None
    return Card(
        address, name or f"{maker} GPU {pci_id}", vendor, target, told_by, integrated, pci, node, drm, state,
        cite or Cite(f"{DEVICES}{address}"),
    )  # fmt: skip


def _amd(pci_id: str, node: KfdNode | None, tables: GateTables) -> tuple[str, str]:
    processor, told_by = "", ""
    if node is not None and node.version:
        processor, told_by = from_kfd(node.version), "KFD's gfx_target_version"
    if not processor:
        known = tables.gpus.get(pci_id)
        if known is None or not known.target:
            return "", ""
        processor, told_by = known.target, f"the PCI id {pci_id}"
    info = tables.targets.get(processor)
    sramecc = node.sramecc if node is not None and info is not None and info.sramecc else None
    return str(TargetId(processor, sramecc)), told_by


def _nvidia(model: str, pci_id: str, tables: GateTables) -> tuple[str, str]:
    """What the driver says, then the chip (that of dropped cards is in the table), then the model's name."""
    compute = re.search(r"\(compute (\d+)\.(\d+)\)", model)
    if compute:
        return f"sm_{compute[1]}{compute[2]}", "nvidia-smi"
    known = tables.gpus.get(pci_id)
    if known is not None and known.target:
        return known.target, f"the PCI id {pci_id}"
    for architecture in tables.nvidia:
        if model and re.search(architecture.names, model):
            return architecture.target, f"the model name {model}"
    return "", ""
