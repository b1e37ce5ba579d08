"""From a trial's record to what its evidence says: one guarded call per parser."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

from msgspec.structs import replace

from stillruns.catalogue import load
from stillruns.errors import StoreError
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.backend import Runtime
from stillruns.model.evidence import Evidence, parse_ref
from stillruns.model.exchange import Answered, Exchange
from stillruns.model.server_facts import ServerFacts
from stillruns.model.trial import TrialRecord
from stillruns.normalise import answer
from stillruns.normalise.logs import llama_cpp
from stillruns.normalise.logs.reader import lines, visible
from stillruns.store.store import Store

Parsed = TypeVar("Parsed")


@dataclass(frozen=True, slots=True)
class Reading:
    """A trial, read. `faults` holds tracebacks of parsers that failed: evidence of a fault of ours, never lost."""

    record: TrialRecord
    facts: ServerFacts | Absence
    answered: Answered | Absence
    faults: tuple[str, ...] = ()
    others: tuple[tuple[Exchange, Answered], ...] = ()
    """The answers to the trial's other requests, in their order."""
    log: bytes = field(default=b"", repr=False)
    """The server's log as it was read, for the lines that the verdict will rest on."""

    @property
    def weights(self) -> str:
        """The type of the model's weights as the server's log tells it (`Q4_0`); empty where it does not."""
        return self.facts.file_type if isinstance(self.facts, ServerFacts) else ""


def read(store: Store, record: TrialRecord) -> Reading:
    """Parse the log and the answer of one trial; a parser that fails gives an absence and its traceback."""
    faults: list[str] = []
    log = log_of(record)
    data = store.read_blob(log.sha256) if log is not None else b""
    facts = _guarded(lambda: _facts(data, log, record), "the server's log", faults)
    bodies = Bodies(store, record)
    answered = _guarded(lambda: _answer(bodies, record), "the answer", faults)
    others = _guarded(lambda: _others(bodies, record), "the other answers", faults)
    every = () if isinstance(others, Absence) else others
    return Reading(record, facts, answered, tuple(faults), every, data)


def log_of(record: TrialRecord) -> Evidence | None:
    """The stream that carries the server's log: stderr, or stdout where stderr is empty."""
    streams = [e for kind in ("stderr", "stdout", "log") for e in record.evidence if e.kind == kind]
    for stream in streams:
        if stream.bytes:
            return stream
    return streams[0] if streams else None


def _facts(data: bytes, log: Evidence | None, record: TrialRecord) -> ServerFacts | Absence:
    if log is None:
        return Absence(AbsenceReason.NOT_COLLECTED, "no log of this server was collected")
    facts = llama_cpp.read(data, log.id, load.grammar(Runtime.LLAMA_CPP), load.patterns(), log.cut)
    before = record.log_lines_before
    recent = tuple(t for t in facts.troubles if (parse_ref(t.ref)[1] or 0) > before)
    return replace(facts, troubles=recent) if before else facts


class Bodies:
    """What was sent and what came back in the exchanges of one trial. A request stands before its response in the
    trial's evidence."""

    def __init__(self, store: Store, record: TrialRecord) -> None:
        self._store = store
        self._responses = {evidence.id: evidence.sha256 for evidence in record.evidence}
        self._requests = {
            after.id: before.sha256 for before, after in pairwise(record.evidence) if before.kind == "request"
        }

    def answer(self, exchange: Exchange) -> Answered | Absence:
        """What was answered."""
        body = self._responses.get(exchange.evidence or "")
        if body is None:
            return Absence(AbsenceReason.NOT_COLLECTED, exchange.error or "no answer came")
        return answer.read(exchange.status, self._store.read_blob(body))

    def request(self, exchange: Exchange) -> dict[str, object]:
        """What was asked; empty where it was not kept."""
        body = self._requests.get(exchange.evidence or "")
        asked = json.loads(self._store.read_blob(body)) if body is not None else None
        return asked if isinstance(asked, dict) else {}


def _answer(bodies: Bodies, record: TrialRecord) -> Answered | Absence:
    if record.exchange is None:
        return Absence(AbsenceReason.NOT_COLLECTED, "no request was sent")
    return bodies.answer(record.exchange)


def _others(bodies: Bodies, record: TrialRecord) -> tuple[tuple[Exchange, Answered], ...]:
    every = ((exchange, bodies.answer(exchange)) for exchange in record.more)
    return tuple((exchange, found) for exchange, found in every if isinstance(found, Answered))


def _guarded(parse: Callable[[], Parsed | Absence], what: str, faults: list[str]) -> Parsed | Absence:
    try:
        return parse()
    except StoreError:
        raise  # a missing or damaged blob is the store's trouble, not the parser's
    except Exception as error:
        faults.append(traceback.format_exc())
        return Absence(
            AbsenceReason.UNPARSABLE,
            f"the parser of {what} failed: {type(error).__name__}: {error}",
            "please report this with the trial's evidence",
        )


def excerpts(
    store: Store, record: TrialRecord, refs: Iterable[str], known: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The text of each line that a ref names, in the order of the refs; each source is read once. Safe to print.

    `known` are lines that were quoted before: their sources are not read again.
    """
    refs, texts = list(refs), dict(known or {})
    done = {parse_ref(ref)[0] for ref in texts}
    for evidence in record.evidence:
        if evidence.id not in done and _numbers(evidence, refs):
            texts |= quoted(store.read_blob(evidence.sha256), evidence, refs)
    return {ref: texts[ref] for ref in refs if ref in texts}


def quoted(data: bytes, evidence: Evidence, refs: Iterable[str]) -> dict[str, str]:
    """The text of each line of one source that a ref names, from the source's bytes. Safe to print."""
    refs = list(refs)
    wanted = _numbers(evidence, refs)
    last, texts = max(wanted, default=0), {}
    for found in lines(data, evidence.cut):
        if found.number > last:
            break
        if found.number in wanted:
            texts[wanted[found.number]] = visible(found.text)
    return {ref: texts[ref] for ref in refs if ref in texts}


def _numbers(evidence: Evidence, refs: Iterable[str]) -> dict[int, str]:
    """The lines of one source that are named, by number."""
    parsed = ((parse_ref(ref), ref) for ref in refs)
    return {line: ref for (source, line, _, _), ref in parsed if source == evidence.id and line is not None}
