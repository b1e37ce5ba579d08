"""Permissions: may the server open the card's device nodes?"""

from __future__ import annotations

from stillruns.judge.gates.path_view import PathView
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.machine import Environment, Node, Permissions

LAYER = Layer.PERMISSIONS
_UNMAPPED = 65534
"""The owner that a user namespace shows for one that it does not map (user_namespaces(7), overflowuid)."""
DECIDES = (
    "/dev/kfd, render nodes and NVIDIA's nodes: presence, mode, group; the groups of the serving user; "
    "nodes that belong to nobody in a rootless container; container device rules; SELinux and AppArmor denials "
    "in the log"
)


def judge(view: PathView) -> Gate | None:
    """`block` when a node is missing or closed to the user who serves."""
    if view.target is None or view.card is None or view.backend is Backend.CPU:
        return None
    facts = view.machine.permissions
    if isinstance(facts, Absence):
        return view.unknown(LAYER, facts.detail, facts.reason)
    wanted = _wanted(view)
    if not facts.nodes and not view.machine.live and view.machine.container is None:
        return view.unknown(LAYER, "this tree has no device nodes", AbsenceReason.NOT_COLLECTED)
    nodes = {node.path: node for node in facts.nodes}
    container = view.machine.container
    where = f" in this {container.kind} container" if container else ""
    for path in wanted:
        if path not in nodes:
            return view.gate(
                LAYER, GateStatus.BLOCK, f"{path} is not there{where}",
                container.cite if container else None, weight=80,
                advice=f"start the container with --device {path}" if container else f"find out why {path} is "
                    "missing",
                workarounds=("groups-and-permissions",),
            )  # fmt: skip
    rule = _cgroup(view, wanted, nodes)
    if rule is not None:
        return rule
    denied = [event for event in view.events(LAYER) if event.severity in ("warn", "stop")]
    for path in wanted:
        gate = _unmapped(view, nodes[path]) or _closed(view, facts, nodes[path])
        if gate is not None:
            return gate
    if denied:
        return view.gate(
            LAYER, GateStatus.PARTIAL, denied[-1].text, denied[-1].cite, weight=60,
            advice="allow the container or service to use GPU devices", workarounds=("selinux-container-devices",),
        )  # fmt: skip
    shown = ", ".join(wanted) or "no node is needed"
    everybody = bool(wanted) and all(nodes[path].mode & 0o006 == 0o006 for path in wanted)
    who = "everybody" if everybody else _who(view)
    return view.gate(LAYER, GateStatus.ALLOW, f"{shown}: open to {who}", *(nodes[p].cite for p in wanted))


def _wanted(view: PathView) -> tuple[str, ...]:
    assert view.card is not None
    render = f"/dev/dri/{view.card.render_node}" if view.card.render_node else ""
    if view.backend is Backend.ROCM:
        return tuple(filter(None, ("/dev/kfd", render)))
    if view.card.vendor == 0x10DE and view.card.pci and view.card.pci.driver in ("nvidia", ""):
        driver = view.machine.nvidia
        minor = None if isinstance(driver, Absence) else driver.minors.get(view.card.address)
        return ("/dev/nvidiactl",) if minor is None else ("/dev/nvidiactl", f"/dev/nvidia{minor}")
    return (render,) if render else ()


def _serving(view: PathView) -> list[Environment]:
    """Processes that serve; where none runs, the units that name their user."""
    mine = [entry for entry in view.machine.environments if entry.serving and entry.user]
    return [entry for entry in mine if entry.pid is not None] or mine[:1]


def _who(view: PathView) -> str:
    serving = _serving(view)
    if serving:
        return ", ".join(f"{entry.owner} as {entry.user}" for entry in serving[:4])
    return "this user" if view.machine.live else "somebody (which user serves is not told)"


def _unmapped(view: PathView, node: Node) -> Gate | None:
    """In a rootless container a node that belongs to nobody is open to everybody or to none, its root included:
    neither owner nor group is one of the container's, unless the group was kept from outside."""
    if view.machine.container is None or (node.uid, node.gid) != (_UNMAPPED, _UNMAPPED):
        return None
    serving = _serving(view)
    kept = any(node.gid in entry.gids for entry in serving)
    if node.access == "rw" or node.mode & 0o006 == 0o006 or (kept and node.mode & 0o060 == 0o060):
        return None
    return view.gate(
        LAYER, GateStatus.BLOCK, f"{node.path} is {node.mode:04o} and belongs to nobody in this rootless container, "
            "whose root is none outside", node.cite, weight=85,
        advice="start the container with the groups of its user (podman: --group-add keep-groups), or give the node "
            "mode 0666 on the host",
        workarounds=("groups-and-permissions",),
    )  # fmt: skip


def _closed(view: PathView, facts: Permissions, node: Node) -> Gate | None:
    """A verdict when a serving process or user, or this one, may not open a node."""
    serving = _serving(view)
    gates = [gate for entry in serving if (gate := _closed_to(view, facts, node, entry)) is not None]
    if gates and len(gates) < len(serving):
        text = f"{gates[0].reason}; other servers may open it"
        return view.gate(LAYER, GateStatus.PARTIAL, text, node.cite, advice=gates[0].advice, weight=gates[0].weight)
    if gates or serving:
        return gates[0] if gates else None
    return _closed_here(view, facts, node)


def _closed_to(view: PathView, facts: Permissions, node: Node, server: Environment) -> Gate | None:
    """One server: a process by its own groups, a unit by its user's."""
    user, owner = server.user, server.owner
    mode = f"{node.path} is {node.mode:04o}, group {node.group}"
    if server.pid is not None:
        owns = user == str(node.uid) and node.mode & 0o600 == 0o600
        grouped = node.gid in server.gids and node.mode & 0o060 == 0o060
        if user == "0" or owns or grouped or node.mode & 0o006 == 0o006:
            return None
        if not server.gids:
            return view.unknown(LAYER, f"{mode}; the groups of {owner} are not told", AbsenceReason.NO_PERMISSION)
        return _blocked(view, node, f"{mode}, and {owner} (uid {user}) is not in it", "THE_SERVER_S_USER")
    if user and not user.isdigit():
        if node.mode & 0o006 == 0o006 or user == "root" or node.group in facts.groups.get(user, ()):
            return None
        if user not in facts.groups:
            text = f"{mode}; whether {user} ({owner}) is in it is not told here"
            return view.unknown(LAYER, text, AbsenceReason.NOT_COLLECTED, node.cite)
        return _blocked(view, node, f"{mode}, and {user} ({owner}) is not in it", user)
    return _closed_here(view, facts, node)


def _closed_here(view: PathView, facts: Permissions, node: Node) -> Gate | None:
    """No server is known: this user on the live machine, else what the group's members would be."""
    mode = f"{node.path} is {node.mode:04o}, group {node.group}"
    if node.access == "?":
        if node.mode & 0o006 == 0o006:
            return None
        members = [name for name, groups in facts.groups.items() if node.group in groups]
        text = f"{mode} (members: {', '.join(members[:5]) or 'none'}); which user serves is not told here"
        return view.gate(LAYER, GateStatus.PARTIAL, text, node.cite)
    if node.access == "rw":
        return None
    return _blocked(view, node, f"{mode}, and this user may not open it", "$USER")


def _blocked(view: PathView, node: Node, text: str, user: str) -> Gate:
    return view.gate(
        LAYER, GateStatus.BLOCK, text, node.cite, weight=85,
        advice=f"sudo usermod -aG {node.group} {user}, then log in again (or restart the service)",
        workarounds=("groups-and-permissions",),
    )  # fmt: skip


def _cgroup(view: PathView, wanted: tuple[str, ...], nodes: dict[str, Node]) -> Gate | None:
    """cgroup v1 lists what a container may open; version 2 keeps it in a program that nobody can read."""
    container = view.machine.container
    if container is None or not container.device_rules or any(r.startswith("a ") for r in container.device_rules):
        return None
    for path in wanted:
        shown = nodes[path].cite.excerpt
        major = shown.rpartition("(")[2].partition(":")[0]
        if major.isdigit() and not any(f"c {major}:" in rule or "c *:" in rule for rule in container.device_rules):
            return view.gate(
                LAYER, GateStatus.BLOCK, f"{path} is there, but the container's device rules do not allow it",
                nodes[path].cite, weight=80, advice=f"start the container with --device {path}",
            )  # fmt: skip
    return None
