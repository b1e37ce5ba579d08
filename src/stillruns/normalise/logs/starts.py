"""The servers of one stream, one for each start; a flood of starts keeps its first."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from stillruns.model.server_log import Note, ServerLog

MOST = 1000
"""Starts in one stream: a server that is started again every minute for most of a day."""


class Starts:
    """What has ended so far. `id` names the first server, later ones get `id.2`, `id.3`."""

    def __init__(self, id: str) -> None:
        self._id = id
        self._done: list[ServerLog] = []
        self._left_out = 0

    def ended(self, summary: Callable[[str], ServerLog]) -> None:
        """One more has ended; `summary` makes its log from its name."""
        if len(self._done) >= MOST:
            self._left_out += 1
            return
        number = len(self._done) + 1
        self._done.append(summary(self._id if number == 1 else f"{self._id}.{number}"))

    def close(self) -> tuple[ServerLog, ...]:
        """All of them; the last says what is missing."""
        done, self._done = self._done, []
        if self._left_out:
            note = Note("left out", f"{self._left_out} further starts in the same stream are not shown")
            done[-1] = replace(done[-1], notes=(*done[-1].notes, note))
        return tuple(done)
