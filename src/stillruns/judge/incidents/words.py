"""What happened, and what to try next, in two or three plain sentences."""

from __future__ import annotations

from stillruns.model.backend import Backend
from stillruns.model.outcome import OutcomeKind
from stillruns.model.pattern import CrashPattern
from stillruns.model.phase import Phase
from stillruns.model.server_log import LogDevice, Runner, ServerLog

_VERBS = {
    OutcomeKind.OOM: "ran out of memory",
    OutcomeKind.DEVICE_LOST: "lost its device",
    OutcomeKind.HANG: "hung",
    OutcomeKind.CRASH: "crashed",
    OutcomeKind.ABORT: "aborted",
    OutcomeKind.ERROR: "failed",
    OutcomeKind.WRONG_OUTPUT: "answered with nonsense",
    OutcomeKind.NOT_READY: "never became ready",
}
_PHASES = {
    Phase.DISCOVER: "while it looked for devices",
    Phase.INIT: "while it started",
    Phase.LOAD: "while it loaded the model",
    Phase.RESERVE: "while it reserved its buffers",
    Phase.WARMUP: "in the warm-up run",
    Phase.PROMPT: "while it worked on the prompt",
    Phase.DECODE: "while it generated",
    Phase.TEARDOWN: "while it shut down",
}
_ELSEWHERE = "Repeat it once with the CPU only and once with another backend: that tells the model from the path."
_KERNEL = "Read the kernel's log (journalctl -k) of the same minute"
_NO_GPU = "Run stillruns check: it says which layer of the stack stops the GPU; OLLAMA_DEBUG=1 shows more of a probe."
_NEXT = {
    OutcomeKind.OK: _NO_GPU,
    OutcomeKind.CRASH: _ELSEWHERE,
    OutcomeKind.ABORT: _ELSEWHERE,
    OutcomeKind.OOM: "Offload fewer layers or use a smaller context, and see whether it loads then.",
    OutcomeKind.DEVICE_LOST: f"{_KERNEL} for a ring timeout or a page fault.",
    OutcomeKind.HANG: f"{_KERNEL}, and see where it waits with gdb -p.",
    OutcomeKind.WRONG_OUTPUT: "Compare with the CPU's answer at temperature 0; with several GPUs, try one.",
}
_EXPLAINS = 60
_NO_CAUSE = "No line of this log says why."
_KILLED = (
    "The kernel's out-of-memory killer ended it: the machine's memory or its container's limit was used up, not the "
    "GPU's.",
    "Free memory or add swap, or take a smaller model or context; a layer on the GPU needs less of the machine's.",
)


def said(pattern: CrashPattern | None, killed: bool, traced: bool, target: str | None) -> tuple[str, str]:
    """(why, what to try) that the cause tells: the kernel's kill, else the deciding pattern; empty for none."""
    if killed:
        return _KILLED
    if pattern is None:
        return "", ""
    if traced and pattern.rank < _EXPLAINS:
        return pattern.explanation, ""  # it asks for the backtrace that is there
    return pattern.explanation, pattern.advice(target)


def explain(
    server: ServerLog,
    outcome: OutcomeKind | None,
    signal: str | None,
    phase: Phase,
    on: Backend,
    device: LogDevice | None,
    target: str | None,
    runner: Runner | None,
    why: str,
    remark: str,
) -> str:
    """The sentences. They repeat only what the incident's fields say."""
    who = server.program or "The program"
    if server.runtime.value == "ollama":
        who = "Ollama" if phase is Phase.INIT and runner is None else "A runner of Ollama"
    if outcome is None:
        where = _PHASES.get(phase, "")
        if phase is Phase.DISCOVER:
            return "A probe of the GPUs failed, and the log ends before it shows what was used then: often the CPU."
        return f"The log ends {where}: it cannot tell a hang or a death from a log that was cut there.".replace(
            "  ", " "
        )
    if outcome is OutcomeKind.OK:
        return _fell_back(server, on, why)
    sentence = f"{who} {_VERBS.get(outcome, 'ended')}"
    sentence += f" with {signal}" if signal else ""
    sentence += f" {_PHASES[phase]}" if phase in _PHASES else ""
    if on is not Backend.UNKNOWN:
        card = ", ".join(x for x in (device.description if device else "", target or "") if x)
        sentence += f", on {on.value}" + (f" ({card})" if card else "")
    layers = _layers(runner)
    sentence += f", {layers}" if layers else ""
    parts = [sentence + "."]
    parts.append(why or _NO_CAUSE)
    if phase is Phase.UNKNOWN:
        parts.append("In which phase, the log does not tell.")
    if remark:
        parts.append(remark[0].upper() + remark[1:] + ".")
    return " ".join(parts)


def _fell_back(server: ServerLog, on: Backend, why: str) -> str:
    """A GPU that was looked for in vain; the server lives."""
    who = "Ollama" if server.runtime.value == "ollama" else (server.program or "The program")
    lost = f" The GPU was looked for through {on.value}." if on not in (Backend.UNKNOWN, Backend.CPU) else ""
    return f"{who} went on, on the CPU: no GPU is used.{lost} {why or _NO_CAUSE}"


def _layers(runner: Runner | None) -> str:
    if runner is None or runner.applied_layers is None:
        return ""
    total = f" of {runner.total_layers}" if runner.total_layers is not None else ""
    return f"with {runner.applied_layers}{total} layers offloaded"


def next_step(outcome: OutcomeKind | None, advice: str, on_cpu: bool) -> str:
    """The cause's advice, else what narrows it down; `on_cpu` says that the server fell back to the CPU."""
    if advice:
        return advice
    if outcome is None and on_cpu:
        return f"It was on the CPU by then. {_NO_GPU}"
    if outcome is None:
        return "Give the whole log, to its end, and the kernel's log of the same time."
    return _NEXT.get(outcome, "Give a log with more detail (llama-server: -lv 4; Ollama: OLLAMA_DEBUG=1).")
