"""Device nodes, groups and security modules: bytes to facts."""

from __future__ import annotations

import re

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.machine import Node, Permissions
from stillruns.model.raw import Collected


def parse(raw: Collected) -> Permissions | Absence:
    """Facts; an absence when nothing was read. A regular file under /dev stands for a node (in a sysroot, where
    nobody can make one)."""
    if not raw.files:
        return Absence(AbsenceReason.NOT_COLLECTED, "device nodes and groups were not looked at")
    names = _group_names(raw.text("/etc/group") or "")
    nodes = []
    for file in raw.files:
        if file.path.startswith("/dev/") and file.kind in ("device", "file"):
            group = names.get(file.gid, str(file.gid))
            shown = f"{file.mode:04o} uid {file.uid} group {group} ({file.device})"
            nodes.append(Node(file.path, file.mode, file.uid, file.gid, group, file.access, file.cite(shown)))
    uid, gids = _process(raw.text("/proc/self/status") or "")
    groups = raw.file("/etc/group")
    cites = {"/etc/group": groups.cite("-")} if groups is not None and groups.data else {}
    return Permissions(
        nodes=tuple(nodes),
        uid=uid,
        gids=gids,
        groups=_members(raw.text("/etc/group") or "", raw.text("/etc/passwd") or "", names),
        selinux=_selinux(raw),
        cites=cites,
    )


def _group_names(text: str) -> dict[int, str]:
    found: dict[int, str] = {}
    for line in text.splitlines():
        parts = line.split(":")
        if len(parts) >= 3 and parts[2].isdigit():
            found.setdefault(int(parts[2]), parts[0])
    return found


def _members(groups: str, passwd: str, names: dict[int, str]) -> dict[str, tuple[str, ...]]:
    """User -> groups: those that list it, and its own first one."""
    found: dict[str, list[str]] = {}
    for line in passwd.splitlines():
        parts = line.split(":")
        if len(parts) >= 4 and parts[3].isdigit():
            found.setdefault(parts[0], []).append(names.get(int(parts[3]), parts[3]))
    for line in groups.splitlines():
        parts = line.split(":")
        if len(parts) >= 4:
            for user in filter(None, parts[3].split(",")):
                found.setdefault(user, []).append(parts[0])
    return {user: tuple(dict.fromkeys(listed)) for user, listed in found.items()}


def _process(status: str) -> tuple[int | None, tuple[int, ...]]:
    uid = re.search(r"^Uid:\s+\d+\s+(\d+)", status, re.MULTILINE)
    gid = re.search(r"^Gid:\s+\d+\s+(\d+)", status, re.MULTILINE)
    more = re.search(r"^Groups:([\d \t]*)", status, re.MULTILINE)
    gids = [int(gid[1])] if gid else []
    gids += [int(word) for word in (more[1].split() if more else [])]
    return (int(uid[1]) if uid else None), tuple(dict.fromkeys(gids))


def _selinux(raw: Collected) -> str:
    live = raw.text("/sys/fs/selinux/enforce")
    if live in ("0", "1"):
        return "enforcing" if live == "1" else "permissive"
    found = re.search(r"^SELINUX=(\w+)", raw.text("/etc/selinux/config") or "", re.MULTILINE)
    return found[1] if found and found[1] != "disabled" else ""
