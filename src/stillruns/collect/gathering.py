"""The one way in which a probe's declaration becomes bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from stillruns.collect.tree import Tree, glob
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.probe import Probe
from stillruns.model.raw import Collected, RawCommand, RawFile


class Commands(Protocol):
    """Runs a tool of the live machine, or says why it was not run."""

    def run(self, argv: tuple[str, ...]) -> RawCommand:
        """The output of one command; an absence where it is not installed or may not be run."""


class NoCommands:
    """For sysroots, snapshots and `--no-exec`."""

    def run(self, argv: tuple[str, ...]) -> RawCommand:
        """Nothing is run."""
        return RawCommand(
            argv,
            absence=Absence(AbsenceReason.NOT_COLLECTED, f"{argv[0]} was not run (--no-exec or another machine)"),
        )


def gather(tree: Tree, probe: Probe, commands: Commands, more: Iterable[str] = ()) -> Collected:
    """Everything that the probe declares, and `more` patterns that it found out on the way."""
    files: list[RawFile] = []
    seen: set[str] = set()
    for pattern in (*probe.reads, *more):
        for path in glob(tree, pattern):
            if path not in seen:
                seen.add(path)
                files.append(read(tree, path, probe.limit))
    return Collected(tuple(files), tuple(commands.run(argv) for argv in probe.commands))


def read(tree: Tree, path: str, limit: int = 1 << 20) -> RawFile:
    """One path: its content where it is a regular file, else what stands there."""
    entry = tree.entry(path)
    if isinstance(entry, Absence):
        return RawFile(path, absence=entry)
    data: bytes | Absence | None = tree.read(path, limit) if entry.kind == "file" else None
    return RawFile(
        path,
        entry.real,
        entry.kind,
        None if isinstance(data, Absence) else data,
        data if isinstance(data, Absence) else None,
        entry.size,
        entry.mode,
        entry.uid,
        entry.gid,
        entry.device,
        entry.access,
    )
