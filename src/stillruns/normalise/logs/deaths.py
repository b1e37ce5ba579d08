"""Gathers the signs of an end and the backtraces of one stream, whatever the runtime.

A backtrace may stand before the line that says why (ggml prints it first, then libstdc++ says `terminate called`) or
after it (gdb, Go, systemd-coredump), so runs of frames are kept apart and given to the nearest ending when the
stream closes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from stillruns.model.evidence import Ref, line_of, line_ref
from stillruns.model.expression import Expression
from stillruns.model.phase import Phase
from stillruns.model.server_log import Ending, Frame
from stillruns.normalise.crash import frames as frame_lines
from stillruns.normalise.crash import signs
from stillruns.normalise.logs.reader import visible

MAX_ENDINGS = 500
MAX_RUNS = 200
NEAR = 80
"""Lines between an ending and the frames that belong to it."""


class Where(msgspec.Struct, frozen=True):
    """What the grammar knows at a line: the phase and its line, the runner and the request, the time."""

    phase: Phase = Phase.UNKNOWN
    phase_ref: Ref | None = None
    runner: str | None = None
    request: str | None = None
    at: str = ""


@dataclass
class _Run:
    first: int
    last: int
    frames: list[Frame] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


_DYING: tuple[tuple[str, tuple[str, ...], str | None], ...] = (
    ("assert", ("ggml_abort", "ggml_cuda_error"), None),
    ("terminate", ("ggml_uncaught_exception", "std::terminate", "std::unexpected"), None),
    ("signal", ("__GI_abort", "abort", "rocblas_abort"), "SIGABRT"),
)
"""Frames that stand in no living program: kind of ending, functions, signal."""


_RAISED = Expression(r"^#\d{1,3} .{0,80}\bsigno(?:=signo@entry)?=6\b|__GI_raise \(sig=(?:sig@entry=)?6\)")
_FROM = Expression(r"^\s{1,12}from (?P<module>\S{1,400})$")
"""gdb breaks its lines: the library of a frame may stand on the next one."""


def _told(run: _Run) -> Ending | None:
    """The end that a backtrace's own frames tell; without such a frame it may be of a program that lived."""
    raised = next((i for i, text in enumerate(run.texts[:6]) if _RAISED.search(text)), None)
    if raised is not None:
        return Ending("signal", run.frames[raised].ref, run.texts[raised], signal="SIGABRT")
    for kind, names, signal in _DYING:
        for frame, text in zip(run.frames, run.texts, strict=True):
            if frame.function in names:
                return Ending(kind, frame.ref, text, signal=signal)
    return None


@dataclass
class Deaths:
    """Endings so far. `see` takes every line of the stream."""

    source: str
    endings: list[Ending] = field(default_factory=list)
    left_out: int = 0
    _runs: list[_Run] = field(default_factory=list)
    _deaf: bool = False

    def see(self, number: int, text: str, where: Where) -> signs.Sign | None:
        """Look at one line; returns the sign that it holds."""
        ref = line_ref(self.source, number)
        frame = frame_lines.read(text, ref)
        if frame is not None:
            self._frame(frame, number, text)
            return None
        if self._runs and number == self._runs[-1].last + 1 and self._continued(number, text):
            return None
        if self._runs and self._deaf and number > self._runs[-1].last + 3:
            self._deaf = False
        sign = signs.read(text)
        if sign is not None:
            self.add(
                Ending(
                    kind=sign.kind,
                    ref=ref,
                    text=visible(text),
                    signal=sign.signal,
                    exit_status=sign.exit_status,
                    phase=where.phase,
                    phase_ref=where.phase_ref,
                    runner=where.runner,
                    request=where.request,
                    at=where.at,
                    pid=sign.pid,
                )
            )
        return sign

    def _continued(self, number: int, text: str) -> bool:
        """Whether the line is the rest of the frame above it."""
        found = _FROM.match(text)
        run = self._runs[-1]
        if not text.startswith("      ") or not run.frames or self._deaf:
            return False
        if found and not run.frames[-1].module:
            run.frames[-1] = replace(run.frames[-1], module=found["module"].rpartition("/")[2])
        run.last = number
        return True

    def add(self, ending: Ending) -> None:
        """An ending that the grammar itself recognised."""
        if len(self.endings) >= MAX_ENDINGS:
            self.left_out += 1
            return
        self.endings.append(ending)

    def _frame(self, frame: Frame, number: int, text: str) -> None:
        run = self._runs[-1] if self._runs else None
        innermost = text.lstrip().startswith("#0 ")
        if innermost and run is not None and len(run.frames) == 1 and run.frames[0].function == frame.function:
            run.texts.clear()
            run.frames.clear()  # gdb names the frame it stands in before it prints the backtrace
        if run is None or number > run.last + 3 or (innermost and run.frames):
            if run is not None and number <= run.last + 3:
                # another thread of the same dump: the first (the one that died, in every form) is the one that counts
                run.last = number
                self._deaf = True
                return
            if len(self._runs) >= MAX_RUNS:
                return
            run = _Run(number, number)
            self._runs.append(run)
            self._deaf = False
        run.last = number
        if not self._deaf and len(run.frames) < frame_lines.MAX_FRAMES:
            run.frames.append(frame)
            run.texts.append(visible(text))

    def close(self) -> tuple[Ending, ...]:
        """Every ending with its frames. A backtrace that no ending stands near counts only where nothing else in the
        stream tells an end, and where its own frames do."""
        if not self.endings:
            self.endings += [told for run in self._runs[:1] if (told := _told(run)) is not None]
        lines = [line_of(e.ref) for e in self.endings]
        given: dict[int, tuple[Frame, ...]] = {}
        for run in self._runs:
            best: tuple[int, int] | None = None
            for index, line in enumerate(lines):
                gap = run.first - line if line <= run.first else max(0, line - run.last)
                if 0 <= gap <= NEAR and (best is None or gap < best[0]):
                    best = (gap, index)
            if best is not None and best[1] not in given:
                given[best[1]] = tuple(run.frames)
        return tuple(replace(e, frames=given[i]) if i in given else e for i, e in enumerate(self.endings))
