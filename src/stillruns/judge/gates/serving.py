"""Who serves: the processes that run, else the units that would start them, else this shell."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from stillruns.judge.gates.path_view import PathView
from stillruns.model.machine import Environment


@dataclass(frozen=True, slots=True)
class Server:
    """One process, one unit with its drop-ins, or this shell; `environments` in the order in which they decide."""

    name: str
    environments: tuple[Environment, ...]
    serving: bool
    readable: bool = True

    def seen(self, view: PathView) -> PathView:
        """The path as this server sees it: no other environment counts."""
        return dataclasses.replace(view, machine=dataclasses.replace(view.machine, environments=self.environments))


def servers(view: PathView) -> tuple[Server, ...]:
    """Every running process of a model server (a server and its runners are several); where none runs, the units and
    their files; where there is none, this shell."""
    every = view.machine.environments
    running = [entry for entry in every if entry.serving and entry.pid is not None]
    if running:
        return tuple(Server(entry.owner, (entry,), True, entry.readable) for entry in running)
    units: dict[str, list[Environment]] = {}
    for entry in every:
        if entry.serving:
            units.setdefault(entry.unit, []).append(entry)
    shared = units.pop("", [])  # /etc/default/NAME belongs to the unit that reads it
    if not units and shared:
        units["files"] = []
    found = []
    for parts in units.values():
        order = tuple(
            sorted(parts, key=lambda entry: (entry.cite.source.endswith(".conf"), entry.cite.source), reverse=True)
        )  # the last drop-in has the last word
        environments = (*order, *shared)
        found.append(Server(environments[0].owner, environments, True))
    return tuple(found) or tuple(Server(entry.owner, (entry,), False) for entry in every if not entry.serving)[:1]
