"""Environment: masks that hide the card, overrides and what they turn into, as the serving process sees them."""

from __future__ import annotations

import re

from stillruns.judge.gates import override
from stillruns.judge.gates.path_view import PathView, matches
from stillruns.judge.gates.serving import Server, servers
from stillruns.model.absence import AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.card import Card
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.machine import Environment, Kfd
from stillruns.model.target import TargetId, TargetInfo, from_override

LAYER = Layer.ENVIRONMENT
DECIDES = (
    "ROCR_, HIP_, CUDA_VISIBLE_DEVICES, GPU_DEVICE_ORDINAL, GGML_VK_VISIBLE_DEVICES, HSA_OVERRIDE_GFX_VERSION(_n), "
    "of every serving process by itself (a server and its runners), of its unit where none runs, of this shell last"
)

_EMPTY_HIDES = ("ROCR_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES")
"""Masks that hide every device when they are set and empty (ggml-vulkan.cpp, ggml_vk_instance_init: b11434:5275)."""

_PLAIN = "nothing in {} hides or renames the card"
_HIP_MASKS = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")


def judge(view: PathView) -> Gate | None:
    """`block` when a mask hides the card or an override points at code that is not there; `partial` when that holds
    for some of several servers."""
    if view.target is None:
        return None
    if not view.machine.environments:
        return view.unknown(LAYER, "no environment was read", AbsenceReason.NOT_COLLECTED)
    told = [(server, _of(server.seen(view), server)) for server in servers(view)]
    hidden = [server for server, gate in told if gate.absent is AbsenceReason.NO_PERMISSION]
    if len(told) == 1:
        return told[0][1]
    return _together(view, told, hidden)


def _of(view: PathView, server: Server) -> Gate:
    """The verdict on one server's own environment."""
    if not server.readable:
        text = f"{server.name}, whose environment is not readable; run once with sudo"
        return view.unknown(LAYER, text, AbsenceReason.NO_PERMISSION, server.environments[0].cite)
    for check in (_masks, _overrides):
        gate = check(view)
        if gate is not None:
            return gate
    name = server.name if server.serving else "this shell"
    return view.gate(LAYER, GateStatus.ALLOW, _PLAIN.format(name))


def _together(view: PathView, told: list[tuple[Server, Gate]], hidden: list[Server]) -> Gate:
    """Several servers: each is named, the strictest first; they block together only."""
    rank = (GateStatus.BLOCK, GateStatus.PARTIAL, GateStatus.UNKNOWN, GateStatus.ALLOW)
    gates = sorted((gate for _, gate in told), key=lambda gate: rank.index(gate.status))
    statuses = {gate.status for gate in gates}
    plain = [server.name for server, gate in told if gate.reason == _PLAIN.format(server.name)]
    reasons = [gate.reason for gate in gates if gate.reason not in {_PLAIN.format(name) for name in plain}]
    quiet = [_PLAIN.format(", ".join(plain))] if plain else []
    text = "; ".join(dict.fromkeys([*reasons, *quiet]))
    evidence = tuple(dict.fromkeys(cite for gate in gates for cite in gate.evidence))
    if statuses == {GateStatus.BLOCK} or statuses == {GateStatus.ALLOW}:
        status = gates[0].status
    elif statuses & {GateStatus.BLOCK, GateStatus.PARTIAL}:
        status = GateStatus.PARTIAL
    else:
        status = GateStatus.UNKNOWN
    first = gates[0]
    absent = None
    if status is GateStatus.UNKNOWN:
        absent = AbsenceReason.NO_PERMISSION if hidden else first.absent or AbsenceReason.NOT_COLLECTED
    return view.gate(
        LAYER, status, text, *evidence[:6], absent=absent, weight=first.weight, advice=first.advice,
        workarounds=first.workarounds,
    )  # fmt: skip


def _masks(view: PathView) -> Gate | None:
    cards = _order(view)
    visible: list[Card | None] = list(cards)
    if view.backend is Backend.ROCM:
        names: tuple[str, ...] = ("ROCR_VISIBLE_DEVICES", *_HIP_MASKS)
    elif view.backend is Backend.CUDA:
        names = ("CUDA_VISIBLE_DEVICES",)
    else:
        names = ("GGML_VK_VISIBLE_DEVICES",)
    for name in names:
        found = view.variable(name)
        if found is None:
            continue
        value, owner = found
        if value == "":
            if name in _EMPTY_HIDES or (name == "CUDA_VISIBLE_DEVICES" and view.backend is Backend.CUDA):
                return _hidden(view, f'{name}="" in {owner.owner} hides every GPU', owner)
            continue  # HIP counts an empty mask as unset
        shown = _select(value, visible)
        if view.backend is Backend.VULKAN and (len(cards) > 1 or not shown):
            text = f"{name}={value} in {owner.owner} counts Vulkan's devices, whose order the loader decides"
            return view.unknown(LAYER, text, AbsenceReason.NOT_COLLECTED, owner.cite)
        if shown is None:
            text = f"{name}={value} in {owner.owner} names GPUs by more than numbers: what it hides is not decided"
            return view.unknown(LAYER, text, AbsenceReason.UNPARSABLE, owner.cite)
        if not shown:
            return _hidden(view, f"{name}={value} in {owner.owner} leaves no GPU of {len(visible)}", owner)
        visible = shown
        order = view.variable("CUDA_DEVICE_ORDER")
        if view.backend is Backend.CUDA and len(cards) > 1 and (order is None or order[0] != "PCI_BUS_ID"):
            text = f"{name}={value} in {owner.owner} counts the fastest card first (no CUDA_DEVICE_ORDER=PCI_BUS_ID)"
            return view.unknown(LAYER, text, AbsenceReason.NOT_COLLECTED, owner.cite)
        if view.card is not None and view.card in cards and view.card not in visible:
            return _hidden(view, f"{name}={value} in {owner.owner} leaves this card out", owner)
    return None


def _select(value: str, visible: list[Card | None]) -> list[Card | None] | None:
    """What a mask of numbers leaves, in its order; it ends at the first number that is none. None for UUIDs."""
    shown: list[Card | None] = []
    for word in value.split(","):
        if re.match(r"(?:GPU-|MIG-)", word.strip()):
            return None
        if not re.fullmatch(r"\d{1,4}", word.strip()) or int(word) >= max(len(visible), 1):
            break
        shown.append(visible[int(word)] if int(word) < len(visible) else None)
    return shown


def _order(view: PathView) -> list[Card]:
    """The cards as the runtime numbers them: KFD order for ROCm, bus order otherwise."""
    if view.backend is Backend.ROCM:
        nodes = [card for card in view.machine.cards if card.kfd is not None]
        return sorted(nodes, key=lambda card: card.kfd.number if card.kfd else 0)
    vendor = 0x10DE if view.backend is Backend.CUDA else None
    return [card for card in view.machine.cards if vendor is None or card.vendor == vendor]


def _hidden(view: PathView, text: str, owner: Environment) -> Gate:
    return view.gate(
        LAYER, GateStatus.BLOCK, text, owner.cite, weight=90, advice=f"take the mask out of {owner.owner}"
    )


def _overrides(view: PathView) -> Gate | None:
    if view.backend is not Backend.ROCM:
        return None
    found = override.acting(view)
    if found is None:
        return _lost_suffixes(view)
    what = f"{found.name}={found.value} in {found.owner.owner}"
    if not found.processor:
        return view.gate(LAYER, GateStatus.BLOCK, f"{what} is no version of the form "
            "9.0.0", found.owner.cite, weight=88,
                         advice=f"correct or remove {found.name}")  # fmt: skip
    if found.processor == view.processor:
        text = f"{what} names {found.processor}, which the card is: it changes nothing but the runtime's own checks"
        return view.gate(LAYER, GateStatus.ALLOW, text, found.owner.cite)
    return _pretended(view, what, found.name, found.processor, found.owner)


def _pretended(view: PathView, what: str, name: str, pretended: str, owner: Environment) -> Gate:
    info = view.tables.targets.get(pretended)
    if info is None:
        return view.gate(LAYER, GateStatus.BLOCK, f"{what} turns the card into {pretended}, which does not exist",
                         owner.cite, weight=88, advice=f"remove {name}")  # fmt: skip
    codes = [code for _, library in view.backend_libraries if (code := view.code(library.path)) is not None]
    has = any(matches(entry, TargetId(pretended), info)[0] for code in codes for entry in code.targets)
    if codes and not has:
        text = f"{what} turns the card into {pretended}, and no runtime here holds code for that"
        return view.gate(LAYER, GateStatus.BLOCK, text, owner.cite, weight=88, advice=f"remove {name}")
    if override.compatible(view, pretended):
        text = f"{what} turns the card into {pretended}, whose code needs nothing that {view.processor} lacks"
        return view.gate(LAYER, GateStatus.PARTIAL, text, owner.cite, workarounds=("override-gfx-neighbour",))
    mine = view.info
    if mine is not None and _generation(mine) != _generation(info):
        text = f"{what} makes a {mine.family} card run code for {pretended} ({info.family}): another instruction set"
        return view.gate(LAYER, GateStatus.BLOCK, text, owner.cite, weight=88, advice=f"remove {name}",
                         workarounds=("override-own-version",))  # fmt: skip
    text = (
        f"{what} turns the card into {pretended}, which is not known to be compatible with {view.processor}: "
        "illegal instructions or wrong results are possible"
    )
    own = any(matches(entry, view.target, mine)[0] for code in codes for entry in code.targets if view.target)
    return view.gate(
        LAYER, GateStatus.PARTIAL, text, owner.cite, weight=130,  # above the blocks that it may cause itself
        advice=f"remove {name}: the runtime here holds code for {view.processor} itself" if own else "",
        workarounds=("override-own-version",),
    )  # fmt: skip


def _generation(known: TargetInfo) -> tuple[str, str]:
    """GCN, CDNA or RDNA, and the major version: beyond them it is another instruction set; within it is not known."""
    return known.family.partition(" ")[0].rstrip("0123456789."), known.target[3:-2]


def _lost_suffixes(view: PathView) -> Gate | None:
    """A suffix that names a CPU's node or none: it changes nothing, and its author counted GPUs."""
    if not isinstance(view.machine.kfd, Kfd) or view.card is None or view.card.kfd is None:
        return None
    gpus = {node.number for node in view.machine.kfd.nodes if node.is_gpu}
    for environment in view.machine.environments:
        for name, value in environment.variables.items():
            found = re.fullmatch(r"HSA_OVERRIDE_GFX_VERSION_(\d{1,4})", name)
            if found and int(found[1]) not in gpus:
                number = view.card.kfd.number
                text = f"{name} in {environment.owner} names a node that is no GPU; this card is node {number}"
                return view.gate(LAYER, GateStatus.PARTIAL, text, environment.cite, weight=40,
                                 advice=_own_suffix(view, name, value, number),
                                 workarounds=("override-per-gpu",))  # fmt: skip
    return None


def _own_suffix(view: PathView, name: str, value: str, number: int) -> str:
    """The right suffix where the value would help this card, else away with it."""
    if override.compatible(view, from_override(value)):
        return f"write HSA_OVERRIDE_GFX_VERSION_{number}: the suffix counts nodes, CPUs too"
    return f"remove {name}: the suffix counts nodes, CPUs too, and {value} would not help this card (node {number})"
