"""vLLM's and PyTorch's lines -> ServerLog: outcome, phase, backend and component, no more.

Its trace shows the outermost error last; the first line of trouble is the cause, and `Engine process failed to
start` only says that there was one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from stillruns.model.backend import Backend, Runtime
from stillruns.model.evidence import Ref, line_ref
from stillruns.model.expression import Expression
from stillruns.model.pattern import CrashPattern, GrammarRule
from stillruns.model.phase import Phase
from stillruns.model.server_facts import PhaseSpan, Trouble
from stillruns.model.server_log import (
    Ending,
    LoadedBackend,
    LogDevice,
    LogLine,
    LogRequest,
    Runner,
    ServerLog,
    VersionRange,
)
from stillruns.normalise.logs.deaths import Deaths, Where
from stillruns.normalise.logs.matcher import best_pattern, pattern_table, rule_table, trouble
from stillruns.normalise.logs.reader import visible

_PREFIX = re.compile(
    r"^(?:\([^)]{1,60}\) )?(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \S{0,120}\] ?"
    r"|^\[rank\d{1,4}\]:(?:\[\w\])? ?"
)
_RAISED = Expression(r"(?:\w{1,60}\.){0,8}\w{1,60}(?:Error|Exception): \S")
"""What ends a traceback that nothing caught; in a server that starts, it ends the start."""
_ACCESS = Expression(r'"(?P<method>POST) (?P<path>/\S{1,200}) HTTP/1\.1" (?P<status>\d{3})')
_NVIDIA = Expression(r"CUDA kernel errors might be asynchronously reported")
"""PyTorch for ROCm says HIP here."""
_GFX = Expression(r"\b(?P<target>gfx[0-9a-f]{3,5})\b")


@dataclass
class Reader:
    """A LogReader; see `seam`."""

    id: str
    name: str
    source: str
    rules: tuple[GrammarRule, ...]
    patterns: tuple[CrashPattern, ...]
    first: int = 0
    last: int = 0
    version: str | None = None
    backend: tuple[Backend, Ref] | None = None
    target: tuple[str, Ref] | None = None
    model: str | None = None
    spans: list[PhaseSpan] = field(default_factory=list)
    idle: bool = False
    troubles: list[Trouble] = field(default_factory=list)
    requests: list[LogRequest] = field(default_factory=list)
    texts: dict[Ref, str] = field(default_factory=dict)
    deaths: Deaths = field(init=False)
    raised: Ending | None = None
    """The last exception while it starts, forgotten when it becomes ready."""

    def __post_init__(self) -> None:
        """Start empty."""
        self.deaths = Deaths(self.source)
        self._rules = rule_table(self.rules).matcher()
        self._crashes = pattern_table(self.patterns).matcher()

    @property
    def phase(self) -> Phase:
        """Where it is by the last line that tells; UNKNOWN when it serves."""
        return Phase.UNKNOWN if self.idle or not self.spans else self.spans[-1].phase

    def take(self, line: LogLine) -> None:
        """The next line."""
        self.first = self.first or line.number
        self.last = line.number
        ref = line_ref(self.source, line.number)
        text = _PREFIX.sub("", line.text, count=1)
        for rule, match in self._rules.matches(text):
            self._event(rule, match, ref)
            self.texts.setdefault(ref, visible(text)) if len(self.texts) < 2000 else None
        access = _ACCESS.search(text) if "HTTP/1.1" in text else None
        if access and len(self.requests) < 20_000:
            number = f"r{len(self.requests) + 1}"
            self.requests.append(LogRequest(number, ref, ref, ended=line.at, status=int(access["status"])))
        if "gfx" in text and self.target is None:
            found = _GFX.search(text)
            if found:
                self.target = (found["target"], ref)
                self.texts.setdefault(ref, visible(text))
        if self.backend is None and _NVIDIA.match(text):
            self.backend = (Backend.CUDA, ref)
            self.texts.setdefault(ref, visible(text))
        self._trouble(text, ref, line)

    def _trouble(self, text: str, ref: Ref, line: LogLine) -> None:
        # behind a logger's prefix stands an exception without its type, which must not look like ggml's own line
        found = best_pattern(self._crashes, line.text if text.startswith("CUDA error: ") else text)
        if found and len(self.troubles) < 200:
            pattern, match = found
            self.troubles.append(trouble(pattern, match, ref, visible(text), self.phase, line.at))
            self.texts[ref] = visible(text)
        where = Where(self.phase, self.spans[-1].last if self.spans and not self.idle else None, None, None, line.at)
        if self.deaths.see(line.number, text, where) is not None:
            self.texts[ref] = visible(text)
        elif not self.idle and _RAISED.match(text) and (text == line.text or "ERROR " in line.text[:100]):
            shown = visible(text)
            self.raised = Ending("exception", ref, shown, phase=where.phase, phase_ref=where.phase_ref, at=line.at)
            self.texts[ref] = shown

    def _event(self, rule: GrammarRule, match: re.Match[str], ref: Ref) -> None:
        fields = match.groupdict()
        if rule.event == "version":
            self.version = fields.get("version") or self.version
        elif rule.event == "platform":
            named = {"rocm": Backend.ROCM, "cuda": Backend.CUDA, "cpu": Backend.CPU, "xpu": Backend.SYCL}
            backend = named.get((fields.get("platform") or "").lower())
            if backend:
                self.backend = (backend, ref)
        elif rule.event == "loading":
            self.model = fields.get("model") or self.model
        if rule.event == "ready":
            self.idle, self.raised = True, None
        elif rule.phase is not None:
            self.idle = False
            if self.spans and self.spans[-1].phase is rule.phase:
                self.spans[-1] = PhaseSpan(rule.phase, self.spans[-1].first, ref)
            elif len(self.spans) < 1000:
                self.spans.append(PhaseSpan(rule.phase, ref, ref))

    def close(self) -> tuple[ServerLog, ...]:
        """The stream has ended."""
        if not self.first:
            return ()
        backend = self.backend[0] if self.backend else Backend.UNKNOWN
        if backend is Backend.UNKNOWN and self.target:
            backend = Backend.ROCM
        devices: tuple[LogDevice, ...] = ()
        if self.target:
            devices = (LogDevice(Backend.ROCM, "", "", self.target[0], self.target[1]),)
        loaded = (LoadedBackend(backend, "", self.backend[1]),) if self.backend else ()
        start = self.spans[0].first if self.spans else line_ref(self.source, self.first)
        runner = Runner(
            "load",
            "vllm",
            start,
            self.model,
            backend=backend,
            backends=(backend,) if backend is not Backend.UNKNOWN else (),
        )
        return (
            ServerLog(
                id=self.id,
                name=self.name,
                runtime=Runtime.VLLM,
                version=VersionRange(self.version, self.version, "line") if self.version else VersionRange(),
                program="vllm",
                backends_loaded=loaded,
                devices=devices,
                runners=(runner,),
                requests=tuple(self.requests),
                phases=tuple(self.spans),
                last_phase=self.phase,
                troubles=tuple(self.troubles),
                endings=(*self.deaths.close(), *((self.raised,) if self.raised else ())),
                lines=self.last - self.first + 1,
                texts=tuple(self.texts.items()),
            ),
        )
