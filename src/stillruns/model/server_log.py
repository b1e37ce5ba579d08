"""One server's log, read: what every log grammar (`normalise/logs/<runtime>.py`) returns, whatever the runtime.

A *server* is one process that a person would name (`ollama serve`, `llama-server`, `vllm serve`); a *runner* is what
loads the model inside it: a child process under Ollama, the server itself elsewhere. A log grammar reports what the
lines say and where; which lines make one incident, and who may be at fault, is for `judge/incidents/incident.py`.
"""

from __future__ import annotations

import msgspec

from stillruns.model.applied import Answer
from stillruns.model.backend import Backend, Runtime
from stillruns.model.evidence import Ref
from stillruns.model.phase import Phase
from stillruns.model.server_facts import PhaseSpan, Trouble

Layers = int | str | None
"""A number of layers, `"all"`, `"auto"`, or None: the log does not say."""


class LogLine(msgspec.Struct, frozen=True):
    """One line of one server's stream, on its way to a grammar.

    `text` has no journal, container or colour prefix (runtime prefixes such as `0.00.027.699 I ` or `time=...` are
    left to the grammar), `number` counts lines of the file from 1, `at` is the time of the prefix in ISO 8601 (as
    much of it as is there) or empty. `torn` says that the line is not whole.
    """

    number: int
    text: str
    at: str = ""
    torn: bool = False


class VersionRange(msgspec.Struct, frozen=True):
    """The release, as far as the log tells: `low` to `high` inclusive, both None when nothing tells. `how` is one of
    `line` (it says so), `call sites` (slog's file:line pairs), or empty."""

    low: str | None = None
    high: str | None = None
    how: str = ""

    @property
    def text(self) -> str:
        """`0.17.4`, or the range that is left (`0.17.1 to 0.17.4`); empty where nothing tells."""
        return self.low or "" if self.low == self.high else f"{self.low} to {self.high}"


class LoadedBackend(msgspec.Struct, frozen=True):
    """A backend library that the process says it loaded."""

    backend: Backend
    library: str
    ref: Ref


class LogDevice(msgspec.Struct, frozen=True):
    """A device that the log lists. `name` is the runtime's (`Vulkan0`), `description` the card's, `target` as the
    compiler names it (`gfx900:xnack-`, `sm_61`) or None; `memory_mib` total and `free_mib` free in MiB when it was
    first listed, `driver` such as `radv` or the version that Ollama prints (`60342.13`). `by_name` says that no line
    prints the target and that it is the one of a card of this name."""

    backend: Backend
    name: str
    description: str
    target: str | None
    ref: Ref
    memory_mib: float | None = None
    driver: str = ""
    free_mib: float | None = None
    by_name: bool = False


class Runner(msgspec.Struct, frozen=True):
    """One load of a model. `engine` is `llama.cpp`, `ollama engine`, `llama runner` or `vllm`.

    `backend` and `device` are where its weights went by its own buffer and device lines (UNKNOWN/None when these do
    not say; CPU only when they say that nothing was offloaded); `backends` all of them where it was split. `settings`
    maps `context`, `batch`, `ubatch`,
    `flash_attention`, `threads` to the printed text.
    """

    id: str
    engine: str
    started: Ref
    model: str | None = None
    requested_layers: Layers = None
    applied_layers: int | None = None
    total_layers: int | None = None
    overflowing: int = 0
    backend: Backend = Backend.UNKNOWN
    backends: tuple[Backend, ...] = ()
    device: str | None = None
    target: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    ready: Ref | None = None
    refs: tuple[Ref, ...] = ()
    at: str = ""
    """When it was started, as printed (ISO 8601), or empty."""
    architecture: str | None = None
    """Of the model, as its file names it (`qwen35`), or None."""
    libraries: tuple[tuple[Backend, Ref], ...] = ()
    """The backend libraries that this very process says it loaded, with their lines; none for a runner that does
    not say."""
    layout: Ref | None = None
    """The line of its layout, where `applied_layers` rests on that alone and no line counts offloaded layers."""
    waited: float | None = None
    """Seconds from the first of several device probes after a runner's death to this start: the server waits for the
    dead one's memory. None where it did not, or the log has no times."""
    asked_flash_attention: str = ""
    """What was asked (`Auto`), where the setting is what came of it; else empty."""


class LogRequest(msgspec.Struct, frozen=True):
    """One request. `applied` says whether it ran under what it asked, `why` in one sentence. `reused` is True when no
    load of its own stands before it. `started` and `ended` are times (ISO 8601) or empty; `first` and `last` its
    lines. Rates are tokens per second of the server's own timings."""

    id: str
    first: Ref
    last: Ref
    started: str = ""
    ended: str = ""
    status: int | None = None
    seconds: float | None = None
    model: str | None = None
    runner: str | None = None
    context: int | None = None
    batch: int | None = None
    flash_attention: str | None = None
    prompt_tokens: int | None = None
    tokens: int | None = None
    prompt_rate: float | None = None
    rate: float | None = None
    requested_layers: Layers = None
    applied_layers: int | None = None
    total_layers: int | None = None
    applied: Answer = Answer.UNKNOWN
    why: str = ""
    reused: bool = False
    refs: tuple[Ref, ...] = ()


class Frame(msgspec.Struct, frozen=True):
    """One frame of a backtrace, innermost first: the demangled function without arguments, the module (file name of
    the library, or empty), and where it is written."""

    function: str
    module: str
    ref: Ref


class Ending(msgspec.Struct, frozen=True):
    """A line that says that a process (or a request) ended badly.

    `kind` is `signal`, `exit`, `terminate`, `assert`, `panic`, `exception`, `timeout`, `eof`, `http`,
    `oom` (killed for want of memory, as systemd says) or `cut` (the log ends in mid work). `signal` is a name such as
    `SIGSEGV`. `phase` is where the server was by the lines before (UNKNOWN when they do not tell); `phase_ref` the
    line that tells. `runner` and `request` are ids, or None. `secondary` marks what only follows from an earlier
    ending (a 500 after the runner's death).
    """

    kind: str
    ref: Ref
    text: str
    signal: str | None = None
    exit_status: int | None = None
    phase: Phase = Phase.UNKNOWN
    phase_ref: Ref | None = None
    runner: str | None = None
    request: str | None = None
    at: str = ""
    frames: tuple[Frame, ...] = ()
    pid: int | None = None
    secondary: bool = False
    refs: tuple[Ref, ...] = ()
    detail: str = ""
    """What else the lines say of it, in a few words: `batch 0 of 33 inputs`."""
    stamp: str = ""
    """The time that the journal or the container put before its line, as written; `at` is the server's own where it
    prints one."""


class Note(msgspec.Struct, frozen=True):
    """Something that a reader of the report should know: `kind` is a short word (`fallback`, `reused`, `hidden`,
    `misleading`, `kernel`, `cut`), `text` one sentence."""

    kind: str
    text: str
    refs: tuple[Ref, ...] = ()


class ServerLog(msgspec.Struct, frozen=True):
    """Everything that one server's lines say.

    `name` is how the log names it (`ollama[2203]`, a container, or empty). `lines` is how many lines it had,
    `texts` the excerpts (made visible) of every ref that the other fields name. `clean_end` is the line of an orderly
    exit, `last_phase` the phase of its last line (UNKNOWN when idle or not told). `pids` are process ids that belong
    to it (server and runners).
    """

    id: str
    name: str
    runtime: Runtime
    version: VersionRange = VersionRange()
    program: str = ""
    backends_loaded: tuple[LoadedBackend, ...] = ()
    devices: tuple[LogDevice, ...] = ()
    runners: tuple[Runner, ...] = ()
    requests: tuple[LogRequest, ...] = ()
    phases: tuple[PhaseSpan, ...] = ()
    last_phase: Phase = Phase.UNKNOWN
    troubles: tuple[Trouble, ...] = ()
    endings: tuple[Ending, ...] = ()
    clean_end: Ref | None = None
    notes: tuple[Note, ...] = ()
    pids: tuple[int, ...] = ()
    lines: int = 0
    texts: tuple[tuple[Ref, str], ...] = ()

    def runner(self, id: str | None) -> Runner | None:
        """Its runner of this id; None where the log shows none."""
        return next((runner for runner in self.runners if runner.id == id), None)
