"""Vulkan: loader, drivers, devices; rasterisers said to be what they are."""

from __future__ import annotations

import re

from stillruns.judge import vulkan_features
from stillruns.judge.path_view import PathView
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.machine import Vulkan, VulkanDriver

LAYER = Layer.VULKAN
DECIDES = (
    "the loader, the drivers' manifests and whether their libraries are there, which of them fits the card's "
    "maker, VK_DRIVER_FILES, several drivers for one card; where vulkaninfo was run its list decides, with the "
    "features and limits that ggml-vulkan looks at (16-bit storage, float16, integer dot product, subgroup sizes, "
    "sizes of one binding and allocation)"
)

_FITS = {
    0x1002: re.compile(r"radeon|radv|amd(?:_?pro|vlk|_icd)", re.IGNORECASE),
    0x10DE: re.compile(r"nvidia|nouveau|nvk", re.IGNORECASE),
    0x8086: re.compile(r"intel|anv|hasvk", re.IGNORECASE),
}
_PACKAGES = {
    0x1002: "mesa-vulkan-drivers",
    0x10DE: "NVIDIA's driver with its Vulkan part",
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
    if not facts.loader:
        return view.gate(LAYER, GateStatus.BLOCK, "the Vulkan loader (libvulkan.so.1) is not there", weight=58,
                         advice="install libvulkan1 and mesa-vulkan-drivers")  # fmt: skip
    named = vulkan_features.named(view, facts)
    if isinstance(named, Gate):
        return named
    facts = named
    listed = _listed(view, facts)
    if listed is not None:
        return vulkan_features.added(view, listed)
    software = [driver for driver in facts.drivers if driver.software]
    if view.target is None and view.card is None:
        if not software:
            return view.unknown(LAYER, "there is no GPU and no Vulkan driver", AbsenceReason.NOT_INSTALLED)
        text = (
            f"only a software rasteriser ({_name(software[0])}): it computes on the CPU, and llama.cpp leaves it out"
        )
        return view.gate(LAYER, GateStatus.BLOCK, text, software[0].cite)
    return _drivers(view, facts, vendor, software)


def _drivers(view: PathView, facts: Vulkan, vendor: int, software: list[VulkanDriver]) -> Gate:
    fitting = [d for d in facts.drivers if not d.software and _FITS[vendor].search(d.manifest)]
    whole = [driver for driver in fitting if driver.found]
    package = _PACKAGES.get(vendor, "the card's Vulkan driver")
    if whole:
        names = ", ".join(f"{_name(d)} (API {d.api})" for d in whole)
        evidence = [driver.cite for driver in whole]
        makers = {driver.library.rpartition("/")[2] for driver in whole}
        if len(makers) > 1:
            text = f"several drivers for one card: {names}; which one answers is the loader's choice"
            return view.gate(LAYER, GateStatus.PARTIAL, text, *evidence, weight=10,
                             advice="choose one with VK_DRIVER_FILES")  # fmt: skip
        return view.gate(
            LAYER, GateStatus.ALLOW, f"{names}; features and limits are told only by running it", *evidence
        )
    if fitting:
        return view.gate(
            LAYER, GateStatus.BLOCK, f"{fitting[0].manifest}: {fitting[0].problem}", fitting[0].cite, weight=58,
            advice=f"install {package} again",
        )  # fmt: skip
    other = f"; only a software rasteriser ({_name(software[0])}) is there" if software else ""
    if not facts.drivers:
        other = "; no driver at all is installed"
    return view.gate(LAYER, GateStatus.BLOCK, f"no Vulkan driver for this card{other}",
                     *(driver.cite for driver in software[:1]), weight=58, advice=f"install {package}")  # fmt: skip


def _listed(view: PathView, facts: Vulkan) -> Gate | None:
    """What vulkaninfo says, where it was run: it decides over manifests."""
    if isinstance(facts.devices, Absence) or view.card is None or view.card.pci is None:
        return None
    card = view.card.pci
    for device in facts.devices:
        if device.vendor == card.vendor and device.device == card.device and not device.software:
            text = f"{device.name} ({device.driver}, Vulkan {device.api}) by vulkaninfo"
            return view.gate(LAYER, GateStatus.ALLOW, text, device.cite)
    others = ", ".join(f"{d.name}{' (software)' if d.software else ''}" for d in facts.devices) or "no device"
    return view.gate(
        LAYER, GateStatus.BLOCK, f"vulkaninfo lists {others}, not this card",
        *(device.cite for device in facts.devices[:1]), weight=58,
        advice="find out why the driver does not show the card: permissions of its render node, or another "
            "driver chosen",
    )  # fmt: skip


def _name(driver: VulkanDriver) -> str:
    return driver.manifest.rpartition("/")[2].partition(".")[0]
