"""What an Ollama server's log has said so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from stillruns.model.backend import Backend
from stillruns.model.evidence import Ref, line_of
from stillruns.model.phase import Phase
from stillruns.model.server_facts import Event, Trouble
from stillruns.model.server_log import LoadedBackend, LogDevice, Note
from stillruns.normalise.logs import slog
from stillruns.normalise.logs.llama_cpp_devices import SeenDevices
from stillruns.normalise.logs.llama_cpp_load import Phases
from stillruns.normalise.logs.llama_cpp_state import State as LlamaState
from stillruns.normalise.logs.ollama_deaths import OllamaDeaths
from stillruns.normalise.logs.ollama_requests import ServedRequest
from stillruns.normalise.logs.ollama_runner import Load, Plan
from stillruns.normalise.logs.ollama_versions import Versions

MAX_RUNNERS = 2_000
MAX_REQUESTS = 10_000
MAX_TROUBLES = 1_000
MAX_NOTES = 200
MAX_TEXTS = 20_000
MAX_SPANS = 10_000


_ENGINE_FILES = ("source=ggml.go:", "source=backend.go:")
"""Call sites of the engine's own; the server's tell nothing of the runner."""


@dataclass
class OllamaState:
    """One server process. `child` is the runner whose the next raw lines are, or None (a probe's, or not known).

    `probing` counts the device probes that were started since the last runner: a child without a model;
    `polled_from` is the time of the first of them after a runner's death. `free` is what was free in MiB before the
    first load, by the device's id.
    """

    source: str
    lines: int = 0
    header_line: int = 0
    now: float | None = None
    at: str = ""
    versions: Versions = field(default_factory=Versions)
    seen: SeenDevices = field(default_factory=SeenDevices)
    listed: dict[str, LogDevice] = field(default_factory=dict)
    free: dict[str, tuple[Backend, float]] = field(default_factory=dict)
    libraries: list[LoadedBackend] = field(default_factory=list)
    loads: list[Load] = field(default_factory=list)
    loads_dropped: int = 0
    child: Load | None = None
    probing: int = 0
    polled_from: float | None = None
    buses: set[str] = field(default_factory=set)
    estimate: Plan | None = None
    requests: list[ServedRequest] = field(default_factory=list)
    requests_dropped: int = 0
    access_line: int = 0
    timings_seen: int = 0
    phases: Phases = field(default_factory=Phases)
    troubles: list[Trouble] = field(default_factory=list)
    deaths: OllamaDeaths = field(default_factory=OllamaDeaths)
    notes: list[Note] = field(default_factory=list)
    texts: dict[Ref, str] = field(default_factory=dict)
    texts_bound: int = 20_000
    around: set[Ref] = field(default_factory=set)
    """Lines just after a line of trouble: they say where it was."""

    def latest(self) -> Load | None:
        """The runner that was started last."""
        return self.loads[-1] if self.loads else None

    def phase(self) -> Phase:
        """Where the child is by the lines so far; UNKNOWN when it is ready and says no more."""
        if self.child is None and self.probing:
            return Phase.DISCOVER
        return self.phases.current or Phase.UNKNOWN

    def place(self) -> tuple[Phase, Ref | None]:
        """The phase, and the last line that tells it."""
        phase = self.phase()
        told = self.phases.spans and self.phases.current is phase
        return phase, self.phases.spans[-1].last if told else None

    def slog_line(self, found: slog.Head) -> None:
        """Time and call site of a line of the server's own."""
        at = slog.local_seconds(found.time)
        if at is not None:
            self.now, self.at = at, found.time
            self.deaths.time(at)
        self.versions.site(found.file, found.line, found.message)

    def note(self, kind: str, text: str, *refs: Ref) -> None:
        """A note, once for each text."""
        if len(self.notes) < MAX_NOTES and all(n.text != text for n in self.notes):
            self.notes.append(Note(kind, text, refs))

    def trouble(self, trouble: Trouble) -> None:
        """A line that a crash pattern explains."""
        self.keep(trouble.ref, trouble.text)
        if len(self.troubles) < MAX_TROUBLES:
            self.troubles.append(trouble)

    def keep(self, ref: Ref, text: str) -> None:
        """Remember a line's excerpt; of very many, only those that something refers to."""
        self.texts[ref] = text
        if len(self.texts) >= self.texts_bound:
            wanted = self.wanted()
            self.texts = {ref: text for ref, text in self.texts.items() if ref in wanted}
            self.texts_bound = max(MAX_TEXTS, 2 * len(self.texts))
            del self.phases.spans[:-MAX_SPANS]

    def wanted(self) -> set[Ref]:
        """Lines that runners, requests, troubles, endings and notes rest on, and the latest ones."""
        found = {ref for load in self.loads for ref in load.refs()}
        found.update(request.ref for request in self.requests)
        found.update(trouble.ref for trouble in self.troubles)
        found.update(ref for death in self.deaths.all for ref in death.all_refs())
        found.update(ref for note in self.notes for ref in note.refs)
        found.update(b.ref for b in self.libraries)
        found.update(device.ref for device in self.seen.all())
        found.update(listed.ref for listed in self.listed.values())
        return found | set(list(self.texts)[-200:])

    def is_ready(self) -> bool:
        """Whether the runner that was started last has said that it is ready."""
        load = self.latest()
        return load is not None and load.ready is not None

    def load_of(self, event: Event) -> Load:
        """The runner that a line of the server speaks of; one that began before the log if need be."""
        return self.latest() or self.implicit(event)

    def loading(self, event: Event) -> Load:
        """The runner that is being loaded. A load's line after the last runner became ready belongs to one whose
        start the log does not show: lines were left out of an excerpt."""
        load = self.latest()
        if load is None or load.ready is not None:
            load = self.child = self.implicit(event)
        return load

    def implicit(self, event: Event) -> Load:
        """A runner whose start lies before the log."""
        told = "ollama engine" if any(file in event.text for file in _ENGINE_FILES) else ""
        load = self.add_load(event.ref, told if "source=" in event.text else "llama runner")
        load.headless = True
        self.child = load
        return load

    def add_load(self, ref: Ref, engine: str) -> Load:
        """A new runner."""
        load = Load(
            id=f"r{len(self.loads) + self.loads_dropped + 1}",
            engine=engine,
            started=ref,
            line=line_of(ref),
            at=self.now,
            llama=LlamaState(self.source),
            clock=self.at,
        )
        if len(self.loads) >= MAX_RUNNERS:
            self.loads.pop(0)
            self.loads_dropped += 1
        self.loads.append(load)
        if self.probing > 1 and self.polled_from is not None and self.now is not None:
            load.waited = round(self.now - self.polled_from, 3)
        self.probing, self.timings_seen, self.polled_from = 0, 0, None
        return load
