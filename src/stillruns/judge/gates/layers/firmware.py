"""Firmware: the driver's own list against the files that are there; the card's memory and VBIOS against its name."""

from __future__ import annotations

import re

from stillruns.judge.gates.path_view import PathView
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.gate_tables import FirmwareNames
from stillruns.model.machine import Firmware
from stillruns.model.raw import Cite

LAYER = Layer.FIRMWARE
DECIDES = (
    "the module's firmware list against /lib/firmware (plain, xz, zst), lines of the kernel's log, VBIOS and memory"
)

_OPTIONAL = re.compile(
    r"_(?:cap|ip_discovery|ta|acg_smc|uni_mes|mes\w*|pptable|dmcu\w*|toc)\.bin\Z|_discovery\.bin\Z|"
    r"_(?:k2?|sjt)_\w+\.bin\Z|kicker|_(?:sk|am4|wks|rlc_1|(?:ce|pfp|me|mec|mec2)_2)\.bin\Z"
)
"""Names whose absence stops nothing on a bare-metal card: virtual functions (cap, sjt), tables that the card has
itself, forms that only some boards of a chip ask for (k, kicker, sk, am4, wks), and newer forms that the driver does
without (`_2` on Polaris: gfx_v8_0.c of linux 7.2.13 asks for them as optional)."""


def judge(view: PathView) -> Gate | None:
    """`block` when a needed file is missing and the driver did not start, `allow` when it runs or all files are
    there, `unknown` where the names go by versions that only the card tells."""
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
    if needed and (needed[0].address or _prefixes(view)):
        return view.gate(
            LAYER, GateStatus.BLOCK, needed[0].text + memory, needed[0].cite, weight=77,
            advice="install the firmware package (firmware-amd-graphics, linux-firmware) and load the driver again",
        )  # fmt: skip
    return _files(view, memory)


def _files(view: PathView, memory: str) -> Gate:
    firmware = view.machine.firmware
    if isinstance(firmware, Absence):
        return view.unknown(LAYER, firmware.detail + memory, firmware.reason)
    names = _names(view)
    if names is None:
        text = f"how the files of {view.processor} are called is in no source that was read{memory}"
        return view.unknown(LAYER, text, AbsenceReason.NOT_COLLECTED, firmware.cite)
    chips = [p for p in names.prefixes if any(name.startswith(f"amdgpu/{p}") for name in firmware.present)]
    if not chips:
        return view.gate(
            LAYER, GateStatus.BLOCK, f"no amdgpu/{names.prefixes[0]}* file is there{memory}", firmware.cite,
            weight=77, advice="install the firmware package (firmware-amd-graphics, linux-firmware)",
        )  # fmt: skip
    listed = [p for p in chips if any(name.startswith(f"amdgpu/{p}") for name in firmware.wanted)]
    if not listed:
        why = "the driver's list names none of them" if firmware.wanted else "the driver's own list was not read"
        text = f"files of amdgpu/{chips[0]}* are there; whether all are is not decided: {why}{memory}"
        return view.unknown(LAYER, text, AbsenceReason.NOT_COLLECTED, firmware.cite)
    return _against(view, firmware, names, listed, memory)


def _against(view: PathView, firmware: Firmware, names: FirmwareNames, chips: list[str], memory: str) -> Gate:
    """The driver's list against the files, chip by chip; which chip a card is, its target alone does not say."""
    missing = {chip: _missing(firmware, chip) for chip in chips}
    lacking = [name for found in missing.values() for name in found]
    evidence = (firmware.cite, Cite(firmware.module, excerpt="firmware= lines"))
    if lacking:
        verb = "is" if len(lacking) == 1 else "are"
        text = f"the driver's list names {', '.join(lacking[:3])}, which {verb} not there{memory}"
        whole = [chip for chip, found in missing.items() if not found]
        if whole:
            text = f"amdgpu/{whole[0]}* is complete; if the card is another chip: {text}"
            return view.unknown(LAYER, text, AbsenceReason.NOT_COLLECTED, *evidence)
        return view.gate(
            LAYER, GateStatus.BLOCK, text, *evidence,
            weight=77, advice="update the firmware package to one that fits the kernel",
        )  # fmt: skip
    if not names.whole:
        text = (
            f"the graphics core's files (amdgpu/{chips[0]}*) are there; those of SDMA, PSP and SMU go by versions "
            f"that only the running driver knows{memory}"
        )
        return view.unknown(LAYER, text, AbsenceReason.NOT_COLLECTED, *evidence)
    text = f"every name that the driver's list needs (amdgpu/{chips[0]}*) is there{memory}"
    return view.gate(LAYER, GateStatus.ALLOW, text, firmware.cite, _vbios(view))


def _missing(firmware: Firmware, chip: str) -> list[str]:
    return [
        name
        for name in firmware.wanted
        if name.startswith(f"amdgpu/{chip}") and name not in firmware.present and not _OPTIONAL.search(name)
    ]


def _names(view: PathView) -> FirmwareNames | None:
    return next((entry for entry in view.tables.firmware if entry.target == view.processor), None)


def _prefixes(view: PathView) -> tuple[str, ...]:
    names = _names(view)
    return names.prefixes if names else ()


def _mine(view: PathView, text: str) -> bool:
    prefixes = _prefixes(view)
    return not prefixes or any(f"amdgpu/{prefix}" in text for prefix in prefixes)


def _memory(view: PathView) -> str:
    """VBIOS and memory: one PCI id stands for cards of several sizes, and used ones are sold as the larger."""
    card = view.card
    size = (card.state.vram if card and card.state else None) or (card.kfd.memory if card and card.kfd else 0)
    if not card or not size:
        return ""
    shown = f"{size / 2**30:.0f} GiB" if size >= 1 << 30 else f"{size >> 20} MiB"
    text = f"; {shown} by the driver"
    if card.state and card.state.vbios:
        text += f", VBIOS {card.state.vbios}"
    if card.pci and card.pci.pci_id == "1002:66a1":
        text += " (this PCI id stands for MI50s of 16 and of 32 GB: the driver's figure counts, not the label)"
    return text


def _vbios(view: PathView) -> Cite | None:
    state = view.card.state if view.card else None
    return state.cites.get("vbios_version") if state else None
