"""Which lines of trouble belong to one incident, and which of them are none.

Signs are split where life went on in between: a runner was started or became ready, another request began. A group
that holds no death and that the server survived while it loaded (an allocation tried again elsewhere, a backend that
could not be loaded) is a note, not an incident; trouble in warm-up, prompt or decode always is one, because work that
was asked for was not done.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

from stillruns.model.backend import Backend
from stillruns.model.evidence import line_of
from stillruns.model.outcome import OutcomeKind
from stillruns.model.pattern import CrashPattern
from stillruns.model.phase import Phase
from stillruns.model.server_facts import Trouble
from stillruns.model.server_log import Ending, LogRequest, Runner, ServerLog

FATAL = (
    "signal",
    "exit",
    "terminate",
    "assert",
    "panic",
    "exception",
    "timeout",
    "eof",
    "http",
    "garbage",
    "fallback",
    "oom",
)
STOPPED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGPIPE")
"""Signals by which people and supervisors stop a server: no incident."""
MINOR = 50
"""Below this rank a line of trouble alone is no incident."""
_EARLY = (Phase.DISCOVER, Phase.INIT, Phase.LOAD, Phase.RESERVE)
_GAP = 5000
_REPORTED = 8
"""Within so many lines of a runner's error its parent reports the death; an access line in between parts nothing."""


@dataclass
class Group:
    """The signs of one incident, in the order of their lines."""

    endings: list[Ending] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    first: int = 0
    last: int = 0
    lost: Backend = Backend.UNKNOWN
    """Of a fallback: the backend that did nothing."""

    def add(self, line: int, sign: Ending | Trouble) -> None:
        """The next sign."""
        self.first = self.first or line
        self.last = line
        if isinstance(sign, Ending):
            self.endings.append(sign)
        else:
            self.troubles.append(sign)

    @property
    def deaths(self) -> list[Ending]:
        """Endings that are deaths or failures in their own right, the first of a chain before its echoes."""
        return sorted((e for e in self.endings if e.kind in FATAL), key=lambda e: e.secondary)


def groups(server: ServerLog, patterns: Mapping[str, CrashPattern]) -> tuple[list[Group], list[Group]]:
    """(incidents, survived): the groups that are incidents, and those that are only worth a note."""
    signs: list[tuple[int, Ending | Trouble]] = [(line_of(e.ref), e) for e in server.endings if not _stopped(e)]
    signs += [(line_of(t.ref), t) for t in server.troubles if t.outcome is not OutcomeKind.OK]
    signs.sort(key=lambda pair: (pair[0], isinstance(pair[1], Ending)))
    marks = sorted(
        {line_of(r.started) for r in server.runners}
        | {line_of(r.ready) for r in server.runners if r.ready}
        | {line_of(r.first) for r in server.requests if not _only_access(r)}
    )
    access = sorted(line_of(r.first) for r in server.requests if _only_access(r))
    found: list[Group] = []
    for line, sign in signs:
        current = found[-1] if found else None
        echo = isinstance(sign, Ending) and sign.secondary
        if current is None or (not echo and _apart(current.last, line, marks, access)):
            current = Group()
            found.append(current)
        current.add(line, sign)
    incidents = [g for g in found if _counts(g, server, patterns)]
    return incidents, [g for g in found if g not in incidents]


def _stopped(ending: Ending) -> bool:
    return ending.signal in STOPPED or ending.exit_status in (130, 143)


def _only_access(request: LogRequest) -> bool:
    """Nothing but Ollama's access line, and that says that all was well: some versions print it when the runner has
    died already."""
    return request.first == request.last and (request.status or 0) < 400


def _apart(last: int, line: int, marks: list[int], access: list[int]) -> bool:
    """Whether life went on between two signs."""
    near = line - last <= _REPORTED
    return line - last > _GAP or _between(marks, last, line) or (not near and _between(access, last, line))


def _between(marks: list[int], low: int, high: int) -> bool:
    return any(low < mark <= high for mark in marks)


def _counts(group: Group, server: ServerLog, patterns: Mapping[str, CrashPattern]) -> bool:
    if group.deaths:
        return True
    if not group.troubles:
        return True  # a log that ends in mid work
    top = max(group.troubles, key=lambda t: t.rank)
    if top.rank < MINOR:
        return False
    if any(t.phase in (Phase.WARMUP, Phase.PROMPT, Phase.DECODE) and t.rank >= MINOR for t in group.troubles):
        return True
    pattern = patterns.get(top.pattern)
    early = top.phase in _EARLY or (pattern is not None and pattern.phase in _EARLY)
    gone = not early and any(t.outcome is OutcomeKind.ABORT and t.rank >= MINOR for t in group.troubles)
    return not ((early or top.phase is Phase.UNKNOWN) and _lived_on(server, group.last, gone))


def _lived_on(server: ServerLog, line: int, gone: bool) -> bool:
    """Whether anything after the line shows that the server became ready, answered, or ended in order. Where the
    runner has given up (`gone`), an access line shows nothing: a stream has its status before its end."""
    later = [line_of(r.ready) for r in server.runners if r.ready]
    later += [line_of(r.last) for r in server.requests if _succeeded(r) and (r.tokens or not gone)]
    later += [line_of(server.clean_end)] if server.clean_end else []
    return any(mark > line for mark in later)


def _succeeded(request: LogRequest) -> bool:
    if request.status is not None:
        return request.status < 400
    return bool(request.tokens)


class LineIndex:
    """A server's excerpts and requests by line, so that many incidents cost no more than one."""

    def __init__(self, server: ServerLog) -> None:
        """Sorts both once."""
        self._texts = sorted((line_of(ref), text) for ref, text in server.texts)
        self._requests = sorted(server.requests, key=lambda r: line_of(r.first))
        self._firsts = [line_of(r.first) for r in self._requests]
        self._by_id = {r.id: r for r in server.requests}
        self.shown = dict(server.texts)

    def texts(self, first: int, last: int) -> list[str]:
        """Excerpts of the lines from `first` to `last`."""
        start = bisect_left(self._texts, (first, ""))
        found = []
        for line, text in self._texts[start : start + 400]:
            if line > last:
                break
            found.append(text)
        return found

    def request(self, group: Group) -> LogRequest | None:
        """The request that the group's endings name, else one whose lines hold the group's first line."""
        named = next((e.request for e in group.endings if e.request), None)
        if named in self._by_id:
            return self._by_id[named]
        place = bisect_right(self._firsts, group.first)
        for request in reversed(self._requests[max(0, place - 64) : place]):
            if line_of(request.last) >= group.first:
                return request
        return None


def runner_of(server: ServerLog, group: Group) -> Runner | None:
    """The runner that the group's endings name, else the last one started before it."""
    named = next((e.runner for e in group.endings if e.runner), None)
    if runner := server.runner(named):
        return runner
    before = [r for r in server.runners if line_of(r.started) <= group.last]
    if before:
        return max(before, key=lambda r: line_of(r.started))
    return server.runners[0] if len(server.runners) == 1 else None
