"""Blocks of bytes -> the numbered lines that a reader may need.

Most lines of a big journal match nothing. Whether a line can matter, literals tell: every rule, pattern and sign has
texts without which it cannot match (catalogue/literals.py, and the constants below); only lines that hold one are
decoded and read. After a line that speaks of a death the next lines are delivered whatever they hold, since stack
dumps have none. The literals are looked for all at once by hyperscan (Vectorscan); without it, and for the first
WHOLE bytes of any input, every line is delivered: the same answer, only slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from stillruns.normalise.logs.reader import Line, lines
from stillruns.normalise.logs.seam import WINDOW_LINES

WHOLE = 4 << 20
"""So many bytes are delivered whole: building the search costs more than reading them."""
_LONGEST_TAIL = 1 << 16

REWRITTEN: tuple[str, ...] = ("\x1b", "INFO [", "WARN [", "ERR [", "VERB [", '{"')
"""Signs of lines whose text is rewritten before it is matched: always delivered."""

DEATHS: tuple[str, ...] = (
    "Segmentation fault",
    "Aborted",
    "Illegal instruction",
    "Bus error",
    "Floating point exception",
    "core dumped",
    "dumped core",
    "SIGSEGV",
    "SIGABRT",
    "SIGILL",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "signal: ",
    "Process received signal",
    "exited with code",
    "exited with status",
    "exited, code=",
    "terminate called",
    "GGML_ASSERT",
    "GGML_ABORT",
    "panic: ",
    "fatal error: ",
    "Exception 0x",
    "Fatal Python error",
    "by GPU node-",
    "error: ",
)
"""After one of these every line is delivered for a while."""

OTHERS: tuple[str, ...] = (
    "exit status ",
    "xit code",
    "(exit ",
    "return code",
    " status: ",
    "terminated abnormally",
    "goroutine ",
    "_Cfunc_",
    "computeBatch",
    "llama-server",
    "llama-cli",
    "llama-bench",
    "/main -",
    "/server -",
    "HSA_OVERRIDE_GFX_VERSION",
    "  Name: ",
    "already set by user to",
    "| model ",
    " ± ",
    "request: ",
    "!!!!!!!!",
    "HTTP/1.1",
    "level=WARN source=",
    "level=ERROR source=",
    "Listening on ",
    "EngineCore",
    "[rank",
    "lines left out",
)
"""Lines that no catalogue entry names and that a reader understands all the same."""


class Scanner(Protocol):
    """Finds where literals end in a block."""

    def scan(self, data: bytes) -> list[tuple[int, bool]]:
        """(offset after a literal, whether it speaks of a death), in the order of offsets."""


class _Hyperscan:
    """The literals in one database; matches come through a callback."""

    def __init__(self, literals: tuple[str, ...], deaths: tuple[str, ...]) -> None:
        import hyperscan  # here, since loading it costs more than reading a small log

        words = list(dict.fromkeys((*deaths, *literals)))
        self._deaths = len(dict.fromkeys(deaths))
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=[word.encode() for word in words],
            ids=list(range(len(words))),
            elements=len(words),
            flags=0,
            literal=True,
        )
        self._found: list[tuple[int, bool]] = []

    def _match(self, number: int, start: int, end: int, flags: int, context: object) -> None:
        self._found.append((end, number < self._deaths))

    def scan(self, data: bytes) -> list[tuple[int, bool]]:
        """See Scanner."""
        self._found = []
        self._database.scan(data, match_event_handler=self._match)
        return self._found


def scanner(literals: tuple[str, ...]) -> Scanner | None:
    """The search for these literals and our own; None where hyperscan is not installed or refuses them."""
    try:
        return _Hyperscan((*literals, *OTHERS, *REWRITTEN), DEATHS)
    except ImportError:
        return None


@dataclass
class Prefilter:
    """Fed with blocks in order; `lines` counts the newlines (and a last line without one) seen so far. Without
    `literals` every line is delivered."""

    literals: tuple[str, ...] = ()
    whole: int = WHOLE
    lines: int = 0
    _seen: int = 0
    _tail: bytes = b""
    _scanner: Scanner | None = field(default=None)
    _tried: bool = False
    _window: int = 0

    def feed(self, block: bytes) -> Iterator[Line]:
        """The lines of this block that are complete."""
        data = self._tail + block if self._tail else block
        end = data.rfind(b"\n") + 1
        tail = data[end:]
        if len(tail) > _LONGEST_TAIL:
            tail = tail[: _LONGEST_TAIL // 2] + tail[-_LONGEST_TAIL // 2 :]
        self._tail = tail
        if end:
            yield from self._chosen(data, end)
        self._seen += len(block)

    def end(self) -> Iterator[Line]:
        """The last line, where it has no newline."""
        tail, self._tail = self._tail, b""
        if tail:
            yield from self._all(tail)

    def _chosen(self, data: bytes, end: int) -> Iterator[Line]:
        if self._seen < self.whole or not self.literals or data.startswith(b"{") or b"\0" in data:
            yield from self._all(data[:end])
            return
        if not self._tried:
            self._tried = True
            self._scanner = scanner(self.literals)
        if self._scanner is None:
            yield from self._all(data[:end])
        else:
            yield from self._filtered(data[:end], self._scanner)

    def _all(self, data: bytes) -> Iterator[Line]:
        before = self.lines
        for line in lines(data):
            self.lines = before + line.number
            yield Line(self.lines, line.text, line.torn, line.unended)

    def _filtered(self, data: bytes, search: Scanner) -> Iterator[Line]:
        """Lines with a literal, and those of the window after a death. `place` is where the next line begins."""
        place, number = 0, self.lines
        total = number + data.count(b"\n")
        if self._window:
            place, number, found = self._run(data, place, number, self._window)
            self._window -= number - self.lines
            yield from found
        for end, death in search.scan(data):
            if end <= place:
                if death:
                    self._window = WINDOW_LINES
                continue
            if self._window:
                stop = place
                place, number, found = self._run(data, stop, number, self._window)
                self._window = 0
                yield from found
                if end <= place:
                    self._window = WINDOW_LINES if death else 0
                    continue
            start = data.rfind(b"\n", 0, end) + 1
            number += data.count(b"\n", place, start)
            place, number, found = self._run(data, start, number, 1)
            self._window = WINDOW_LINES if death else 0
            yield from found
        if self._window and place < len(data):
            before = number
            place, number, found = self._run(data, place, number, self._window)
            self._window -= number - before
            yield from found
        self.lines = total

    @staticmethod
    def _run(data: bytes, start: int, number: int, count: int) -> tuple[int, int, list[Line]]:
        """`count` lines from `start` (or to the end): (where the next begins, the last number, the lines)."""
        place = start
        for _ in range(count):
            end = data.find(b"\n", place)
            if end < 0:
                break
            place = end + 1
        beside = count > 1
        found = [Line(number + line.number, line.text, line.torn, False, beside) for line in lines(data[start:place])]
        return place, number + (data.count(b"\n", start, place)), found
