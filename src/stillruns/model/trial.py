"""One execution of one condition: what is planned, and what was seen."""

from __future__ import annotations

from dataclasses import dataclass, field

from stillruns.model.evidence import Evidence
from stillruns.model.exchange import Exchange
from stillruns.model.process import CoreResult, ProcessEnd
from stillruns.model.spec import Timeouts


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """What `act` is to execute, complete: it decides nothing by itself.

    `argv` includes the prefix and binary; the text `{port}` in an argument is replaced by a free port.
    `env` is the child's whole environment save the marker by which orphans are found (act/environment.py). `request`
    is the JSON body to post to `request_path` once `ready_path` says that the server is ready. `log` is the log file
    of a server that runs already.
    """

    trial: str
    run: str
    cell: str
    index: int
    argv: tuple[str, ...]
    env: dict[str, str]
    ready_path: str
    request_path: str
    request: dict[str, object]
    timeouts: Timeouts
    sample_devices: tuple[str, ...] = ()
    keep_core: bool = True
    log: str = ""
    more: tuple[dict[str, object], ...] = ()
    """Further requests to the same server, one after the other, as long as each is answered."""
    lanes: int = 1
    """So many ask at the same time, each all of it."""
    seconds: float = 0.0
    """Each lane asks again and again until so many are over; 0 asks everything once."""
    texts: tuple[str, ...] = ()
    """Texts that the server tokenises first, for requests that name their tokens (act/templates.py)."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """What the harness itself saw of the child's life, in seconds since its start (None = never).

    `timed_out` is the deadline that passed: load, first_token, token, teardown, or empty. `port_retries` counts
    starts that lost the race for a port and were repeated.
    """

    ready_at: float | None
    stop_sent_at: float | None
    ended_at: float
    timed_out: str = ""
    port_retries: int = 0
    mapped_libraries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """The raw record of a trial: evidence and sightings, no judgement. Everything else is recomputed from it.

    `log_lines_before`: lines that an attached server's log held already when the trial began.
    """

    trial: str
    run: str
    cell: str
    index: int
    started: str
    ended: str
    argv: tuple[str, ...]
    env: dict[str, str]
    sighting: Sighting
    end: ProcessEnd | None
    exchange: Exchange | None
    core: CoreResult
    evidence: tuple[Evidence, ...]
    boot_id: str = ""
    load_average: float | None = None
    notes: tuple[str, ...] = field(default_factory=tuple)
    log_lines_before: int = 0
    more: tuple[Exchange, ...] = ()
    """The other requests of a trial that makes several, in their order; `exchange` is the first that failed, else the
    last."""
    unkept: int = 0
    """Requests between the first and the last whose answers were not kept, and their tokens: all were answered."""
    unkept_tokens: int = 0

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """All of them, in the order in which they were sent."""
        every = (*self.more, *((self.exchange,) if self.exchange else ()))
        return tuple(sorted(every, key=lambda e: e.sent_at))
