"""Workarounds: what to change, what it does, how to see it, how to undo it, what it can break, and who says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stillruns.model.workaround import Workaround
from stillruns.report.columns import PLAIN, Page

ORDER = "The smallest change comes first. Where several are for the same obstacle, one of them is enough."


def listing(entries: Sequence[Workaround], page: Page = PLAIN) -> str:
    """One line an entry, and what their order means."""
    lines = page.table([[entry.id, entry.title] for entry in entries], heading=False)
    return "\n".join((*lines, *_order(entries, page))) + "\n"


def full(entries: Sequence[Workaround], page: Page = PLAIN) -> str:
    """Each entry whole."""
    return "\n".join(("\n".join(_entry(entry, page) for entry in entries), *_order(entries, page)))


def _order(entries: Sequence[Workaround], page: Page) -> list[str]:
    return ["", *page.wrapped(ORDER)] if len(entries) > 1 else []


def _entry(entry: Workaround, page: Page) -> str:
    where = "; ".join(
        f"{name} {', '.join(values)}"
        for name, values in (("targets", entry.targets), ("runtimes", entry.runtimes), ("backends", entry.backends))
        if values
    )
    sets = " ".join([*(f"{name}={value}" for name, value in entry.set_env.items()), *entry.set_args])
    lines = page.line(f"{entry.id}: {entry.title} ({entry.kind.value})")
    for label, text in (
        ("change", entry.change), ("sets", sets), ("for", where or "any"), ("does", entry.mechanism),
        ("see it", entry.verify), ("undo", entry.undo), ("risk", entry.risk),
        ("source", f"{entry.evidence}: {'; '.join(entry.sources)} (read {entry.read_on})"),
    ):  # fmt: skip
        if text:
            lines += page.wrapped(text, f"  {label:7} ", " " * 10)
    return "\n".join(lines) + "\n"


def document(entries: Sequence[Workaround]) -> dict[str, Any]:
    """The same as `stillruns.workarounds/1`."""
    return {"schema": "stillruns.workarounds/1", "workarounds": [msgspec.to_builtins(entry) for entry in entries]}
