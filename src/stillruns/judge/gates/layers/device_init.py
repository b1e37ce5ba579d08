"""Device init: each backend's own listing, run in a child with a time limit."""

from __future__ import annotations

import re

from stillruns.judge.gates.path_view import PathView
from stillruns.model.absence import AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.card import Card
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.machine import DeviceInit

LAYER = Layer.DEVICE_INIT
DECIDES = "the runtime's own --list-devices, in a child process, after the rest was judged; without --no-exec only"


_MAKER = {
    0x1002: re.compile(r"\b(?:AMD|ATI|Radeon|RADV)\b", re.IGNORECASE),
    0x10DE: re.compile(r"\b(?:NVIDIA|NVK|GeForce|Tesla|Quadro)\b", re.IGNORECASE),
    0x8086: re.compile(r"\b(?:Intel|Arc)\b", re.IGNORECASE),
}
"""Makers' names in the lines of --list-devices, which say no bus address."""


def judge(view: PathView) -> Gate | None:
    """`allow` when the runtime lists as many devices of the backend as there are cards of the maker (or starts at
    all, for the CPU), `partial` when it lists fewer, `block` when it lists none or dies."""
    if view.card is None and view.backend is not Backend.CPU:
        return None
    if view.machine.inits is None:
        return view.unknown(LAYER, "nothing was run", AbsenceReason.NOT_COLLECTED)
    mine = [init for init in view.machine.inits if init.backend == view.backend.value]
    if not mine:
        return view.unknown(
            LAYER, f"no program with a {view.backend.value} backend to ask", AbsenceReason.NOT_INSTALLED
        )
    for init in mine:
        if init.ok and view.backend is Backend.CPU:
            return view.gate(LAYER, GateStatus.ALLOW, f"{init.runtime} starts on this CPU", init.cite)
        if init.ok and init.devices and view.card is not None:
            return _listed(view, view.card, init)
    first = mine[0]
    return view.gate(LAYER, GateStatus.BLOCK, f"{first.runtime}: {first.text}", first.cite, weight=55,
                     advice="read what the runtime says when it lists its devices")  # fmt: skip


def _listed(view: PathView, card: Card, init: DeviceInit) -> Gate:
    """A list names devices, not slots: fewer names than cards leave open which card is missing."""
    shown = ", ".join(init.devices)
    maker = _MAKER.get(card.vendor)
    others = [pattern for vendor, pattern in _MAKER.items() if vendor != card.vendor]
    fitting = [d for d in init.devices if (maker and maker.search(d)) or not any(o.search(d) for o in others)]
    cards = [c for c in view.machine.cards if c.vendor == card.vendor]
    discrete = [c for c in cards if not c.integrated]
    if view.backend is Backend.VULKAN and discrete and not card.integrated:
        cards = discrete  # llama.cpp leaves integrated GPUs out beside others
    if len(fitting) >= len(cards):
        return view.gate(LAYER, GateStatus.ALLOW, f"{init.runtime} lists {shown}", init.cite)
    if not fitting:
        text = f"{init.runtime} lists {shown}, and no card of this maker"
        return view.gate(LAYER, GateStatus.BLOCK, text, init.cite, weight=55,
                         advice="read what the runtime says when it lists its devices")  # fmt: skip
    text = (
        f"{init.runtime} lists {len(fitting)} of {len(cards)} cards of this maker ({shown}): which, it does not say"
    )
    return view.gate(LAYER, GateStatus.PARTIAL, text, init.cite, weight=54,
                     advice="show each card to the runtime alone, to find the one that it leaves out")  # fmt: skip
