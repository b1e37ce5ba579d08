"""Device init: each backend's own listing, run in a child with a time limit."""

from __future__ import annotations

from stillruns.judge.path_view import PathView
from stillruns.model.absence import AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.gate import Gate, GateStatus, Layer

LAYER = Layer.DEVICE_INIT
DECIDES = "the runtime's own --list-devices, in a child process, after the rest was judged; without --no-exec only"


def judge(view: PathView) -> Gate | None:
    """`allow` when the runtime lists a device of the backend (or starts at all, for the CPU), `block` when it does
    not or dies."""
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
        if init.ok and init.devices:
            return view.gate(LAYER, GateStatus.ALLOW, f"{init.runtime} lists {', '.join(init.devices)}", init.cite)
    first = mine[0]
    return view.gate(LAYER, GateStatus.BLOCK, f"{first.runtime}: {first.text}", first.cite, weight=55,
                     advice="read what the runtime says when it lists its devices")  # fmt: skip
