"""HSA_OVERRIDE_GFX_VERSION: what a server's environment makes of a card, and what it could make of one.

The HSA runtime reports the named version instead of the card's own, so code objects, rocBLAS's kernels and ggml's
choice of a path all follow it; driver, firmware and board do not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from stillruns.judge.gates.path_view import PathView
from stillruns.judge.gates.serving import servers
from stillruns.model.backend import Backend
from stillruns.model.gate import Gate
from stillruns.model.kernel_library import LibraryState
from stillruns.model.machine import Environment
from stillruns.model.target import TargetId, from_override

VARIABLE = "HSA_OVERRIDE_GFX_VERSION"
USABLE = (LibraryState.COMPLETE, LibraryState.FALLBACK_ONLY, LibraryState.MIXED)
"""States of a kernel folder in which a target is served."""


@dataclasses.dataclass(frozen=True, slots=True)
class Override:
    """The variable that acts on a card, its value, whose environment it is, and the processor that it names (empty
    for a value of no such form)."""

    name: str
    value: str
    owner: Environment
    processor: str


def acting(view: PathView) -> Override | None:
    """The override of this path's card: the variable of its own node first, whose number counts KFD nodes, CPUs
    included. None where there is none, or an empty one."""
    if view.backend is not Backend.ROCM:
        return None
    node = view.card.kfd if view.card else None
    names = (f"{VARIABLE}_{node.number}", VARIABLE) if node is not None else (VARIABLE,)
    for name in names:
        found = view.variable(name)
        if found is not None and found[0]:
            return Override(name, found[0], found[1], from_override(found[0]))
    return None


def judged(view: PathView, judge: Callable[[PathView], Gate]) -> Gate:
    """The verdict on the path as the HSA runtime sees it, with a remark where that is for another target than the
    card's."""
    seen = _as_runtime_sees(view)
    gate = judge(seen)
    if not seen.column:
        return gate
    own = seen.column.partition(":")[0]
    return dataclasses.replace(gate, reason=f"{gate.reason} (judged as {seen.processor}: {VARIABLE} hides {own})")


def _as_runtime_sees(view: PathView) -> PathView:
    """The path with the target that the HSA runtime reports; the same view where no override changes it, or where
    servers run that do not agree on one."""
    every = [acting(server.seen(view)) for server in servers(view)]
    found = every[0] if every else None
    if len({entry.processor if entry else "" for entry in every}) > 1:
        return view
    if found is None or view.target is None or found.processor in ("", view.processor):
        return view
    info = view.tables.targets.get(found.processor)
    if info is None:
        return view
    target = TargetId(
        found.processor,
        view.target.sramecc if info.sramecc else None,
        view.target.xnack if info.xnack else None,
    )
    return dataclasses.replace(view, target=target, column=view.shown)


def compatible(view: PathView, other: str) -> bool:
    """Whether code for another target has no instruction that this one lacks."""
    return other in view.tables.neighbours.get(view.processor, ())


def advice(view: PathView, built: Iterable[str]) -> str:
    """The override that lets this target use what is built for a neighbour; empty where none would, or one acts.

    The neighbour must be in the runtime's code and in rocBLAS's kernels alike: where the runtime's code lacks it, the
    advice is to build it as well; where rocBLAS's kernels lack it, there is none.
    """
    if view.column or view.backend is not Backend.ROCM:
        return ""
    there = set(built)
    second = ""
    for other in view.tables.neighbours.get(view.processor, ()):
        info = view.tables.targets.get(other)
        if other not in there or info is None or not info.override or _kernels(view, other) is False:
            continue
        code, setting = code_holds(view, other), f"{_name(view)}={info.override}"
        why = f"its code needs nothing that {view.processor} lacks"
        if code is True:
            return f"set {setting} for the server: {other} is built, and {why}"
        verb = "build" if code is False else "take or build"
        second = second or f"{verb} a runtime for {other} and set {setting} for it: rocBLAS has {other}, and {why}"
    return second


def code_holds(view: PathView, other: str) -> bool | None:
    """Whether a runtime's library of this path holds code for a target; None where no library was read."""
    found = [code for _, library in view.backend_libraries if (code := view.code(library.path)) is not None]
    info = view.tables.targets.get(other)
    names = (other, info.generic if info and info.generic else other)
    return any(entry.processor in names for code in found for entry in code.targets) if found else None


def _kernels(view: PathView, other: str) -> bool | None:
    """Whether the rocBLAS that a runtime links has kernels for another target; None where that is not known."""
    for _, library in view.backend_libraries:
        folder = view.folder_of(library, "rocBLAS")
        if folder is not None:
            return folder.of(other).state in USABLE
    return None


def _name(view: PathView) -> str:
    """The plain variable renames every GPU: beside a card of another target only the node's own will do."""
    node = view.card.kfd if view.card else None
    others = {card.processor for card in view.machine.cards if card.kfd is not None} - {view.processor}
    return f"{VARIABLE}_{node.number}" if node is not None and others else VARIABLE
