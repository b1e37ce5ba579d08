"""A log of a study: its servers, what went wrong in them, and what its lines tell of each load.

Worklogs' journals and logs that came alone are read here in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stillruns.catalogue import load
from stillruns.judge.incidents import incident
from stillruns.judge.studies import log_trials
from stillruns.lab import autopsy
from stillruns.model.autopsy import Incident
from stillruns.model.backend import Runtime
from stillruns.model.evidence import Ref, line_of
from stillruns.model.server_facts import Timing
from stillruns.model.server_log import ServerLog
from stillruns.model.worklog import StudyRequest
from stillruns.normalise.logs import llama_cpp, streams, told
from stillruns.normalise.logs.reader import lines


@dataclass(frozen=True, slots=True)
class StudyLog:
    """One log, read. `told` maps the first line of each load to what `normalise.logs.told` read for it; `timings`
    are those of a log that one llama.cpp program wrote without taking a request."""

    servers: tuple[ServerLog, ...]
    incidents: tuple[Incident, ...]
    told: Mapping[Ref, Mapping[str, str]]
    timings: tuple[Timing, ...] = ()


def found(data: bytes, source: str) -> streams.SourceLogs:
    """The servers and the kernel's lines of a log; `source` is the evidence id that refs name."""
    count = iter(range(10_000))
    catalogue = streams.Catalogue({r: load.grammar(r) for r in streams.RUNTIMES}, load.patterns())
    splitter = streams.Splitter(source, catalogue, streams.default_openers(), lambda: f"srv{next(count)}")
    for line in lines(data):
        splitter.take(line)
    return splitter.close()


def servers(data: bytes, source: str) -> tuple[ServerLog, ...]:
    """Every process in a log that speaks as a model server does."""
    return tuple(s for s in found(data, source).servers if s.runtime is not Runtime.UNKNOWN)


def read(data: bytes, source: str) -> StudyLog:
    """The whole log, judged as `stillruns autopsy` does."""
    seen = found(data, source)
    known = tuple(s for s in seen.servers if s.runtime is not Runtime.UNKNOWN)
    incidents, _ = incident.judge(known, seen.kernel, autopsy.knowledge(known))
    timings: tuple[Timing, ...] = ()
    if len(known) == 1 and known[0].runtime is Runtime.LLAMA_CPP and not known[0].requests:
        timings = llama_cpp.read(data, source, load.grammar(Runtime.LLAMA_CPP), load.patterns()).timings
    return StudyLog(known, incidents, _told(known, data), timings)


def trials(name: str, data: bytes, source: str) -> tuple[StudyRequest, ...]:
    """Every trial that a log which came alone shows, judged; none for a text that no model server wrote. `name` is
    the file's, which decides nothing."""
    log = read(data, source)
    return log_trials.requests(name, log.servers, log.incidents, log.told, log.timings)


def _told(known: Sequence[ServerLog], data: bytes) -> dict[Ref, dict[str, str]]:
    values = told.read(data)
    starts = {runner.started: line_of(runner.started) for server in known for runner in server.runners}
    if len({server.name for server in known}) > 1:
        return {}  # lines of several processes stand among each other: whose a value is cannot be told
    loads = tuple(starts.values())
    return {
        ref: {n: v for n in told.NAMES if (v := told.at(values, n, line, loads, len(known))) is not None}
        for ref, line in starts.items()
    }
