"""Power and heat: caps, clocks, temperatures, memory errors."""

from __future__ import annotations

import re

from stillruns.errors import FormatError
from stillruns.formats import gpu_metrics
from stillruns.judge.gates.path_view import PathView
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.card import CardState
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.raw import Cite

LAYER = Layer.POWER
DECIDES = (
    "the power cap against its default, temperatures against limits, clocks under load, memory errors, what slows "
    "the card down now (gpu_metrics of known formats, nvidia-smi), the memory in the board's own name against the "
    "driver's"
)

_NEAR = 5.0
"""Degrees below the critical temperature from which a card throttles soon."""


def judge(view: PathView) -> Gate | None:
    """`partial` for what makes a card slow or unreliable; it never blocks."""
    card = view.card
    if card is None or view.backend is Backend.CPU:
        return None
    if card.vendor == 0x10DE:
        return _nvidia(view, card.address)
    if card.vendor != 0x1002:
        return None
    state = card.state
    if state is None:
        return view.unknown(LAYER, "the driver shows no sensors of this card", AbsenceReason.NOT_COLLECTED)
    if state.asleep:
        return view.unknown(
            LAYER, "the card sleeps and was not woken for its sensors; ask again while it works",
            AbsenceReason.NOT_COLLECTED,
        )  # fmt: skip
    problems = [*_problems(state), *_throttled(view, state), *_size(state)]
    events = [event for event in view.events(LAYER) if event.severity == "warn"]
    problems += [(event.text, event.cite, "check-hardware-faults") for event in events[:2]]
    if not problems and not _summary(state):
        return view.unknown(LAYER, "the driver shows no sensors of this card", AbsenceReason.NOT_COLLECTED)
    if not problems:
        return view.gate(LAYER, GateStatus.ALLOW, _told(view, state), *list(state.cites.values())[:3])
    return view.gate(
        LAYER, GateStatus.PARTIAL, "; ".join(text for text, _, _ in problems), *(cite for _, cite, _ in problems),
        weight=22, advice=problems[0][0], workarounds=tuple(dict.fromkeys(n for _, _, n in problems if n)),
    )  # fmt: skip


_NVIDIA = {
    0x08: "hardware slowdown", 0x20: "heat (software)", 0x40: "heat (hardware)", 0x80: "the power brake",
}  # fmt: skip
"""Reasons that are no everyday ones: nvmlClocksEventReason* of nvidia-ml-py 13.615.71 (pynvml.py:2190)."""

_CAPPED = 0x04


def _nvidia(view: PathView, address: str) -> Gate:
    """What nvidia-smi says; without it nothing is known."""
    driver = view.machine.nvidia
    state = None if isinstance(driver, Absence) else driver.states.get(address)
    if state is None:
        text = "nvidia-smi was not run or says nothing of this card: clocks, heat and errors are not known"
        return view.unknown(LAYER, text, AbsenceReason.NOT_COLLECTED)
    problems = []
    if state.throttle:
        held = [word for bit, word in _NVIDIA.items() if state.throttle & bit]
        if held:
            problems.append(f"the clocks are held down by {', '.join(held)}")
    wrong = _mismatch(view.card.name if view.card else "", (state.memory or 0) / 1024)
    if wrong:
        problems.append(wrong)
    if state.uncorrected:
        problems.append(f"{state.uncorrected} uncorrectable memory errors since the driver started")
    facts = [f"{state.temperature} C" if state.temperature is not None else ""]
    if state.power_limit is not None:
        facts.append(f"limit {state.power_limit:.0f} W" + (", reached" if (state.throttle or 0) & _CAPPED else ""))
    text = "; ".join(filter(None, [*problems, ", ".join(filter(None, facts))]))
    if problems:
        return view.gate(LAYER, GateStatus.PARTIAL, text, state.cite, weight=22, advice=problems[0])
    if not text:
        return view.unknown(LAYER, "nvidia-smi gives no value for this card", AbsenceReason.NOT_COLLECTED, state.cite)
    return view.gate(LAYER, GateStatus.ALLOW, text, state.cite)


def _throttled(view: PathView, state: CardState) -> list[tuple[str, Cite | None, str]]:
    """What slows the card at this moment, by the driver's table: heat is a problem, a reached power limit is not."""
    found = _metrics(view, state)
    hot = [word for word in found.throttled or () if re.search(r"heat|hot", word, re.IGNORECASE)] if found else []
    if not hot:
        return []
    return [(f"it is slowed down by {', '.join(hot)}", state.cites.get("gpu_metrics"), "power-cap")]


def _metrics(view: PathView, state: CardState) -> gpu_metrics.GpuMetrics | None:
    try:
        return gpu_metrics.read(state.metrics, view.processor) if state.metrics else None
    except FormatError:
        return None


def _size(state: CardState) -> list[tuple[str, Cite | None, str]]:
    """The size in the board's own name against the driver's: used cards are sold under the larger one's."""
    text = _mismatch(state.product, (state.vram or 0) / 2**30)
    cite = state.cites.get("product_name") or state.cites.get("mem_info_vram_total")
    return [(text, cite, "")] if text else []


def _mismatch(name: str, real: float) -> str:
    """A sentence where the size in a name and the driver's (GiB; 0 = not told) are not the same."""
    named = re.search(r"(?<![\d.])(\d{1,3}) ?Gi?B\b", name)
    if named is None or not real or abs(int(named[1]) - real) <= max(1.0, int(named[1]) * 0.1):
        return ""
    return f"the board calls itself {name}, the driver finds {real:.0f} GiB"


def _problems(state: CardState) -> list[tuple[str, Cite | None, str]]:
    found: list[tuple[str, Cite | None, str]] = []
    for block, (uncorrected, corrected) in state.errors.items():
        if uncorrected or corrected:
            text = f"{block} memory errors: {uncorrected} uncorrectable, {corrected} corrected"
            found.append((text, state.cites.get(f"ras/{block}_err_count"), "check-hardware-faults"))
    for heat in state.temperatures:
        if heat.critical is not None and heat.now >= heat.critical - _NEAR:
            found.append((f"{heat.label} is at {heat.now:.0f} of {heat.critical:.0f} degrees", None, "power-cap"))
    if state.power_cap and state.power_cap_default and state.power_cap < state.power_cap_default * 0.99:
        text = f"the power cap is {state.power_cap:.0f} W, its default {state.power_cap_default:.0f} W"
        found.append((text, state.cites.get("power1_cap"), ""))
    busy = state.busy_percent is not None and state.busy_percent >= 90
    if busy and state.sclk and state.sclk[0] < state.sclk[1] * 0.6:
        text = f"busy and at {state.sclk[0]} of {state.sclk[1]} MHz: the clocks do not rise"
        found.append((text, state.cites.get("pp_dpm_sclk"), ""))
    if state.performance_level in ("low", "profile_min_sclk", "profile_min_mclk"):
        text = f"the performance level is held at {state.performance_level}"
        found.append((text, state.cites.get("power_dpm_force_performance_level"), ""))
    return found


def _told(view: PathView, state: CardState) -> str:
    """The summary, and what the driver's table says or why it says nothing."""
    found = _metrics(view, state)
    if found is None:
        return _summary(state) + ("; its gpu_metrics are of a format that is not read" if state.metrics else "")
    if found.throttled:
        return f"{_summary(state)}; at its {', '.join(found.throttled)}"
    if found.throttled is None and found.raw:
        return (
            f"{_summary(state)}; slowed down by the chip's own status {found.raw:#x}, whose bits are not known here"
        )
    return f"{_summary(state)}; nothing slows it down now" if found.throttled == () else _summary(state)


def _summary(state: CardState) -> str:
    parts = [f"{heat.label} {heat.now:.0f} C" for heat in state.temperatures[:3]]
    if state.power_cap is not None:
        parts.append(f"cap {state.power_cap:.0f} W")
    if state.errors:
        parts.append("no memory errors counted")
    return ", ".join(parts)
