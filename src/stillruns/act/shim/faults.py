"""What can be injected into a real llama-server, what is then really done, and how it has to be judged.

One entry a combination of phase and kind. `stillruns selftest`, the tests and the table in the docs all read FAULTS.
`ends` is how the process may end (builds differ: one aborts where the next exits in order), `http` the status of the
request where there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stillruns.act.shim import preloading
from stillruns.errors import EnvironmentLacks
from stillruns.model.outcome import OutcomeKind
from stillruns.model.phase import Phase
from stillruns.model.trial import TrialRecord

TERMINATED = "exit 0"
"""The server lived on and ended in order after our SIGTERM."""
EXIT_STATUS = 7
"""What the kind `exit` ends with."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One combination. `needs` is the device it is meaningful on: `any`, `vulkan`, `cuda` or `rocm`; where the same
    kind is done in another way on another device, each way is an entry, under one id.

    `does` says what really happens. `outcome` and `judged_phase` are what a judgement of the trial has to say,
    `signal` the signal it has to name. `ends` holds the ends of the process that are right: signal names, `exit N`;
    SIGKILL for a hang is ours. `http` is the status of the completion request, None where the connection broke or
    nothing could be asked. `orphans` is how many processes are left behind to be found. `also` is a second
    outcome that is right, where evidence may be lost with the process: llama.cpp logs from a thread of its own, so
    the last lines before a signal are not always written.
    """

    phase: Phase
    kind: str
    does: str
    outcome: OutcomeKind
    judged_phase: Phase
    ends: tuple[str, ...]
    http: int | None
    needs: str = "any"
    signal: str | None = None
    orphans: int = 0
    also: OutcomeKind | None = None

    @property
    def id(self) -> str:
        """`decode:segv`: the value of STILLRUNS_FAULT for its first arrival."""
        return f"{self.phase.value}:{self.kind}"

    def visible_phase(self, record: TrialRecord) -> Phase:
        """The phase that a judgement of this trial has to say: `judged_phase`, save where nothing can show it.

        A server sends its tokens from a thread of its own; one that dies in decode before that thread came to send
        any looks from outside like one that died in the prompt.
        """
        died = record.end is not None and record.end.stopped_by_us is None
        if self.judged_phase is Phase.DECODE and died and record.exchange and not record.exchange.tokens_seen:
            return Phase.PROMPT
        return self.judged_phase


PLACES: dict[Phase, str] = {
    Phase.INIT: "in llama_backend_init, before the first line of the log",
    Phase.LOAD: "at the first buffer for weights",
    Phase.RESERVE: "at the first reservation of compute buffers",
    Phase.WARMUP: "in the computation of the server's own trial run",
    Phase.PROMPT: "in the computation of the prompt's first batch",
    Phase.DECODE: "in the computation of the second token",
    Phase.TEARDOWN: "in llama_free, after SIGTERM",
}
"""Phase -> where in the server's life it strikes."""

ALIVE = (Phase.PROMPT, Phase.DECODE)
ANSWERED = (Phase.TEARDOWN,)
RUNNING = (Phase.WARMUP, *ALIVE)

_SUDDEN: dict[str, tuple[str, OutcomeKind, str, str | None]] = {
    "segv": ("writes to address 8", OutcomeKind.CRASH, "SIGSEGV", "SIGSEGV"),
    "abort": ("calls abort()", OutcomeKind.ABORT, "SIGABRT", "SIGABRT"),
    "kill": ("sends itself SIGKILL, as the kernel's OOM killer does", OutcomeKind.CRASH, "SIGKILL", "SIGKILL"),
    "exit": (f"calls _exit({EXIT_STATUS})", OutcomeKind.ERROR, f"exit {EXIT_STATUS}", None),
    "hang": ("sleeps for ever in that thread and ignores SIGTERM", OutcomeKind.HANG, "SIGKILL", None),
}
_HARMLESS: dict[str, tuple[str, int]] = {
    "flood": ("writes 200 MB to stderr and goes on", 0),
    "fork": ("leaves two grandchildren in sessions of their own, holding its stdout and stderr, and goes on", 2),
}
_OOM: dict[Phase, tuple[str, tuple[str, ...], int | None]] = {
    Phase.LOAD: (
        "refuses the memory for weights: vkAllocateMemory, cudaMalloc, posix_memalign or the mapped file as a buffer",
        ("exit 1",),
        None,
    ),
    # b10068 goes on without a context and dies in llama_context::n_ctx: the cause is still memory
    Phase.RESERVE: (
        "refuses the memory for compute buffers: vkAllocateMemory, cudaMalloc or posix_memalign",
        ("exit 1", "SIGSEGV"),
        None,
    ),
    Phase.WARMUP: (
        "the computation of the trial run says that memory could not be had; the server ignores it and becomes ready",
        (TERMINATED,),
        200,
    ),
    Phase.PROMPT: ("the graph of the prompt's batch gets no memory", (TERMINATED,), 500),
    Phase.DECODE: ("the graph of the second token gets no memory", (TERMINATED,), 500),
}
# b10434 loses the Vulkan device again while it tidies up, and aborts there; on CUDA and HIP the first wait aborts
_SUBMITTED: tuple[tuple[str, ...], int | None] = (TERMINATED, "SIGABRT"), 500
_ABORTED: tuple[tuple[str, ...], int | None] = ("SIGABRT",), None
_LOST: dict[str, tuple[str, dict[Phase, tuple[tuple[str, ...], int | None]]]] = {
    "vulkan": (
        "vkQueueSubmit says DEVICE_LOST",
        {Phase.WARMUP: _ABORTED, Phase.PROMPT: _SUBMITTED, Phase.DECODE: _SUBMITTED},
    ),
    "cuda": ("cudaStreamSynchronize says `unspecified launch failure`", dict.fromkeys(RUNNING, _ABORTED)),
    "rocm": ("hipStreamSynchronize says `unspecified launch failure`", dict.fromkeys(RUNNING, _ABORTED)),
}
_WRONG: dict[str, tuple[str, tuple[Phase, ...]]] = {
    "wrong": ("negates all logits from there on: fluent, and the opposite of what the model says", ALIVE),
    "nan": ("all logits are NaN from there on", ALIVE),
    "stuck": ("one token wins from there on", (Phase.PROMPT,)),
}


def _sudden(phase: Phase, kind: str) -> Fault:
    does, outcome, end, signal = _SUDDEN[kind]
    http = 200 if phase in ANSWERED else None
    # what ends before its first line leaves nothing that tells a phase
    judged = Phase.UNKNOWN if phase is Phase.INIT else phase
    return Fault(phase, kind, f"{does}, {PLACES[phase]}", outcome, judged, (end,), http, signal=signal)


def _harmless(phase: Phase, kind: str) -> Fault:
    does, orphans = _HARMLESS[kind]
    does = f"{does}, {PLACES[phase]}"
    return Fault(phase, kind, does, OutcomeKind.OK, phase, (TERMINATED,), 200, orphans=orphans)


FAULTS: tuple[Fault, ...] = (
    *(_sudden(phase, kind) for phase in PLACES for kind in _SUDDEN),
    *(_harmless(phase, kind) for phase in PLACES for kind in _HARMLESS),
    *(
        Fault(
            phase,
            "oom",
            does,
            OutcomeKind.OOM,
            phase,
            ends,
            http,
            also=OutcomeKind.CRASH if "SIGSEGV" in ends else None,
        )
        for phase, (does, ends, http) in _OOM.items()
    ),
    *(
        Fault(
            phase,
            "device_lost",
            f"{does} from then on, {PLACES[phase]}",
            OutcomeKind.DEVICE_LOST,
            phase,
            ends,
            http,
            needs=device,
        )
        for device, (does, phases) in _LOST.items()
        for phase, (ends, http) in phases.items()
    ),
    *(
        Fault(phase, kind, does, OutcomeKind.WRONG_OUTPUT, phase, (TERMINATED,), 200)
        for kind, (does, phases) in _WRONG.items()
        for phase in phases
    ),
)
"""Every combination that makes sense, in the order of the table in the docs. The judged phase of a fault that does
no harm (flood, fork) says nothing: the trial is ok. The judged phase of a wrong output is where it went wrong, which
only a comparison of tokens can tell."""


def environment(
    fault: str, shim: Path, *, log: Path | None = None, preload: str = "", device: bool = False
) -> dict[str, str]:
    """What the server's environment needs for `fault` (`decode:segv`, `decode:segv:5`, `symbol=NAME:KIND:N`).

    `shim` is what build.build returned (preloading.reachable gives a path that always fits), `preload` what
    LD_PRELOAD holds already, `log` where the library notes that it struck (never shown to whoever judges), `device`
    says that the memory to refuse is a device's. EnvironmentLacks when LD_PRELOAD cannot hold the path.
    """
    if not preloading.holds(shim):
        raise EnvironmentLacks(f"LD_PRELOAD cannot hold the path {shim}: use a folder without spaces and colons")
    env = {"LD_PRELOAD": f"{shim}:{preload}" if preload else str(shim), "STILLRUNS_FAULT": fault}
    if device:
        env["STILLRUNS_FAULT_MEMORY"] = "device"
    if log is not None:
        env["STILLRUNS_FAULT_LOG"] = str(log)
    return env
