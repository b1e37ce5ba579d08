"""What one llama.cpp process has printed so far, beyond what `llama_cpp_state` keeps."""

from __future__ import annotations

from dataclasses import dataclass, field

from stillruns.model.evidence import Ref
from stillruns.model.server_log import Layers, Note
from stillruns.normalise.logs.deaths import Deaths
from stillruns.normalise.logs.llama_cpp_requests import Requests
from stillruns.normalise.logs.llama_cpp_state import State
from stillruns.normalise.logs.reader import visible


@dataclass
class Life:
    """One process, from its first line to its end."""

    state: State
    deaths: Deaths
    requests: Requests = field(default_factory=Requests)
    first: int = 0
    last: int = 0
    program: str = ""
    unended_command: bool = False
    after_command: int = 0
    asked: Layers = None
    asked_ref: Ref | None = None
    bench: list[str] | None = None
    bench_rows: list[tuple[Ref, dict[str, str]]] = field(default_factory=list)
    override: Ref | None = None
    named_target: tuple[str, Ref] | None = None
    phase_line: tuple[Ref, str] = ("", "")
    after: int = 0
    texts: dict[Ref, str] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    phased: frozenset[str] = frozenset()
    garbage: Ref | None = None
    garbage_edge: tuple[str, Ref] = ("", "")
    announces_warmup: bool = False
    decisive: bool = False
    pids: set[int] = field(default_factory=set)
    ended: bool = False

    def keep(self, ref: Ref, text: str) -> None:
        """An excerpt that a report may show."""
        if ref and len(self.texts) < 4000:
            self.texts[ref] = visible(text)
