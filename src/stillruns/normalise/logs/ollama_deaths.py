"""Endings in an Ollama server's log: which line is a death of its own, and which only its echo.

A runner dies once. What comes after (the parent's `post predict ... EOF`, `llama runner terminated`, the 500 of the
request) is secondary, and lends the first line what that lacks: the stack, the signal, the phase.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stillruns.model.evidence import Ref, line_of
from stillruns.model.phase import Phase
from stillruns.model.server_log import Ending, Frame
from stillruns.normalise.crash import frames, signs
from stillruns.normalise.logs import slog
from stillruns.normalise.logs.ollama_dump import Dump
from stillruns.normalise.logs.ollama_runner import Load

MAX_ENDINGS = 2_000
FRAME_WINDOW = 300
"""So many lines after a death may hold the frames of a C backtrace."""


@dataclass
class OllamaDeath:
    """An ending being gathered. `after` is the first time that the server printed afterwards."""

    kind: str
    ref: Ref
    line: int
    text: str
    at: str
    load: Load | None
    signal: str | None = None
    exit_status: int | None = None
    phase: Phase = Phase.UNKNOWN
    phase_ref: Ref | None = None
    request: str | None = None
    secondary: bool = False
    after: float | None = None
    detail: str = ""
    stamp: str = ""
    frames: list[Frame] = field(default_factory=list)
    refs: list[Ref] = field(default_factory=list)

    def all_refs(self) -> list[Ref]:
        """Every line that it rests on."""
        refs = [self.ref, *self.refs, *(frame.ref for frame in self.frames)]
        return refs if self.phase_ref is None else [*refs, self.phase_ref]

    def noun(self) -> Ending:
        """As the report wants it."""
        return Ending(
            kind=self.kind,
            ref=self.ref,
            text=self.text,
            signal=self.signal,
            exit_status=self.exit_status,
            phase=self.phase,
            phase_ref=self.phase_ref,
            runner=self.load.id if self.load else None,
            request=self.request,
            at=self.at,
            frames=tuple(self.frames),
            secondary=self.secondary,
            refs=tuple(self.refs),
            detail=self.detail,
            stamp=self.stamp,
        )


@dataclass
class OllamaDeaths:
    """All endings of one server."""

    all: list[OllamaDeath] = field(default_factory=list)
    dump: Dump | None = None
    dropped: int = 0
    stamp: str = ""
    """The envelope's time of the line that is read."""
    _first: dict[str, OllamaDeath] = field(default_factory=dict)
    _dumping: OllamaDeath | None = None
    _open: OllamaDeath | None = None
    _latest: Load | None = None
    _window: int = 0

    def time(self, at: float) -> None:
        """The server printed a time: deaths before it were not later."""
        if self._open is not None:
            if self._open.after is None:
                self._open.after = at
            self._open = None

    def raw(
        self,
        text: str,
        ref: Ref,
        shown: str,
        load: Load | None,
        at: str,
        place: tuple[Phase, Ref | None],
        latest: Load | None,
    ) -> bool:
        """A line of a child. True when it says that the child died, or belongs to such a line. `place` is where the
        child was, and the line that tells. `latest` is the runner that was started last: a stack that computes a
        batch is its, even if a probe was started since."""
        if self.dump is not None and self.dump.open:
            self._dump_line(text, ref)
            return True
        sign = signs.read(text)
        if sign is None:
            if self._window > 0:
                self._window -= 1
                frame = frames.read(text, ref)
                if frame and self.all and len(self.all[-1].frames) < frames.MAX_FRAMES:
                    self.all[-1].frames.append(frame)
                    return True
            return False
        when = self.stamp or at
        death = self._add(
            OllamaDeath(sign.kind, ref, line_of(ref), shown, when, load, sign.signal, sign.exit_status, *place)
        )
        self._window = FRAME_WINDOW
        if text.startswith(("SIG", "panic: ", "fatal error: ")):
            self.dump, self._dumping, self._latest = Dump(ref), death, latest
            self._window = 0
        return True

    def eof(self, ref: Ref, text: str, load: Load | None, at: str, gone: bool) -> None:
        """The parent lost its runner in mid request (`gone`), or the runner answered with an error."""
        self._close_dump()
        phase = Phase.UNKNOWN if load is None or load.ready else Phase.LOAD
        self._add(OllamaDeath("eof" if gone else "exception", ref, line_of(ref), text, at, load, phase=phase))

    def terminated(self, ref: Ref, text: str, error: str, load: Load | None, at: str, phase: Phase) -> None:
        """The parent says how its runner ended: `exit status 2`, `signal: aborted (core dumped)`."""
        self._close_dump()
        sign = signs.read(slog.value(error) if error.startswith('"') else error)
        kind, signal, status = (sign.kind, sign.signal, sign.exit_status) if sign else ("exit", None, None)
        death = self._add(OllamaDeath(kind, ref, line_of(ref), text, at, load, signal, status, phase))
        if signal == "SIGKILL" and load is not None and load.ready:
            death.secondary = True  # the server kills a runner that it unloads

    def other(self, kind: str, ref: Ref, text: str, load: Load | None, at: str, phase: Phase) -> None:
        """An error of the parent's own: a time-out, a load that failed."""
        self._close_dump()
        self._add(
            OllamaDeath(kind, ref, line_of(ref), text, at, load if load and not load.ready else None, phase=phase)
        )

    def http(self, ref: Ref, text: str, request: str, at: str, died: OllamaDeath | None) -> None:
        """A request that ended with a server error."""
        death = OllamaDeath("http", ref, line_of(ref), text, at, died.load if died else None, request=request)
        death.secondary, death.stamp = died is not None, self.stamp
        if len(self.all) < MAX_ENDINGS:
            self.all.append(death)
        else:
            self.dropped += 1

    def of_request(self, request: str, begins: float | None, after_line: int) -> OllamaDeath | None:
        """The death under the request that ends now: the last that no other request has, and that was not over before
        this one began (`begins`, or the access line before it where there are no times)."""
        self._close_dump()
        for death in reversed(self.all[-64:]):
            if death.secondary or death.kind == "http" or death.request is not None:
                continue
            if begins is not None and death.after is not None and death.after < begins:
                continue
            if begins is None and death.line < after_line:
                continue
            death.request = request
            return death
        return None

    def _add(self, death: OllamaDeath) -> OllamaDeath:
        death.stamp = self.stamp
        if death.load is not None:
            first = self._first.get(death.load.id)
            if first is not None:
                death.secondary = True
                _lend(first, death)
            else:
                self._first[death.load.id] = death
                death.load.died, death.load.died_line = death.ref, death.line
        elif self.all and self.all[-1].load is None and death.line - self.all[-1].line <= 3:
            death.secondary = True
            _lend(self.all[-1], death)
        if len(self.all) < MAX_ENDINGS:
            self.all.append(death)
        else:
            self.dropped += 1
        self._open = death
        return death

    def _dump_line(self, text: str, ref: Ref) -> None:
        assert self.dump is not None
        self.dump.take(text, ref)
        if not self.dump.open:
            self._close_dump()

    def _close_dump(self) -> None:
        dump, death = self.dump, self._dumping
        if dump is None or death is None:
            return
        self.dump = self._dumping = None
        if death.load is None and dump.batch is not None and self._latest and not self._latest.died:
            death.load = self._latest
            self._first[death.load.id] = death
            death.load.died, death.load.died_line = death.ref, death.line
        parallel = death.load.number("parallel") if death.load else None
        phase, where = dump.phase(parallel)
        if phase is not Phase.UNKNOWN:
            death.phase, death.phase_ref = phase, where
        elif death.load is not None and death.load.ready:
            death.phase, death.phase_ref = Phase.UNKNOWN, None
        if dump.batch is not None and dump.batch_length is not None:
            death.detail = f"batch {dump.batch} of {dump.batch_length} inputs"
        death.frames = dump.frames or death.frames
        death.refs += [f.ref for f in dump.frames[:3]] + ([where] if where else [])
        first = self._first.get(death.load.id) if death.load else None
        if first is not None and first is not death:
            _lend(first, death)

    def cut(self, ref: Ref, text: str, load: Load, at: str, phase: Phase) -> None:
        """The log ends while a runner loads: it may have hung, or the log was taken too early."""
        self._add(OllamaDeath("cut", ref, line_of(ref), text, at, load, phase=phase, phase_ref=ref))

    def finish(self) -> None:
        """The log has ended."""
        self._close_dump()


def _lend(first: OllamaDeath, later: OllamaDeath) -> None:
    """What the first line of a death lacks, a later one may say."""
    first.signal = first.signal or later.signal
    first.exit_status = later.exit_status if first.exit_status is None else first.exit_status
    first.frames = first.frames or later.frames
    first.detail = first.detail or later.detail
    if first.phase is Phase.UNKNOWN and later.phase is not Phase.UNKNOWN:
        first.phase, first.phase_ref = later.phase, later.phase_ref
    if len(first.refs) < 16:
        first.refs.append(later.ref)
