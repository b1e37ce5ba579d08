"""How a trial ended: the cause before the manner, from the process, the protocol and the log together.

The log counts even when tokens came: a failed warm-up decode leaves llama-server "ready", and device loss may show in
nothing but a line. Troubles that were logged before the server became ready and that it survived (an allocation
tried again elsewhere while loading) are no failure; one in warm-up, prompt or decode is, because work that was asked
for was not done.
"""

from __future__ import annotations

from dataclasses import dataclass

from stillruns.judge.answers.agreement import first_nan
from stillruns.judge.trials.components import place, suspects
from stillruns.model.absence import Absence
from stillruns.model.backend import Backend
from stillruns.model.component import Component
from stillruns.model.exchange import Answered
from stillruns.model.outcome import Outcome, OutcomeKind
from stillruns.model.phase import Phase
from stillruns.model.process import CoreNotes
from stillruns.model.server_facts import ServerFacts, Trouble
from stillruns.model.trial import TrialRecord

_BEFORE_READY = (Phase.DISCOVER, Phase.INIT, Phase.LOAD, Phase.RESERVE)

_SIGNALS = {132: "SIGILL", 134: "SIGABRT", 135: "SIGBUS", 136: "SIGFPE", 137: "SIGKILL", 139: "SIGSEGV"}
"""128 + N, as shells and containers report a signal of what they ran."""

_ASKED_TO_END = frozenset({"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"})
"""Requests to end, by a service manager, a script or a user: no fault of the program's."""

_STOPPED = frozenset({130, 137, 143})
"""The same for SIGINT, SIGKILL and SIGTERM, when they were ours."""

_DEADLINE_PHASE = {"first_token": Phase.PROMPT, "token": Phase.DECODE, "teardown": Phase.TEARDOWN}

_SAYS_WHY = 70
"""From this rank on a line's own words are the reason of an exit status."""

_QUOTED = 160

_CAUSES = (OutcomeKind.OOM, OutcomeKind.DEVICE_LOST)

_CAUSE_WORDS = {OutcomeKind.OOM: "out of memory", OutcomeKind.DEVICE_LOST: "device lost"}


@dataclass(frozen=True, slots=True)
class _Manner:
    """How it looked from outside, whatever the cause: `text` is the line's beginning, without the phase."""

    kind: OutcomeKind
    phase: Phase
    text: str
    signal: str | None = None
    after: str = ""


@dataclass(frozen=True, slots=True)
class _Seen:
    """All that is known about one trial, with the questions that are asked of it more than once."""

    record: TrialRecord
    facts: ServerFacts | None
    answered: Answered | None

    @property
    def attached(self) -> bool:
        """A server that ran before we came."""
        return not self.record.argv

    @property
    def ready(self) -> bool:
        """Whether the health path ever said so."""
        return self.record.sighting.ready_at is not None

    @property
    def supervised(self) -> bool:
        """The user's own command, not a trial of a cell: no request of ours belongs to it."""
        return self.record.cell in ("", "once")

    @property
    def signal(self) -> str | None:
        """The signal that ended the process and that we did not send."""
        end = self.record.end
        if end is None:
            return None
        name = end.signal or _SIGNALS.get(end.exit_status or 0)
        return None if name is None or name == end.stopped_by_us else name

    @property
    def exit_status(self) -> int | None:
        """The child's exit status, where it has one."""
        return None if self.record.end is None else self.record.end.exit_status

    @property
    def has_token(self) -> bool:
        """Whether anything was generated, by any sign."""
        seen = self.record.exchange.tokens_seen if self.record.exchange else 0
        return seen > 0 or (self.answered is not None and bool(self.answered.tokens or self.answered.text))

    @property
    def answer_whole(self) -> bool:
        """The answer came to its own end, as far as anybody saw."""
        exchange = self.record.exchange
        if exchange is None or exchange.error or exchange.timed_out or exchange.status not in (None, 200):
            return False
        return self.has_token if self.answered is None else self.answered.finished and self.has_token

    @property
    def silent(self) -> bool:
        """Whether output was collected and not one line was printed."""
        if self.facts is not None:
            return self.facts.lines == 0
        streams = [e.bytes for e in self.record.evidence if e.kind in ("stdout", "stderr")]
        return bool(streams) and not any(streams)

    def place(self, phase: Phase) -> str:
        """`in load`; without a line the phase is not known, and lines may have been lost with the process."""
        if phase is not Phase.UNKNOWN:
            return f"in {phase.value}"
        return "in an unknown phase" + (" (not one line was printed)" if self.silent else "")

    def log_phase(self) -> Phase:
        """The phase that the log reached; a clean-up after a failed load, or after our stop at the load's deadline,
        is not where it failed."""
        if self.facts is None:
            return Phase.UNKNOWN
        stopped = self.record.sighting.stop_sent_at is not None and self.record.sighting.timed_out != "load"
        if self.facts.last_phase is not Phase.TEARDOWN or stopped:
            return self.facts.last_phase
        spans = [s.phase for s in self.facts.phases if s.phase is not Phase.TEARDOWN]
        return spans[-1] if spans else Phase.UNKNOWN  # the clean-up of a server that could not even begin

    def phase(self) -> Phase:
        """Where it was when it failed: the log before readiness, the exchange after it."""
        exchange = self.record.exchange
        if not self.ready or exchange is None:
            return self.log_phase()
        if self.answer_whole:
            return Phase.TEARDOWN
        return Phase.DECODE if exchange.tokens_seen else Phase.PROMPT


def judge(record: TrialRecord, facts: ServerFacts | Absence, answered: Answered | Absence) -> Outcome:
    """The outcome of one trial. A wrong answer other than NaN needs the reference: `verdict.trial` adds that."""
    seen = _Seen(
        record,
        facts if isinstance(facts, ServerFacts) else None,
        answered if isinstance(answered, Answered) else None,
    )
    manner = _manner(seen)
    troubles = _troubles(seen)
    if manner.kind is OutcomeKind.INTERRUPTED:
        return Outcome(manner.kind, manner.phase, detail=manner.text)
    key = troubles[0] if troubles else None
    kind: OutcomeKind = manner.kind
    phase, text = manner.phase, manner.text
    cause = next((t for c in _CAUSES for t in troubles if t.outcome is c), None)
    if cause is not None:
        # the manner is kept behind the cause: "out of memory in load, then SIGSEGV"
        kind, key, after = cause.outcome, cause, manner.text
        if manner.kind is OutcomeKind.OK or phase is Phase.UNKNOWN:
            phase = cause.phase
        text = f"{_CAUSE_WORDS[kind]} in {phase.value}{f', then {after}' if after else ''}"
    elif manner.kind in (OutcomeKind.OK, OutcomeKind.WRONG_OUTPUT) and key is not None:
        kind, phase = key.outcome, key.phase
        text = f"{kind.value} in {phase.value}, logged although tokens came"
    elif manner.kind is not OutcomeKind.OK:
        phase = key.phase if key is not None and phase is Phase.UNKNOWN else phase
        text = f"{manner.text} {seen.place(phase)}{manner.after}{_reason(manner, key)}"
    return Outcome(
        kind=kind,
        phase=phase,
        signal=manner.signal,
        exit_status=seen.exit_status,
        detail=text,
        components=() if kind is OutcomeKind.OK else _components(seen, manner, key, troubles),
        key_line=None if key is None else key.ref,
        key_text="" if key is None else key.text,
        refs=tuple(t.ref for t in troubles),
    )


def _reason(manner: _Manner, key: Trouble | None) -> str:
    """The log's own words for why a program left by itself before it was ready; its exit status says nothing."""
    left = manner.kind in (OutcomeKind.ERROR, OutcomeKind.NOT_READY) and manner.text.startswith("exit status")
    if not left or key is None or key.rank < _SAYS_WHY:
        return ""
    return f": {key.text[:_QUOTED].rstrip()}{'…' if len(key.text) > _QUOTED else ''}"


def _components(
    seen: _Seen, manner: _Manner, key: Trouble | None, troubles: tuple[Trouble, ...]
) -> tuple[Component, ...]:
    end = seen.record.end
    if end is not None and end.exit_status is None and end.signal is None:
        return (Component.KERNEL_DRIVER, Component.HARDWARE)
    ordered = troubles if key is None else (key, *(t for t in troubles if t is not key))
    # the crash address shows who stumbled over the cause, not who caused it
    signal = None if key is not None and key.outcome in _CAUSES else manner.signal
    devices = seen.facts.devices if seen.facts else ()
    on = next((device.backend for device in devices if device.used), Backend.UNKNOWN)
    return suspects(signal, seen.record.core, ordered, on)


def _troubles(seen: _Seen) -> tuple[Trouble, ...]:
    """The log's troubles that count, most telling first; of equal rank the earlier one, since causes come first.

    Left out are those that a server survived on its way to readiness.
    """
    if seen.facts is None:
        return ()
    counted = [t for t in seen.facts.troubles if t.outcome is not OutcomeKind.OK]
    if seen.ready or seen.facts.model_loaded is not None:
        counted = [t for t in counted if t.phase not in _BEFORE_READY]
    if _manner(seen).kind is OutcomeKind.OK:
        counted = [t for t in counted if t.phase in (Phase.WARMUP, Phase.PROMPT, Phase.DECODE)]
    return tuple(sorted(counted, key=lambda t: -t.rank))


def _manner(seen: _Seen) -> _Manner:
    """The first that fits, from DESIGN's order."""
    for look in (_unreaped, _hung, _died, _stopped_early, _exited, _answer, _sanity):
        manner = look(seen)
        if manner is not None:
            return manner
    return _Manner(OutcomeKind.OK, Phase.UNKNOWN if seen.facts is None else seen.facts.last_phase, "")


def _unreaped(seen: _Seen) -> _Manner | None:
    end = seen.record.end
    if end is None or end.exit_status is not None or end.signal is not None:
        return None
    return _Manner(OutcomeKind.HANG, seen.phase(), "hang", after=": SIGKILL could not end it (uninterruptible sleep)")


def _died(seen: _Seen) -> _Manner | None:
    """A signal that we did not send."""
    signal = seen.signal
    if signal is None:
        return None
    kind = OutcomeKind.ABORT if signal == "SIGABRT" else OutcomeKind.CRASH
    where = place(seen.record.core)
    after = f", {where}" if where else ""
    if signal == "SIGKILL":
        after += ", sent by someone else (the kernel's out-of-memory killer?)"
    if signal in _ASKED_TO_END:
        after += ", which stillruns did not send"
    if signal == "SIGABRT" and isinstance(seen.record.core, CoreNotes):
        after = ""  # always libc's raise()
    if signal == "SIGILL":
        after = ", an instruction that this CPU does not have"  # where it met it says nothing
    return _Manner(kind, seen.phase(), signal, signal, after)


def _hung(seen: _Seen) -> _Manner | None:
    exchange = seen.record.exchange
    deadline = seen.record.sighting.timed_out or (exchange.timed_out if exchange else "")
    if not deadline:
        return None
    if seen.attached and not seen.ready:
        return _Manner(OutcomeKind.NOT_READY, Phase.UNKNOWN, "no server answered within its deadline")
    phase = _DEADLINE_PHASE.get(deadline, Phase.UNKNOWN)
    if phase is Phase.UNKNOWN:
        phase = seen.phase()
    end = seen.record.end
    deaf = end is not None and end.stopped_by_us == "SIGKILL"
    after = f": the deadline for {deadline.replace('_', ' ')} passed{', and SIGTERM was ignored' if deaf else ''}"
    # a signal of its own now is what our SIGTERM met with: kept, but no crash by itself
    return _Manner(OutcomeKind.HANG, phase, "hang", seen.signal, after)


def _stopped_early(seen: _Seen) -> _Manner | None:
    """We ended it before its answer, though no deadline had passed: the user pressed Ctrl-C."""
    end, exchange = seen.record.end, seen.record.exchange
    if "interrupted" in seen.record.notes or (exchange is not None and exchange.error == "interrupted"):
        return _Manner(OutcomeKind.INTERRUPTED, seen.phase(), "interrupted")
    if seen.supervised or end is None or end.stopped_by_us is None or exchange is not None:
        return None
    return _Manner(OutcomeKind.INTERRUPTED, seen.phase(), "stopped by the harness before its request")


def _exited(seen: _Seen) -> _Manner | None:
    """It left by itself: with an error status, or before it was ready."""
    end = seen.record.end
    if end is None:
        if seen.attached:
            return None
        return _Manner(OutcomeKind.ERROR, Phase.INIT, "the server could not be started")
    status = end.exit_status or 0
    ours = end.stopped_by_us is not None
    if status and not (ours and status in _STOPPED):
        after = f", after our {end.stopped_by_us}" if ours and seen.answer_whole else _passed_on(seen, status)
        return _Manner(OutcomeKind.ERROR, seen.phase(), f"exit status {status}", after=after)
    if not seen.ready and not ours and not seen.supervised:
        return _Manner(OutcomeKind.NOT_READY, seen.phase(), "exit status 0 before it was ready")
    return None


def _passed_on(seen: _Seen, status: int) -> str:
    """What a wrapper's exit status is about: its child's core, else Python's form of it (`sys.exit(-11)`)."""
    core = seen.record.core
    if seen.supervised and isinstance(core, CoreNotes):
        at = place(core)
        return f": a process that it started died by {core.signal}{f', {at}' if at else ''}"
    name = _SIGNALS.get(128 + 256 - status) if seen.supervised else None
    return f": 256 - {256 - status}, as a wrapper in Python passes {name} on" if name else ""


def _answer(seen: _Seen) -> _Manner | None:
    """What came over the wire."""
    exchange, phase = seen.record.exchange, seen.phase()
    if exchange is None:
        if seen.supervised:
            return None
        return _Manner(OutcomeKind.NOT_READY, phase, "no server answered")
    if exchange.status not in (None, 200):
        return _Manner(OutcomeKind.ERROR, phase, f"HTTP {exchange.status}")
    if exchange.error:
        return _Manner(OutcomeKind.ERROR, phase, exchange.error)
    if not seen.has_token:
        return _Manner(OutcomeKind.ERROR, phase, "no token in the answer")
    if seen.answered is not None and not seen.answered.finished:
        return _Manner(OutcomeKind.ERROR, Phase.DECODE, "the answer ended early, without its final event")
    return None


def _sanity(seen: _Seen) -> _Manner | None:
    where = None if seen.answered is None else first_nan(seen.answered)
    if where is None:
        return None
    # the first token comes out of the prompt's evaluation
    return _Manner(OutcomeKind.WRONG_OUTPUT, Phase.DECODE if where else Phase.PROMPT, "NaN")
