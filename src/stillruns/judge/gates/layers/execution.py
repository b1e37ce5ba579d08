"""Execution: what runs of this program showed for this target; never guessed."""

from __future__ import annotations

from stillruns.judge.gates.path_view import PathView
from stillruns.model.absence import AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.raw import Cite

LAYER = Layer.EXECUTION
DECIDES = "applied trials in the store, by backend and target"


def judge(view: PathView) -> Gate | None:
    """`allow` when all applied trials passed, `partial` when some did or several cards may have run them, `block`
    when none did. A machine without a GPU has no Vulkan runs: what a rasteriser computed was computed by the CPU."""
    if view.target is None and view.backend is not Backend.CPU:
        return None
    runs = view.machine.runs
    # a trial whose log names no target may have run on any card of this machine, and on none that is not in it
    targets = {view.processor} if view.card is None else {view.processor, ""}
    mine = [r for r in runs or () if r.backend == view.backend.value and r.target in targets]
    passed, failed = sum(r.passed for r in mine), sum(r.failed for r in mine)
    if not passed + failed:
        text = (
            "the store has no run of this machine that tells" if runs is not None else "the store was not looked at"
        )
        return view.unknown(LAYER, f"{text}; trials would tell (the verbs demo and run)", AbsenceReason.NOT_COLLECTED)
    cites = [
        Cite(f"run {r.run}", excerpt=f"{r.passed} passed, {r.failed} failed {r.outcome}".strip()) for r in mine[:3]
    ]
    text = f"{passed} of {passed + failed} applied trials passed"
    status = GateStatus.ALLOW if not failed else GateStatus.PARTIAL if passed else GateStatus.BLOCK
    perhaps = _candidates(view, all(r.target for r in mine))
    if perhaps > 1:
        text += f"; which of {perhaps} cards ran them is not told"
        status = GateStatus.PARTIAL
    return view.gate(LAYER, status, text, *cites, weight=52, advice="look at the run's trials")


def _candidates(view: PathView, by_target: bool) -> int:
    """How many cards of this machine the trials may have run on: those of the target, where the trials name it."""
    if view.card is None:
        return 0
    vendors = {Backend.ROCM: (0x1002,), Backend.CUDA: (0x10DE,)}.get(view.backend)
    cards = [card for card in view.machine.cards if vendors is None or card.vendor in vendors]
    return len([card for card in cards if card.processor == view.processor or not by_target])
