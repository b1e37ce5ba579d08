"""A foreign worklog: an experiment that someone else ran with a script of their own, as its files tell it.

One *run folder* holds what a client wrote down for each request (`result.json`), what it noted about the run
(`meta.json`), perhaps the server's journal, and probes. What the client thought and what the server did are kept
apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stillruns.model.applied import Answer
from stillruns.model.backend import Backend
from stillruns.model.component import Component
from stillruns.model.evidence import Ref
from stillruns.model.outcome import OutcomeKind
from stillruns.model.phase import Phase
from stillruns.model.rate import Rate
from stillruns.model.server_log import Layers, LogRequest, Runner, ServerLog, VersionRange


@dataclass(frozen=True, slots=True)
class ClientRecord:
    """One request as the client wrote it down.

    `asked` is num_gpu: a number, `"auto"` for a negative one, None when the client set none. `started` is local time
    without a zone, `seconds` as the client measured. Rates are tokens per second of evaluation time. `characters` is
    the length of the stored answer (None: not told).
    """

    epoch: int
    asked: Layers
    status: str
    started: str
    seconds: float | None = None
    tokens: int | None = None
    rate: float | None = None
    prompt_tokens: int | None = None
    prompt_rate: float | None = None
    characters: int | None = None
    http_status: int | None = None
    error: str = ""
    response_file: str = ""
    ps_after_file: str = ""


@dataclass(frozen=True, slots=True)
class ClientRun:
    """One run folder as the client wrote it. `label` is the backend that the client believed in, `host` the address
    it asked, or empty; `zone` the offset from UTC that the folder itself shows (`+09:00`), or empty."""

    name: str
    started: str
    model: str
    records: tuple[ClientRecord, ...]
    label: str = ""
    host: str = ""
    predict: int | None = None
    zone: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    noted: tuple[tuple[str, int], ...] = ()
    """Environment variables that the client noted, set or not, each with its line of meta.json (0: not found)."""


@dataclass(frozen=True, slots=True)
class ProbedRunner:
    """A runner in a process listing: its pid, and the pid of the server that started it."""

    pid: int
    parent: int
    ref: Ref


@dataclass(frozen=True, slots=True)
class ServerProbe:
    """What a process listing shows: pids of the servers, and the runners that are alive."""

    servers: tuple[int, ...] = ()
    runners: tuple[ProbedRunner, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestDeath:
    """How the server says that a request's runner died. `signature` is `sig1:...`."""

    ref: Ref
    signal: str | None
    phase: Phase
    signature: str | None
    components: tuple[Component, ...]
    batch: str
    """Such as `batch 0 of 33 inputs`; empty where the log does not tell."""
    after_load: float | None
    """Seconds from the runner's start to the first line after its death; None when the log has no times."""
    waited: float | None = None
    """Seconds that the server waited, before that start, for the memory of a runner that had died; None: none."""


@dataclass(frozen=True, slots=True)
class StudyRequest:
    """A client's request beside what the server's log shows of it.

    `run` is the run folder, `record` the client's words. `server` is how the journal names the server (`unit[pid]`);
    `side` the GPU backend that this server loads, `backend` where this request's layers went; UNKNOWN where no
    journal tells. `logged` is what the server printed as asked (None: it printed nothing). `applied` says whether it
    ran under what the client asked, `why` in one sentence, `refs` where in the run's evidence.
    """

    run: str
    record: ClientRecord
    model: str
    label: str
    server: str = ""
    version: VersionRange = field(default_factory=VersionRange)
    side: Backend = Backend.UNKNOWN
    backend: Backend = Backend.UNKNOWN
    engine: str = ""
    reused: bool = False
    logged: Layers = None
    applied_layers: int | None = None
    total_layers: int | None = None
    applied: Answer = Answer.UNKNOWN
    why: str = ""
    outcome: OutcomeKind = OutcomeKind.OK
    death: RequestDeath | None = None
    device_free: str = ""
    device_bus: str = ""
    runner_ref: Ref | None = None
    access_ref: Ref | None = None
    refs: tuple[Ref, ...] = ()
    alone: bool | None = None
    """Whether no other server's runner was alive when the run began; None when no listing tells."""
    flash_attention: str = ""
    """As the runner's lines show it (`Enabled`; `Auto, then enabled`), or empty."""
    libraries: tuple[tuple[Backend, Ref], ...] = ()
    """What the runner that served it says it loaded."""
    layout: Ref | None = None
    """Where its layers rest on the runner's layout alone."""
    client: bool = True
    """False for a log that came alone: `record` is what the log itself shows, and nobody else counted."""
    told: tuple[tuple[str, str], ...] = ()
    """Of a log that came alone: further factors of its condition by name, as its lines tell them."""

    @classmethod
    def shown(
        cls, run: str, record: ClientRecord, model: str, server: ServerLog, request: LogRequest, runner: Runner | None
    ) -> StudyRequest:
        """With what the server's lines show of it; `runner` is the load that served it, if they show one. Whether its
        condition was applied, and how it ended, is left to be judged."""
        return cls(
            run=run,
            record=record,
            model=model,
            label="",
            server=server.name,
            version=server.version,
            backend=runner.backend if runner else Backend.UNKNOWN,
            engine=runner.engine if runner else "",
            reused=request.reused,
            logged=request.requested_layers,
            applied_layers=request.applied_layers,
            total_layers=request.total_layers,
            device_bus=dict(runner.settings).get("device_bus", "") if runner else "",
            runner_ref=runner.started if runner else None,
            access_ref=request.last,
            refs=request.refs,
        )

    @property
    def layers(self) -> Layers:
        """The layers of its condition: what the client asked. Of a log that came alone what was applied (`all` where
        that is all of them), since few logs show what was asked; where that is not shown, or is not what the log
        shows as asked, the latter."""
        if self.client or self.void or self.applied_layers is None:
            return self.record.asked
        return "all" if self.applied_layers == self.total_layers else self.applied_layers

    @property
    def void(self) -> bool:
        """The condition was not applied: neither a pass nor a failure."""
        return self.applied is Answer.NO

    @property
    def empty(self) -> bool:
        """Tokens came, and no text was stored: the output is unknown."""
        return bool(self.record.tokens) and self.record.characters == 0


@dataclass(frozen=True, slots=True)
class StudyCell:
    """All requests of one side, model and num_gpu. `counted_ok` of `requests` is what the client counted (None: there
    is no client's record); the other figures are of applied requests, `void` and `unknown` apart. `layers` are the
    `applied/total` that were seen."""

    side: Backend
    server: str
    model: str
    asked: Layers
    requests: int
    counted_ok: int | None
    applied: int
    void: int
    unknown: int
    answered: int
    failed: int
    empty: int
    outcomes: tuple[tuple[str, int], ...]
    layers: tuple[str, ...]
    rate: Rate | None
    speed: tuple[float, float, float] | None
    """Median, lowest and highest tokens per second of evaluation time over all answered requests, void ones too."""


@dataclass(frozen=True, slots=True)
class Noted:
    """What a run's client noted beside its requests. `environment` maps variables to their line in the run's
    evidence; `server_environment` is the line in which the server prints its own, None where none does. `version`
    is the release that the client noted, with its line; `journal` is false where no server log is there."""

    run: str
    journal: bool
    environment: tuple[tuple[str, Ref], ...] = ()
    server_environment: Ref | None = None
    version: str = ""
    version_ref: Ref | None = None


@dataclass(frozen=True, slots=True)
class Unread:
    """A variable that no release of the runtime reads: `verdict` is lint's, `why` and `source` what it rests on."""

    name: str
    verdict: str
    why: str
    source: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that the tables of the worklog cannot show: `kind` a short word, `text` one sentence, `places`
    (run folder, ref)."""

    kind: str
    text: str
    places: tuple[tuple[str, Ref], ...] = ()


@dataclass(frozen=True, slots=True)
class Study:
    """All run folders of one worklog, judged from their evidence."""

    name: str
    runs: tuple[tuple[str, str, bool], ...]
    """(run folder, run id in the store, whether it has a journal)."""
    requests: tuple[StudyRequest, ...]
    cells: tuple[StudyCell, ...]
    findings: tuple[Finding, ...]
