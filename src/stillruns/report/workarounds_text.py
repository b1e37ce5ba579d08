"""Workarounds: what to change, what it does, how to see it, how to undo it, what it can break, and who says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stillruns.model.workaround import Workaround
from stillruns.report.columns import columns, wrapped


def listing(entries: Sequence[Workaround]) -> str:
    """One line an entry."""
    return "\n".join(columns([[entry.id, entry.title] for entry in entries])) + "\n"


def full(entries: Sequence[Workaround], width: int = 100) -> str:
    """Each entry whole, in lines of at most `width` cells."""
    return "\n".join(_entry(entry, width) for entry in entries)


def _entry(entry: Workaround, width: int) -> str:
    where = "; ".join(
        f"{name} {', '.join(values)}"
        for name, values in (("targets", entry.targets), ("runtimes", entry.runtimes), ("backends", entry.backends))
        if values
    )
    sets = " ".join([*(f"{name}={value}" for name, value in entry.set_env.items()), *entry.set_args])
    lines = [f"{entry.id}: {entry.title} ({entry.kind.value})"]
    for label, text in (
        ("change", entry.change), ("sets", sets), ("for", where or "any"), ("does", entry.mechanism),
        ("see it", entry.verify), ("undo", entry.undo), ("risk", entry.risk),
        ("source", f"{entry.evidence}: {'; '.join(entry.sources)} (read {entry.read_on})"),
    ):  # fmt: skip
        if text:
            lines += wrapped(text, f"  {label:7} ", " " * 10, width)
    return "\n".join(lines) + "\n"


def document(entries: Sequence[Workaround]) -> dict[str, Any]:
    """The same as `stillruns.workarounds/1`."""
    return {"schema": "stillruns.workarounds/1", "workarounds": [msgspec.to_builtins(entry) for entry in entries]}
