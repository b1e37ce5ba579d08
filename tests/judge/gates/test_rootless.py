"""The promise: in a rootless container a node that belongs to nobody is not called open because its user is root."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import described
import machines
from stillruns.model.absence import Absence
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.machine import Machine

NOBODY = 65534


def machine(root: Path, *, container: str = "podman", gids: tuple[int, ...] = (0,), mode: int = 0o660) -> Machine:
    """A server that runs as root where the nodes are nobody's, with these groups."""
    facts = {"os": "ubuntu 24.04", "container": container,
             "cards": [{"id": "1002:744c", "gfx": 110000, "gib": 24}],
             "process": {"program": "/usr/bin/ollama", "uid": 0}}  # fmt: skip
    described.build(root, facts, {})
    found = machines.of(root)
    assert not isinstance(found.permissions, Absence)
    nodes = tuple(dataclasses.replace(n, uid=NOBODY, gid=NOBODY, mode=mode) for n in found.permissions.nodes)
    servers = tuple(dataclasses.replace(entry, gids=gids) for entry in found.environments)
    permissions = dataclasses.replace(found.permissions, nodes=nodes)
    return dataclasses.replace(found, permissions=permissions, environments=servers)


def verdict(found: Machine, path: str = "rocm") -> Gate:
    """The layer's verdict."""
    return machines.gate(machines.judged(found), Layer.PERMISSIONS, path)


@pytest.mark.parametrize("path", ["rocm", "vulkan"])
def test_nobody_s_nodes(tmp_path: Path, path: str) -> None:
    """Root of the container is none outside: blocked, and the advice keeps the user's groups."""
    gate = verdict(machine(tmp_path), path)
    assert gate.status is GateStatus.BLOCK and "nobody" in gate.reason and "keep-groups" in gate.advice


@pytest.mark.parametrize(
    ("container", "gids", "mode"), [("podman", (0, NOBODY), 0o660), ("podman", (0,), 0o666), ("", (0,), 0o660)]
)
def test_who_may(tmp_path: Path, container: str, gids: tuple[int, ...], mode: int) -> None:
    """A group that was kept, a node for everybody, no container: nothing is blocked."""
    assert verdict(machine(tmp_path, container=container, gids=gids, mode=mode)).status is GateStatus.ALLOW
