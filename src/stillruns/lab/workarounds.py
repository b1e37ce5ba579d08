"""The job of `workarounds`: entries of the catalogue by id, or those that fit a target."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from stillruns.catalogue import load
from stillruns.errors import UsageError
from stillruns.model.hint import hint
from stillruns.model.target import parse_target
from stillruns.model.workaround import Workaround, WorkaroundKind

_SMALLEST_FIRST = (
    WorkaroundKind.OVERRIDE,
    WorkaroundKind.RUNTIME,
    WorkaroundKind.SYSTEM,
    WorkaroundKind.BUILD,
    WorkaroundKind.HARDWARE,
)
"""A variable of one server, its other settings, the whole system's, other programs, a screwdriver."""


def find(ids: Sequence[str], target: str) -> tuple[Workaround, ...]:
    """The entries with these ids, or all, the smallest change first; with `target` only those that fit it. Raises
    UsageError for what is no id or no target."""
    known = {entry.id: entry for entry in load.workarounds()}
    for name in ids:
        if name not in known:
            near = difflib.get_close_matches(name, known, 2, 0.5)
            todo = f"did you mean {' or '.join(near)}?" if near else f"`{hint('workarounds')}` lists them."
            raise UsageError(f"there is no workaround {name!r}; {todo}")
    parsed = parse_target(target) if target else None
    if target and parsed is None:
        raise UsageError(f"--target {target!r} is no GPU target; write gfx906 or sm_61.")
    entries = [known[name] for name in dict.fromkeys(ids)] if ids else list(known.values())
    fitting = [e for e in entries if parsed is None or e.fits(parsed.processor)]
    return tuple(sorted(fitting, key=lambda entry: _SMALLEST_FIRST.index(entry.kind)))
