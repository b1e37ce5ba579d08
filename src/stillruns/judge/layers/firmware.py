"""Firmware: the driver's own list against the files that are there; the card's memory and VBIOS against its name."""

from __future__ import annotations

import re

from stillruns.judge.path_view import PathView
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.machine import Firmware
from stillruns.model.raw import Cite

LAYER = Layer.FIRMWARE
DECIDES = (
    "the module's firmware list against /lib/firmware (plain, xz, zst), lines of the kernel's log, VBIOS and memory"
)

_OPTIONAL = re.compile(r"_(?:cap|ip_discovery|ta|acg_smc|mes\w*|pptable|dmcu\w*|toc|kicker)\.bin\Z|_discovery\.bin\Z")
"""Names whose absence stops nothing on a bare-metal card: virtual functions, tables that the card has itself."""

_PREFIXES = {
    "gfx900": ("vega10_",), "gfx902": ("raven_", "raven2_", "picasso_"), "gfx904": ("vega12_",),
    "gfx906": ("vega20_",), "gfx908": ("arcturus_",), "gfx909": ("raven2_",), "gfx90a": ("aldebaran_",),
    "gfx90c": ("renoir_", "green_sardine_"), "gfx803": ("polaris10_", "polaris11_", "polaris12_", "fiji_", "vegam_"),
    "gfx1010": ("navi10_",), "gfx1011": ("navi12_",), "gfx1012": ("navi14_",),
    "gfx1030": ("sienna_cichlid_",), "gfx1031": ("navy_flounder_",), "gfx1032": ("dimgrey_cavefish_",),
    "gfx1034": ("beige_goby_",),
}  # fmt: skip
"""Names of firmware by processor (linux drivers/gpu/drm/amd/amdgpu, MODULE_FIRMWARE lines); newer chips go by IP
version (gc_11_0_0_...)."""


def judge(view: PathView) -> Gate | None:
    """`block` when a needed file is missing and the driver did not start, `allow` when it runs or all files are
    there."""
    amd = view.processor.startswith("gfx") if view.card is None else view.card.vendor == 0x1002
    if view.target is None or not amd or view.backend in (Backend.CPU, Backend.CUDA):
        return None
    memory = _memory(view)
    missing_now = [
        event for event in view.events(LAYER) if event.id == "firmware-missing" and _mine(view, event.text)
    ]
    needed = [event for event in missing_now if not _OPTIONAL.search(event.text)]
    if view.card is not None and view.card.kfd is not None:
        version = view.card.kfd.fw_version
        text = f"the driver runs with it (compute firmware {version})" if version else "the driver runs with it"
        return view.gate(LAYER, GateStatus.ALLOW, text + memory, view.card.kfd.cite, _vbios(view))
    if needed:
        return view.gate(
            LAYER, GateStatus.BLOCK, needed[0].text + memory, needed[0].cite, weight=68,
            advice="install the firmware package (firmware-amd-graphics, linux-firmware) and load the driver again",
        )  # fmt: skip
    return _files(view, memory)


def _files(view: PathView, memory: str) -> Gate:
    firmware = view.machine.firmware
    if isinstance(firmware, Absence):
        return view.unknown(LAYER, firmware.detail + memory, firmware.reason)
    prefixes = _PREFIXES.get(view.processor, ())
    if not prefixes:
        text = f"which files {view.processor} needs goes by its IP versions; not decided from the files{memory}"
        return view.unknown(LAYER, text, AbsenceReason.NOT_COLLECTED, firmware.cite)
    families = [p for p in prefixes if any(name.startswith(f"amdgpu/{p}") for name in firmware.present)]
    if not families:
        return view.gate(
            LAYER, GateStatus.BLOCK, f"no amdgpu/{prefixes[0]}* file is there{memory}", firmware.cite, weight=66,
            advice="install the firmware package (firmware-amd-graphics, linux-firmware)",
        )  # fmt: skip
    missing = _missing(firmware, tuple(families))
    if missing:
        text = (
            f"the driver's list names {', '.join(missing[:3])}, which {'is' if len(missing) == 1 else 'are'} "
            "not there"
        )
        return view.gate(
            LAYER, GateStatus.BLOCK, text + memory, firmware.cite, Cite(firmware.module, excerpt="firmware= lines"),
            weight=66, advice="update the firmware package to one that fits the kernel",
        )  # fmt: skip
    against = "every name that the driver's list needs" if firmware.wanted else f"files of {families[0]}*"
    return view.gate(LAYER, GateStatus.ALLOW, f"{against} is there{memory}", firmware.cite, _vbios(view))


def _missing(firmware: Firmware, prefixes: tuple[str, ...]) -> list[str]:
    starts = tuple(f"amdgpu/{prefix}" for prefix in prefixes)
    return [
        name
        for name in firmware.wanted
        if name.startswith(starts) and name not in firmware.present and not _OPTIONAL.search(name)
    ]


def _mine(view: PathView, text: str) -> bool:
    prefixes = _PREFIXES.get(view.processor, ())
    return not prefixes or any(f"amdgpu/{prefix}" in text for prefix in prefixes)


def _memory(view: PathView) -> str:
    """VBIOS and memory: one PCI id stands for cards of several sizes, and used ones are sold as the larger."""
    card = view.card
    size = (card.state.vram if card and card.state else None) or (card.kfd.memory if card and card.kfd else 0)
    if not card or not size:
        return ""
    text = f"; {size / 2**30:.0f} GiB by the driver"
    if card.state and card.state.vbios:
        text += f", VBIOS {card.state.vbios}"
    if card.pci and card.pci.pci_id == "1002:66a1":
        text += " (this PCI id stands for MI50s of 16 and of 32 GB: the driver's figure counts, not the label)"
    return text


def _vbios(view: PathView) -> Cite | None:
    state = view.card.state if view.card else None
    return state.cites.get("vbios_version") if state else None
