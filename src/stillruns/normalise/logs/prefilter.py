"""Blocks of bytes -> the numbered lines that a reader may need.

Most lines of a big journal match nothing. Whether a line can matter, literals tell: every rule, pattern and sign has
texts without which it cannot match (catalogue/literals.py, and the constants below); only lines that hold one are
decoded and read. After a line that speaks of a death the next lines are delivered whatever they hold, since stack
dumps have none. The literals are looked for all at once by hyperscan (Vectorscan); without it, and for the first
WHOLE bytes of any input, every line is delivered: the same answer, only slower.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from stillruns.normalise.logs.reader import MAX_BYTES, CleanLine, clean, lines
from stillruns.normalise.logs.seam import WINDOW_LINES

WHOLE = 1 << 20
"""So many bytes are delivered whole: building the search costs more than reading them."""
_SHORT_LINES = 32
_MANY_LINES = 1 << 14
REPEATS = 2000
"""Of a line that repeats itself more often in a row, the rest are not delivered."""
_LONGEST_TAIL = 1 << 16
_PROCESS = re.compile(rb" [^\s\[\]:]{1,200}\[\d{1,10}\]: ")
"""A journal's name of a process; it narrows a window to the lines of the process that died."""
_SPEAKS = (b" level=", b"[GIN]")

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
    "#0  0x",
    "#0  __",
    "#00 pc ",
    "Fatal signal ",
    "ggml_print_backtrace",
    "ggml_uncaught_exception",
    "ggml_cuda_error",
    "ggml_abort",
)
"""After one of these every line is delivered for a while."""

OTHERS: tuple[str, ...] = (
    "return code",
    "terminated abnormally",
    "fallen off the bus",
    "] abort",
    "goroutine ",
    "_Cfunc_",
    "computeBatch",
    "llama-server",
    "llama-cli",
    "llama-bench",
    "/main -",
    "/server -",
    "/llava",
    "koboldcpp",
    "llama -",
    "-ngl ",
    "gpulayers",
    "gpu-layers ",
    "gpu_layers=",
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
"""Lines that no catalogue entry names and that a reader understands all the same, besides those that tell a death
(`normalise.crash.signs.ANCHORS`)."""


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


def dense_from(block: bytes) -> int | None:
    """The place in a block of very many short lines from which on only those that matter are to be searched for, as
    in a big log: reading each would cost more than a second a megabyte. A log has some 100 bytes a line."""
    count = block.count(b"\n")
    if count <= _MANY_LINES or count * _SHORT_LINES <= len(block):
        return None
    place = 0
    for _ in range(_MANY_LINES):
        place = block.index(b"\n", place) + 1
    return place


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
    _key: bytes = b""
    _place: int = 0
    _last: str = ""
    _repeats: int = 0

    def feed(self, block: bytes) -> Iterator[CleanLine]:
        """The lines of this block that are complete."""
        data = self._tail + block if self._tail else block
        end = data.rfind(b"\n") + 1
        tail = data[end:]
        if len(tail) > _LONGEST_TAIL:
            tail = tail[: _LONGEST_TAIL // 2] + tail[-_LONGEST_TAIL // 2 :]
        self._tail = tail
        if end:
            yield from self._varied(self._chosen(data, end))
        self._seen += len(block)

    def end(self) -> Iterator[CleanLine]:
        """The last line, where it has no newline."""
        tail, self._tail = self._tail, b""
        if tail:
            yield from self._all(tail)

    def _varied(self, chosen: Iterator[CleanLine]) -> Iterator[CleanLine]:
        """Without the further repeats of a line that repeats itself."""
        for line in chosen:
            if line.text != self._last:
                self._last, self._repeats = line.text, 0
            elif self._repeats < REPEATS:
                self._repeats += 1
            else:
                continue
            yield line

    def _chosen(self, data: bytes, end: int) -> Iterator[CleanLine]:
        if self._seen < self.whole or not self.literals or data.startswith(b'{"'):
            yield from self._all(data[:end])
            return
        if not self._tried:
            self._tried = True
            self._scanner = scanner(self.literals)
        if self._scanner is None:
            yield from self._all(data[:end])
        else:
            plain = data[:end].replace(
                b"\0", b""
            )  # they are taken out of every line anyway, and would hide a literal
            yield from self._filtered(plain, self._scanner)

    def _all(self, data: bytes) -> Iterator[CleanLine]:
        for line in lines(data, before=self.lines):
            self.lines = line.number
            yield line

    def _filtered(self, data: bytes, search: Scanner) -> Iterator[CleanLine]:
        """Lines with a literal, and those of the window after a death. `place` is where the next line begins."""
        self._place = 0
        for end, death in search.scan(data):
            if end <= self._place:
                if death:
                    self._open(data, end)
                continue
            start = data.rfind(b"\n", 0, end) + 1
            if self._window:
                yield from self._beside(data, start)
            self.lines += data.count(b"\n", self._place, start)
            yield from self._one(data, start, False)
            if death:
                self._open(data, end)
        if self._window:
            yield from self._beside(data, len(data))
        self.lines += data.count(b"\n", self._place, len(data))

    def _open(self, data: bytes, end: int) -> None:
        """A window begins. In a journal it is for the process that died; elsewhere for whatever follows."""
        self._window = WINDOW_LINES
        head = data[data.rfind(b"\n", 0, end) + 1 : end]
        found = _PROCESS.search(head[:400])
        self._key = found[0] if found else b""

    def _beside(self, data: bytes, stop: int) -> Iterator[CleanLine]:
        """The window's lines before `stop`."""
        while self._window and self._place < stop:
            start = self._place
            if self._key:
                found = data.find(self._key, start, stop)
                if found < 0:
                    return
                start = data.rfind(b"\n", 0, found) + 1
            self._window -= 1
            self.lines += data.count(b"\n", self._place, start)
            yield from self._one(data, start, True)
            if self._key and any(sign in data[start : self._place] for sign in _SPEAKS):
                self._window = min(self._window, 3)  # it, or its parent, speaks again: the dump is over

    def _one(self, data: bytes, start: int, beside: bool) -> Iterator[CleanLine]:
        """The line that begins at `start`; `lines` and `_place` go on to the next."""
        self._place = data.index(b"\n", start) + 1
        self.lines += 1
        raw = data[start : self._place - 1]
        if len(raw) <= MAX_BYTES and b"\r" not in raw:
            yield CleanLine(self.lines, clean(raw), False, False, beside)
            return
        for line in lines(data[start : self._place]):
            yield CleanLine(self.lines, line.text, line.torn, False, beside)
