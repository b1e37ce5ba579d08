"""Vulkan: loader, drivers, devices; rasterisers said to be what they are."""

from __future__ import annotations

import re
from collections import Counter

from stillruns.judge.gates import vulkan_features
from stillruns.judge.gates.path_view import PathView
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.machine import Vulkan, VulkanDriver
from stillruns.model.raw import Cite
from stillruns.model.version import parse

LAYER = Layer.VULKAN
DECIDES = (
    "the loader, the drivers' manifests and whether their libraries are there, which of them fits the card's maker, "
    "a Mesa that does not know the chip, VK_DRIVER_FILES, several drivers for one card; where vulkaninfo was run its "
    "list decides, with the features and limits that ggml-vulkan looks at (16-bit storage, float16, integer dot "
    "product, subgroup sizes, sizes of one binding and allocation)"
)

_FITS = {
    0x1002: re.compile(r"radeon|radv|amd(?:_?pro|vlk|_icd)", re.IGNORECASE),
    0x10DE: re.compile(r"nvidia|nouveau|nvk", re.IGNORECASE),
    0x8086: re.compile(r"intel|anv|hasvk", re.IGNORECASE),
}
_NO_PCI = re.compile(
    r"broadcom|panfrost|panvk|freedreno|asahi|powervr|imagination|dzn|virtio|mali|tegra", re.IGNORECASE
)
"""Manifests of drivers for GPUs of small boards, of guests (virtio) and of WSL (dzn)."""

_RADV_LIBRARY = "libvulkan_radeon.so"

_PACKAGES = {
    0x1002: "mesa-vulkan-drivers",
    0x8086: "mesa-vulkan-drivers",
}


def judge(view: PathView) -> Gate | None:
    """`block` when no hardware driver for the card is whole; `partial` when several compete."""
    if view.backend is not Backend.VULKAN:
        return None
    facts = view.machine.vulkan
    if isinstance(facts, Absence):
        return view.unknown(LAYER, facts.detail, facts.reason)
    if view.card is not None and view.card.vendor not in _FITS:
        text = f"which Vulkan driver fits a card of maker {view.card.vendor:04x} is not known"
        return view.unknown(LAYER, text, AbsenceReason.NOT_COLLECTED, view.card.cite)
    vendor = view.card.vendor if view.card else 0x10DE if view.processor.startswith("sm_") else 0x1002
    if view.target is None and view.card is None:
        return _no_card(view, facts)
    if not facts.loader:
        return view.lacking(LAYER, "the Vulkan loader (libvulkan.so.1) is not there", weight=58,
                            advice=f"install {view.vulkan_loader}")  # fmt: skip
    named = vulkan_features.named(view, facts)
    if isinstance(named, Gate):
        return named
    facts = named
    listed = _listed(view, facts)
    if listed is not None:
        return vulkan_features.added(view, listed)
    found = _drivers(view, facts, vendor, [driver for driver in facts.drivers if driver.software])
    return vulkan_features.added(view, found)


def _no_card(view: PathView, facts: Vulkan) -> Gate:
    """No card on the PCI bus: what vulkaninfo lists decides (GPUs of small boards and guests are on no such bus)."""
    if not isinstance(facts.devices, Absence):
        hardware = next((device for device in facts.devices if not device.software), None)
        if hardware is not None:
            text = f"{hardware.name} ({hardware.driver}, Vulkan {hardware.api}) by vulkaninfo, on no PCI bus"
            return view.gate(LAYER, GateStatus.ALLOW, text, hardware.cite)
    other = [driver for driver in facts.drivers if driver.found and _NO_PCI.search(driver.manifest)]
    if other and isinstance(facts.devices, Absence):
        text = f"no card is on the PCI bus, but {_name(other[0])} drives GPUs that are on none: vulkaninfo would tell"
        return view.unknown(LAYER, text, AbsenceReason.NOT_COLLECTED, other[0].cite)
    software = [driver for driver in facts.drivers if driver.software]
    if not software:
        return view.unknown(LAYER, "there is no GPU that Vulkan could drive", AbsenceReason.NOT_INSTALLED)
    text = f"only a software rasteriser ({_name(software[0])}): it computes on the CPU, and llama.cpp leaves it out"
    return view.gate(LAYER, GateStatus.BLOCK, text, software[0].cite)


def _drivers(view: PathView, facts: Vulkan, vendor: int, software: list[VulkanDriver]) -> Gate:
    fitting = [d for d in facts.drivers if not d.software and _FITS[vendor].search(d.manifest)]
    whole = [driver for driver in fitting if driver.found]
    package = _PACKAGES.get(vendor, "the card's Vulkan driver")
    package = f"{view.nvidia_driver} with its Vulkan part" if vendor == 0x10DE else package
    if whole:
        names = ", ".join(f"{_name(d)} (API {d.api})" for d in whole)
        evidence = [driver.cite for driver in whole]
        if isinstance(facts.devices, Absence) and facts.devices.reason is AbsenceReason.UNPARSABLE:
            return view.unknown(
                LAYER, f"{names} is installed, but {facts.devices.detail}", AbsenceReason.UNPARSABLE, *evidence
            )
        makers = {driver.library.rpartition("/")[2] for driver in whole}
        if makers == {_RADV_LIBRARY} and (old := _older_than_the_chip(view, names)) is not None:
            return old
        if len(makers) > 1:
            text = f"several drivers for one card: {names}; {vulkan_features.choice(view, vendor)}"
            return view.gate(LAYER, GateStatus.PARTIAL, text, *evidence, weight=10,
                             advice="choose one with VK_DRIVER_FILES")  # fmt: skip
        return view.gate(
            LAYER, GateStatus.ALLOW, f"{names}; features and limits are told only by running it", *evidence
        )
    if fitting:
        return view.lacking(
            LAYER, f"{fitting[0].manifest}: {fitting[0].problem}", fitting[0].cite, weight=58,
            advice=f"install {package} again",
        )  # fmt: skip
    other = f"; only a software rasteriser ({_name(software[0])}) is there" if software else ""
    if not facts.drivers:
        other = "; no driver at all is installed"
    return view.lacking(LAYER, f"no Vulkan driver for this card{other}",
                        *(driver.cite for driver in software[:1]),
                        weight=58, advice=f"install {package}")  # fmt: skip


def _older_than_the_chip(view: PathView, names: str) -> Gate | None:
    """RADV of a Mesa that does not know the chip lists no device."""
    row = view.tables.mesa.get(view.processor)
    mesa = next((piece for piece in view.machine.rocm if piece.name == "mesa-vulkan-drivers"), None)
    series = parse(mesa.version) if mesa else None
    border = parse(row.unknown_to) if row else None
    if row is None or mesa is None or series is None or border is None or series[:2] > border[:2]:
        return None
    return view.gate(
        LAYER, GateStatus.BLOCK, f"{names} is of Mesa {mesa.version}, and Mesa up to {row.unknown_to} does not know "
            f"{view.processor}", mesa.cite, Cite(row.source, at=f"read {row.read_on}"), weight=73,
        advice=f"take a Mesa newer than {row.unknown_to}: newer packages, or a container image whose distribution is "
            "newer",
    )  # fmt: skip


def _listed(view: PathView, facts: Vulkan) -> Gate | None:
    """What vulkaninfo says, where it was run: it decides over manifests."""
    if isinstance(facts.devices, Absence) or view.card is None or view.card.pci is None:
        return None
    card = view.card.pci
    same = [d for d in facts.devices if (d.vendor, d.device) == (card.vendor, card.device) and not d.software]
    if same:
        text = f"{same[0].name} ({same[0].driver}, Vulkan {same[0].api}) by vulkaninfo"
        alike = [c for c in view.machine.cards if c.pci is not None and c.pci.pci_id == card.pci_id]
        shown = max(Counter(device.driver for device in same).values())  # each driver shows the card once more
        if shown >= len(alike):
            return view.gate(LAYER, GateStatus.ALLOW, text, same[0].cite)
        text += f", which lists {shown} of {len(alike)} such cards; which is missing it does not say"
        return view.gate(LAYER, GateStatus.PARTIAL, text, same[0].cite, weight=56,
                         advice="look at the render node of each card: who may open it, which driver "
                             "holds it")  # fmt: skip
    others = ", ".join(f"{d.name}{' (software)' if d.software else ''}" for d in facts.devices) or "no device"
    return view.gate(
        LAYER, GateStatus.BLOCK, f"vulkaninfo lists {others}, not this card",
        *(device.cite for device in facts.devices[:1]), weight=58,
        advice="find out why the driver does not show the card: permissions of its render node, or another "
            "driver chosen",
    )  # fmt: skip


def _name(driver: VulkanDriver) -> str:
    return driver.manifest.rpartition("/")[2].partition(".")[0]
