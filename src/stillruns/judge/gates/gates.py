"""The gate matrix: every layer for every path, and what follows from them."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Sequence

from stillruns.judge.gates import override
from stillruns.judge.gates.layers import (
    build_filter,
    bus,
    code_objects,
    device_init,
    environment,
    execution,
    firmware,
    host_cpu,
    kernel_driver,
    kernel_libraries,
    model_needs,
    permissions,
    power,
    runtime_filter,
    source_macros,
    support,
    versions,
    vulkan,
)
from stillruns.judge.gates.path_view import PathView
from stillruns.model.absence import AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.card import Card
from stillruns.model.gate import (
    Advice,
    CardAnswer,
    Gate,
    GateMatrix,
    GatePath,
    GateStatus,
    Layer,
    PathStatus,
)
from stillruns.model.gate_tables import GateTables
from stillruns.model.machine import Machine
from stillruns.model.target import TargetId, parse_target
from stillruns.model.wording import enumerated

LAYERS = (
    support,
    build_filter,
    code_objects,
    kernel_libraries,
    model_needs,
    runtime_filter,
    firmware,
    kernel_driver,
    permissions,
    bus,
    power,
    versions,
    vulkan,
    host_cpu,
    source_macros,
    environment,
    device_init,
    execution,
)
"""Every layer's module, in the order of the matrix."""

MOST_ADVICE = 5
_OF_CODE = (Layer.BUILD_FILTER, Layer.CODE_OBJECTS, Layer.KERNEL_LIBRARIES)
"""Layers that all ask the same: is there code for this target?"""
LONGEST_WHY = 200
"""Characters of a gate's reason in a card's one line."""

_DECIDING: dict[Backend, tuple[Layer, ...]] = {
    Backend.ROCM: (Layer.CODE_OBJECTS, Layer.KERNEL_LIBRARIES, Layer.KERNEL_DRIVER),
    Backend.CUDA: (Layer.CODE_OBJECTS, Layer.KERNEL_DRIVER),
    Backend.VULKAN: (Layer.VULKAN, Layer.KERNEL_DRIVER),
    Backend.CPU: (Layer.HOST_CPU,),
}
"""Layers that must say allow or partial before a path is called open: silence is not consent."""

_TOLD_ONLY = (Layer.SUPPORT, Layer.BUILD_FILTER, Layer.SOURCE_MACROS)
"""Layers whose `partial` says nothing against a path that is open."""

_OTHERS = {"rocm": "ROCm", "cuda": "CUDA"}
"""Backends that Vulkan may stand in for."""

_GOOD = (GateStatus.ALLOW, GateStatus.PARTIAL)


def judge(machine: Machine, tables: GateTables, target: str = "") -> GateMatrix:
    """All gates, paths and advice. `target` asks for one target id, in the machine or not."""
    views = paths_of(machine, tables, target)
    gates: list[Gate] = []
    paths: list[GatePath] = []
    for view in views:
        mine = [gate for layer in LAYERS if (gate := layer.judge(view)) is not None]
        gates += mine
        paths.append(conclude(view, mine))
    targets = tuple(dict.fromkeys(path.target for path in paths if path.target not in ("cpu", "none")))
    return GateMatrix(
        machine=machine.name,
        targets=targets,
        gates=tuple(gates),
        paths=tuple(paths),
        cards=tuple(_answers(views, paths, gates)),
        advice=advise(gates, paths),
        notes=tuple(_notes(machine, tables, target)),
    )


def paths_of(machine: Machine, tables: GateTables, target: str) -> list[PathView]:
    """The columns: each card on each backend that could drive it, or one target; and the CPU."""
    wanted = parse_target(target) if target else None
    views: list[PathView] = []
    for card in machine.cards:
        own = parse_target(card.target)
        if wanted is not None and (own is None or own.processor != wanted.processor):
            continue
        judged = own if wanted is None or own is None else _merged(own, wanted)
        views += [PathView(backend, judged, card, machine, tables) for backend in _backends(card.vendor)]
    if wanted is not None and not views:
        vendor = 0x10DE if wanted.processor.startswith(("sm_", "compute_")) else 0x1002
        views = [PathView(backend, wanted, None, machine, tables) for backend in _backends(vendor)]
    if wanted is None:
        if not machine.cards:
            views.append(PathView(Backend.VULKAN, None, None, machine, tables))
        views.append(PathView(Backend.CPU, None, None, machine, tables))
    return views


def _merged(own: TargetId, wanted: TargetId) -> TargetId:
    """The card's target with the features that were asked for."""
    return TargetId(
        own.processor,
        own.sramecc if wanted.sramecc is None else wanted.sramecc,
        own.xnack if wanted.xnack is None else wanted.xnack,
    )


def _backends(vendor: int) -> tuple[Backend, ...]:
    return {0x1002: (Backend.ROCM, Backend.VULKAN), 0x10DE: (Backend.CUDA, Backend.VULKAN)}.get(
        vendor, (Backend.VULKAN,)
    )


def conclude(view: PathView, gates: Sequence[Gate]) -> GatePath:
    """One path's line. Files decide over recipes: a build filter stops nothing that the installed file holds."""
    status = {gate.layer: gate.status for gate in gates}
    stopped = [gate.layer for gate in gates if gate.status is GateStatus.BLOCK]
    if Layer.BUILD_FILTER in stopped and status.get(Layer.CODE_OBJECTS) in _GOOD:
        stopped.remove(Layer.BUILD_FILTER)
    device = view.card.address if view.card else None
    if status.get(Layer.EXECUTION) is GateStatus.ALLOW:
        text = "applied trials passed" + ("" if not stopped else f", whatever {_list(stopped)} says")
        return GatePath(view.backend.value, view.shown, device, PathStatus.OPEN, (), text)
    if stopped:
        text = f"stopped by {_list(stopped)}"
        return GatePath(view.backend.value, view.shown, device, PathStatus.STOPPED, tuple(stopped), text)
    needed = [layer for layer in _DECIDING[view.backend] if view.card or layer is not Layer.KERNEL_DRIVER]
    missing = [layer for layer in needed if status.get(layer) not in _GOOD]
    if view.backend is Backend.CPU and status.get(Layer.DEVICE_INIT) is GateStatus.ALLOW:
        missing = []  # the program started on this CPU, which says more than its name
    missing += [gate.layer for gate in gates if gate.doubt and gate.layer not in missing]
    if missing:
        text = f"nothing that was read stops it, but {_list(missing)} could not be decided"
        if len(missing) == 1:
            why = next((gate.reason for gate in gates if gate.layer is missing[0]), "")
            text += f" ({textwrap.shorten(why, LONGEST_WHY, placeholder=' ...')})" if why else ""
        return GatePath(view.backend.value, view.shown, device, PathStatus.UNKNOWN, (), text)
    if _no_runtime(view, status):
        text = f"the driver is there, but no runtime with a {view.backend.value} backend was found here"
        return GatePath(view.backend.value, view.shown, device, PathStatus.UNKNOWN, (), text)
    text = "open" if view.card or view.backend is Backend.CPU else "open, as far as files tell (no such card is here)"
    doubts = [gate.layer for gate in gates if gate.layer not in _TOLD_ONLY and _doubtful(gate)]
    if doubts:
        text += f"; see {_list(doubts)}"
    return GatePath(view.backend.value, view.shown, device, PathStatus.OPEN, (), text)


def _doubtful(gate: Gate) -> bool:
    """A loss or a condition; or something that was there and could not be read."""
    unreadable = gate.absent in (AbsenceReason.UNPARSABLE, AbsenceReason.NO_PERMISSION)
    return gate.status is GateStatus.PARTIAL or (gate.status is GateStatus.UNKNOWN and unreadable)


def _no_runtime(view: PathView, status: dict[Layer, GateStatus]) -> bool:
    """A path is a runtime's: a Vulkan driver that no runtime here uses opens none. (For ROCm and CUDA code objects
    say so.)"""
    if view.backend is not Backend.VULKAN or view.backend_libraries:
        return False
    return status.get(Layer.DEVICE_INIT) is not GateStatus.ALLOW


def _list(layers: Sequence[Layer]) -> str:
    return enumerated([layer.value for layer in layers])


def advise(gates: Sequence[Gate], paths: Sequence[GatePath]) -> tuple[Advice, ...]:
    """At most five, the likeliest first; one text once, though several cards ask for it."""
    found: dict[str, tuple[int, Gate]] = {}
    for gate in gates:
        if not (gate.doubt or gate.status in (GateStatus.BLOCK, GateStatus.PARTIAL)) or not gate.advice:
            continue
        weight = gate.weight + (0 if gate.doubt or gate.status is GateStatus.BLOCK else -50)
        weight -= 60 if gate.target == "none" else 0  # a card that only drives a screen is no first concern
        if gate.advice not in found or found[gate.advice][0] < weight:
            found[gate.advice] = (weight, gate)
    ranked = [gate for _, gate in sorted(found.values(), key=lambda pair: -pair[0])]
    advice = [Advice(0, gate.advice, gate.path, gate.layer, gate.workarounds, _one_of(gate)) for gate in ranked]
    for number, gate in enumerate(ranked):
        if any(_instead(other, gate) for other in ranked[:number]):
            text = f"instead of the override above (one of the two is enough): {gate.advice}"
            advice[number] = dataclasses.replace(advice[number], text=text)
    instead = _vulkan_instead(gates, paths)
    if instead:
        vulkan = Advice(0, instead, "vulkan", Layer.VULKAN, ("prefer-vulkan",))
        advice.insert(min(1, len(advice)), vulkan)
    return tuple(dataclasses.replace(entry, rank=rank) for rank, entry in enumerate(advice[:MOST_ADVICE], 1))


def _one_of(gate: Gate) -> bool:
    """Whether its workarounds are several ways around one obstacle: code or kernels that are not there for the
    target. (Those of a board or of an environment may be for a fault each, and a build that an override needs is no
    other way.)"""
    return gate.layer in (*_OF_CODE, Layer.RUNTIME_FILTER) and (_setting_alone(gate) or not _sets(gate))


def _instead(setting: Gate, gate: Gate) -> bool:
    """Whether an override for the same card, with which it is given its neighbour's code, leaves nothing to do for
    the lack of its own."""
    same = (setting.path, setting.target, setting.device) == (gate.path, gate.target, gate.device)
    return same and _setting_alone(setting) and gate.layer in _OF_CODE and not _sets(gate)


def _sets(gate: Gate) -> bool:
    """Whether its advice is to present the card as another (with or without a build for that one)."""
    return gate.layer in _OF_CODE and override.VARIABLE in gate.advice


def _setting_alone(gate: Gate) -> bool:
    return _sets(gate) and gate.advice.startswith("set ")


def _vulkan_instead(gates: Sequence[Gate], paths: Sequence[GatePath]) -> str:
    """Vulkan for a card whose other backend is stopped, or that no runtime here uses; empty where there is no such
    way."""
    whole = {(gate.target, gate.device) for gate in gates if gate.layer is Layer.VULKAN and gate.status in _GOOD}
    ways = {
        (path.target, path.device): path.status
        for path in paths
        if path.path == "vulkan" and path.status is not PathStatus.STOPPED and (path.target, path.device) in whole
    }
    for path in paths:
        way = ways.get((path.target, path.device))
        if path.path not in _OTHERS or path.status is not PathStatus.STOPPED or way is None or path.target == "none":
            continue
        other = _OTHERS[path.path]
        if way is PathStatus.OPEN:
            return f"use the Vulkan backend on {path.target}: it is open where {other} is stopped"
        return f"use a runtime with the Vulkan backend on {path.target}: its driver is there, {other} is stopped"
    of_cards = [path for path in paths if path.path != "cpu"]
    if ways and all(path.status is PathStatus.UNKNOWN for path in of_cards):
        return (
            "use a runtime with the Vulkan backend: the card's driver is there, and no runtime was found that uses it"
        )
    return ""


def _answers(views: Sequence[PathView], paths: Sequence[GatePath], gates: Sequence[Gate]) -> list[CardAnswer]:
    """Why was my GPU skipped: one line a card, complete in itself."""
    answers: dict[str | None, tuple[Card | None, PathView, list[GatePath]]] = {}
    for view, path in zip(views, paths, strict=True):
        if view.target is not None or view.card is not None:
            answers.setdefault(path.device, (view.card, view, []))[2].append(path)
    found = []
    for device, (card, view, mine) in answers.items():
        text = "; ".join(f"{path.path}: {_why(path, gates)}" for path in mine)
        if all(path.status is PathStatus.OPEN for path in mine):
            text = f"nothing that was read skips it ({text})"
        name = card.name if card else "not in this machine"
        found.append(CardAnswer(device, name, view.shown, text))
    return found


def _why(path: GatePath, gates: Sequence[Gate]) -> str:
    """A stopped path with the reasons of the gates that stop it, the heaviest first; another one as it is told."""
    stops = [
        gate
        for gate in gates
        if (gate.path, gate.target, gate.device) == (path.path, path.target, path.device)
        and gate.layer in path.stopped_by
    ]
    if not stops:
        return path.reason
    stops.sort(key=lambda gate: -gate.weight)
    first = textwrap.shorten(stops[0].reason, LONGEST_WHY, placeholder=" ...")
    rest = f", and by {_list([gate.layer for gate in stops[1:]])}" if stops[1:] else ""
    return f"stopped by {stops[0].layer.value} ({first}){rest}"


def _notes(machine: Machine, tables: GateTables, target: str) -> list[str]:
    notes = []
    if not machine.cards and not target:
        notes.append("no GPU was found on the PCI bus or in the KFD topology; --target judges one that is not here")
    wanted = target.partition(":")[0]
    if wanted.startswith("gfx") and wanted not in tables.targets:
        notes.append(f"{wanted} is in no table of targets that was read: what is said of it comes from files alone")
    kinds: dict[str, set[str]] = {}
    for card in machine.cards:
        if card.target:
            kinds.setdefault(card.processor, set()).add(card.target)
        else:
            notes.append(f"{card.address} ({card.name}): nothing here tells its target")
    for processor, ids in kinds.items():
        if len(ids) > 1:
            notes.append(
                f"cards of {processor} differ: {', '.join(sorted(ids))}; code that fixes a feature runs on some"
            )
    notes += machine.remarks
    for tool in machine.tools:
        notes += [f"{tool.name} says {topic} {value} for {tool.address}" for topic, value in tool.says.items()]
    return notes
