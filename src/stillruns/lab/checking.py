"""The job of `check`: read a machine, judge its gates; then, apart, what its backends say when they are run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from stillruns.catalogue.gate_tables import tables
from stillruns.collect.gathering import Commands, NoCommands
from stillruns.collect.tree import FileTree, Tree
from stillruns.errors import UsageError
from stillruns.judge.gates import gates
from stillruns.lab.machines import asked_versions, device_init, run_evidence, snapshot, tools, vulkan_listing
from stillruns.lab.machines.machine import CheckRequest, MachineReading, merged, named_runtimes, read_machine
from stillruns.lab.machines.probing import LiveCommands
from stillruns.model.gate import GateMatrix
from stillruns.model.gate_tables import GateTables
from stillruns.model.machine import Machine
from stillruns.model.target import parse_target
from stillruns.store.store import Store


@dataclass(slots=True)
class Check:
    """A check under way: `matrix` is complete without execution; `execute` adds what the machine says when asked."""

    machine: Machine
    target: str
    matrix: GateMatrix
    faults: list[str] = field(default_factory=list)

    def execute(self, environ: Mapping[str, str]) -> GateMatrix:
        """Versions and device init, in children with time limits, and other tools' views; judged again."""
        if self.machine.live:
            runtimes, told = asked_versions.ask(self.machine, environ)
            remarks = (*self.machine.remarks, *told)
            vulkan = vulkan_listing.ask(self.machine)
            self.machine = merged(self.machine, runtimes=runtimes, remarks=remarks, vulkan=vulkan)
        inits, notes = device_init.ask(self.machine, environ)
        self.machine = merged(self.machine, inits=inits, tools=tools.ask(self.machine))
        self.matrix = gates.judge(self.machine, tables(), self.target)
        self.faults += notes
        return self.matrix


def start(root: Path | None, target: str, asked: CheckRequest, *, run_tools: bool, store: Store | None) -> Check:
    """Read and judge. `root` is a sysroot, a snapshot, or None for this machine; tools run on this machine only."""
    if target and parse_target(target) is None:
        raise UsageError(f"--target {target!r} is no GPU target; write gfx906, gfx906:sramecc+:xnack- or sm_61.")
    if target.partition(":")[0].endswith("-generic"):
        raise UsageError(
            f"--target {target!r} is what compilers build for; name the GPU's own target, such as gfx906."
        )
    tree = open_tree(root)
    commands: Commands = NoCommands()
    if isinstance(tree, snapshot.Packed):
        commands = tree
    elif run_tools and tree.live:
        commands = LiveCommands()
    asked = replace(asked, target=target, runtimes=named_runtimes(asked.runtimes, tree))
    if isinstance(tree, snapshot.Packed):
        asked = replace(asked, runtimes=(*asked.runtimes, *tree.runtimes))
    if tree.live:
        asked = replace(asked, runtimes=(*asked.runtimes, *device_init.folders(os.environ)))
    reading: MachineReading = read_machine(tree, commands, asked)
    machine = reading.machine
    if store is not None and tree.live:
        machine = merged(machine, runs=run_evidence.collect(store))
    return Check(machine, target, gates.judge(machine, tables(), target), reading.guard.faults)


def open_tree(root: Path | None) -> Tree:
    """The tree of a folder or of a snapshot; raises UsageError for what is neither."""
    if root is None or str(root) == "/":
        return FileTree()
    if root.is_dir():
        return FileTree(root)
    if not root.exists():
        raise UsageError(f"--sysroot {root}: there is no such folder or snapshot.")
    if not root.is_file():
        raise UsageError(f"--sysroot {root} is neither a folder nor a snapshot.")
    return snapshot.load(root)


def environ() -> Mapping[str, str]:
    """This process's environment."""
    return os.environ


def catalogue() -> GateTables:
    """The tables that ship with the program."""
    return tables()


def is_amd(target: str) -> bool:
    """Whether a target id is one of AMD's, known to the catalogue or of its form."""
    parsed = parse_target(target)
    return parsed is not None and parsed.processor.startswith("gfx")


def targets_here() -> list[str]:
    """Processors of this machine's AMD cards, as far as they are known."""
    reading = read_machine(FileTree(), NoCommands(), CheckRequest())
    return list(dict.fromkeys(c.processor for c in reading.machine.cards if c.processor.startswith("gfx")))
