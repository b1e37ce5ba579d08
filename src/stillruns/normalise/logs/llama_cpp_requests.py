"""The requests of a llama-server, from its slot, timing and access lines."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from stillruns.model.evidence import Ref, line_of
from stillruns.model.expression import Expression
from stillruns.model.server_log import LogRequest

MAX_REQUESTS = 20_000
"""Later requests are counted, not kept."""

_SLOT = Expression(r"\bid +(?P<slot>\d{1,6}) \| task (?P<task>-?\d{1,12}) \|")
_SLOT_OLD = Expression(
    r"slot (?P<slot>\d{1,6}) is processing \[task id: (?P<task>\d{1,12})\]|id_task=(?P<task2>\d{1,12})"
)
_TOKENS = Expression(r"task\.n_tokens = (?P<tokens>\d{1,9})")
_PRINTED = Expression(r" (?P<rate>\d{1,9}\.\d{1,3}) tokens per second\)")
_ACCESS = Expression(
    r"(?:request: |done request: )(?P<method>POST) (?P<path>/\S{0,200}) (?P<client>\S{1,100}) (?P<status>\d{3})$"
)
_ACCESS_OLD = Expression(
    r'^log_server_request: request \| .*method="POST".* ?status=(?P<status>\d{3})|'
    r'^log_server_request: request \| .*status=(?P<status2>\d{3}).*method="POST"'
)


@dataclass
class Requests:
    """Requests so far, the open ones by task."""

    done: list[LogRequest] = field(default_factory=list)
    left_out: int = 0
    _open: dict[str, LogRequest] = field(default_factory=dict)
    _count: int = 0
    current: str | None = None
    """The id of the request that was worked on last and is still open."""

    def start(self, text: str, ref: Ref, at: str, runner: str | None) -> None:
        """A slot takes up a task."""
        task = _task(text)
        if task in self._open:
            return
        if len(self._open) > 256:
            self._open.pop(next(iter(self._open)))
        self._count += 1
        request = LogRequest(id=f"r{self._count}", first=ref, last=ref, started=at, runner=runner)
        self._open[task] = request
        self.current = request.id

    def prompt(self, text: str, ref: Ref, at: str, runner: str | None) -> None:
        """A line about a prompt; it opens the request where its first line is missing."""
        task = _task(text)
        if task not in self._open:
            self.start(text, ref, at, runner)
        self.current = self._open[task].id
        found = _TOKENS.search(text)
        if found:
            self._open[task] = replace(self._open[task], prompt_tokens=int(found["tokens"]), last=ref)

    def timing(self, text: str, ref: Ref, tokens: int, ms: float, prompt: bool) -> None:
        """One of the two timing lines."""
        task = _task(text, self._open)
        request = self._open.get(task)
        if request is None:
            return
        printed = _PRINTED.search(text)  # newer builds leave out the first token, which the prompt's batch gives
        rate = float(printed["rate"]) if printed else round(tokens / ms * 1e3, 6) if ms > 0 else None
        spent = (request.seconds or 0.0) + ms / 1e3
        if prompt:
            request = replace(request, prompt_tokens=request.prompt_tokens or tokens, prompt_rate=rate)
        else:
            request = replace(request, tokens=tokens, rate=rate)
        self._open[task] = replace(request, last=ref, seconds=round(spent, 6))

    def release(self, text: str, ref: Ref, at: str) -> None:
        """The slot is free again."""
        request = self._open.pop(_task(text, self._open), None)
        if request is not None:
            self._keep(replace(request, last=ref, ended=at))
            self.current = None

    def access(self, text: str, ref: Ref, at: str) -> None:
        """An access line: the status of the request that ended last."""
        found = _ACCESS.search(text) or _ACCESS_OLD.search(text)
        if not found:
            return
        groups = found.groupdict()
        status = int(groups.get("status") or groups.get("status2") or 0)
        for index in range(len(self.done) - 1, max(-1, len(self.done) - 9), -1):
            if self.done[index].status is None:
                self.done[index] = replace(self.done[index], status=status, last=ref)
                return
        if status >= 400:
            self._count += 1
            self._keep(LogRequest(id=f"r{self._count}", first=ref, last=ref, ended=at, status=status))

    def _keep(self, request: LogRequest) -> None:
        if len(self.done) >= MAX_REQUESTS:
            self.left_out += 1
        else:
            self.done.append(request)

    def all(self) -> tuple[LogRequest, ...]:
        """Done and open, in the order of their first lines."""
        both = [*self.done, *self._open.values()]
        return tuple(sorted(both, key=lambda r: line_of(r.first)))


def _task(text: str, known: dict[str, LogRequest] | None = None) -> str:
    found = _SLOT.search(text) or _SLOT_OLD.search(text)
    if found:
        groups = found.groupdict()
        return groups.get("task") or groups.get("task2") or "?"
    return next(reversed(known)) if known else "?"
