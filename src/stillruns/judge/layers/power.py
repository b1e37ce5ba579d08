"""Power and heat: caps, clocks, temperatures, memory errors."""

from __future__ import annotations

from stillruns.judge.path_view import PathView
from stillruns.model.absence import AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.card import CardState
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.raw import Cite

LAYER = Layer.POWER
DECIDES = "the power cap against its default, temperatures against limits, clocks under load, memory errors, fan"

_NEAR = 5.0
"""Degrees below the critical temperature from which a card throttles soon."""


def judge(view: PathView) -> Gate | None:
    """`partial` for what makes a card slow or unreliable; it never blocks."""
    card = view.card
    if card is None or view.backend is Backend.CPU or card.vendor != 0x1002:
        return None
    state = card.state
    if state is None:
        return view.unknown(LAYER, "the driver shows no sensors of this card", AbsenceReason.NOT_COLLECTED)
    if state.asleep:
        return view.unknown(
            LAYER, "the card sleeps and was not woken for its sensors; ask again while it works",
            AbsenceReason.NOT_COLLECTED,
        )  # fmt: skip
    problems = list(_problems(state))
    events = [event for event in view.events(LAYER) if event.severity == "warn"]
    problems += [(event.text, event.cite, "check-hardware-faults") for event in events[:2]]
    if not problems and not _summary(state):
        return view.unknown(LAYER, "the driver shows no sensors of this card", AbsenceReason.NOT_COLLECTED)
    if not problems:
        return view.gate(LAYER, GateStatus.ALLOW, _summary(state), *list(state.cites.values())[:3])
    return view.gate(
        LAYER, GateStatus.PARTIAL, "; ".join(text for text, _, _ in problems), *(cite for _, cite, _ in problems),
        weight=22, advice=problems[0][0], workarounds=tuple(dict.fromkeys(n for _, _, n in problems if n)),
    )  # fmt: skip


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


def _summary(state: CardState) -> str:
    parts = [f"{heat.label} {heat.now:.0f} C" for heat in state.temperatures[:3]]
    if state.power_cap is not None:
        parts.append(f"cap {state.power_cap:.0f} W")
    if state.errors:
        parts.append("no memory errors counted")
    return ", ".join(parts)
