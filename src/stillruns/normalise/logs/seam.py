"""The seam between the splitting of mixed input and the log grammars.

`streams.py` splits inputs into the lines of single processes and pushes each line into the reader of its runtime, so
that interleaved servers need neither threads nor the whole input in memory. A grammar module
`normalise/logs/<runtime>.py` provides

    class Reader:                                    # a LogReader
        def __init__(self, id, name, source, rules, patterns): ...
        def take(self, line: LogLine) -> None: ...   # one line, in order; never raises on any text
        def close(self) -> tuple[ServerLog, ...]: ...  # usually one; several when the stream holds restarts

with bounded memory whatever the input (keep what a report can show, count the rest). Lines that no rule, pattern or
anchor can match may be left out by the prefilter, so a reader must not depend on seeing every line; for
WINDOW_LINES after a line that speaks of a death every line is delivered (stack dumps have no anchors).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from stillruns.model.pattern import CrashPattern, GrammarRule
from stillruns.model.server_log import LogLine, ServerLog

AFTER = 5
"""So many lines after a line of trouble are kept: they say where it was."""
WINDOW_LINES = 1000
"""So many lines after a line of a death are delivered whatever they hold."""


class LogReader(Protocol):
    """Reads the lines of one process (or of one unit, restarts included)."""

    def take(self, line: LogLine) -> None:
        """The next line of the stream."""

    def close(self) -> tuple[ServerLog, ...]:
        """The stream has ended."""


Opener = Callable[[str, str, str, tuple[GrammarRule, ...], tuple[CrashPattern, ...]], LogReader]
"""Called with (id, name, source, rules, patterns)."""


def read_all(reader: LogReader, lines: Iterable[LogLine]) -> tuple[ServerLog, ...]:
    """All lines of one stream at once."""
    for line in lines:
        reader.take(line)
    return reader.close()
