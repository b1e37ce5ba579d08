"""What to do next after a supervised command, in a sentence or two: the smallest step that narrows it down."""

from __future__ import annotations

from stillruns.model.once_result import OnceResult
from stillruns.model.outcome import OutcomeKind

_BACKTRACE = "get a backtrace with: gdb -batch -ex run -ex bt --args COMMAND"
_OTHERS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")


def next_step(result: OnceResult, advice: str) -> str:
    """The catalogue's advice for how it ended, else what tells the GPU from the rest; then what the verdict asks
    for. Empty where there is nothing to do."""
    ended = advice or _of_the_end(result)
    return ". ".join(step.rstrip(".") for step in (ended, _capital(result.next_step, bool(ended))) if step)


def _capital(step: str, second: bool) -> str:
    return f"{step[:1].upper()}{step[1:]}" if second else step


def _of_the_end(result: OnceResult) -> str:
    """For an end that no line explains."""
    kind, signal = result.outcome.kind, result.outcome.signal
    if kind in (OutcomeKind.OK, OutcomeKind.INTERRUPTED):
        return ""
    if signal == "SIGKILL":
        return "Read the kernel's log (journalctl -k) of that time: it says whether its out-of-memory killer did it"
    if signal in _OTHERS:
        return f"Find out who sent {signal}: a service manager, an out-of-memory daemon, a script"
    if kind is OutcomeKind.HANG:
        return "See where it waits with gdb -p while it hangs, and read the kernel's log (journalctl -k) of that time"
    if result.started:
        return 'Give stillruns the command that was started itself ("started as"): then its own end is seen'
    if not result.program:
        return ""
    if kind in (OutcomeKind.CRASH, OutcomeKind.ABORT):
        return f"{_without_the_gpu(result)}{_BACKTRACE}"
    if kind is OutcomeKind.WRONG_OUTPUT:
        return f"{_without_the_gpu(result)}compare the model file's digest with its source, and try another build"
    if result.outcome.detail.startswith("HTTP ") and "model" not in result.asked:
        return "Give the command a model (-m FILE): without one llama-server only passes requests on to others"
    return "Run it once more, since the last lines of a log can die with its server, and give the whole log"


def _without_the_gpu(result: OnceResult) -> str:
    """A crash on the CPU needs no run without the GPU."""
    backend = result.applied.factors.get("backend")
    if backend is not None and backend.got == "cpu":
        return "No GPU was in use; "
    return "Run it once more with --device none: if it ends the same way, the GPU is not at fault; then "
