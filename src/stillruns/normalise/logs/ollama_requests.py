"""Which runner served which request of an Ollama server.

The access line of a request comes at its end and says neither the model nor what was asked. So: a runner that was
started within the request's time was started for it; without one, the request ran on what was loaded before, whatever
it asked. Where two requests were under way when a runner was started, or two models were loaded, nothing is decided.

A runner that was loaded before another of the same model is gone: the server replaces it. Otherwise it may still be
loaded until `loaded runners count=1` says that there is only one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stillruns.model.applied import Answer
from stillruns.model.backend import Backend
from stillruns.model.evidence import Ref, line_of
from stillruns.model.expression import Expression
from stillruns.model.layers import compare
from stillruns.model.server_log import LogRequest
from stillruns.normalise.logs import slog
from stillruns.normalise.logs.ollama_runner import Load

PATHS = (
    "/api/generate",
    "/api/chat",
    "/api/embed",
    "/api/embeddings",
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/v1/messages",
)
"""Requests that need a runner."""

RECENT = 16
"""So many runners are looked back at: a request that outlives more than these stays undecided."""

_PART = Expression(r"([\d.]{1,20})(h|ms|m|µs|us|ns|s)")
_UNIT = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "us": 1e-6, "ns": 1e-9}


def seconds(duration: str) -> float | None:
    """Go's duration (`1m2.5s`, `40.821µs`) in seconds."""
    total, end = 0.0, 0
    for part in _PART.finditer(duration):
        if part.start() != end:
            return None
        try:
            total += float(part[1]) * _UNIT[part[2]]
        except ValueError:
            return None
        end = part.end()
    return round(total, 9) if end and end == len(duration) else None


@dataclass
class ServedRequest:
    """One request. `begins` and `ends` are seconds of the host's clock, the widest that fit."""

    id: str
    ref: Ref
    line: int
    status: int
    path: str
    duration: float | None
    begins: float | None
    ends: float | None
    started: str
    ended: str
    own: list[Load] = field(default_factory=list)
    before: list[Load] = field(default_factory=list)
    cut: bool = False
    died: Ref | None = None
    timing: tuple[int | None, float | None, int | None, float | None] | None = None


def times(date: str, clock: str, duration: float | None) -> tuple[float | None, float | None, str, str]:
    """(not before, not after, start, end) of a request by its access line, whose clock shows whole seconds."""
    ended = f"{date.replace('/', '-')}T{clock}"
    end = slog.local_seconds(ended)
    if end is None:
        return None, None, "", ""
    if duration is None or duration > 1e9:
        return None, end, "", ended
    return end - duration, end + 1.0, _iso(end - duration), ended


def _iso(at: float) -> str:
    whole = int(at)
    days, rest = divmod(whole, 86400)
    year, month, day = _civil(days)
    return f"{year:04d}-{month:02d}-{day:02d}T{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"


def _civil(days: int) -> tuple[int, int, int]:
    """Days since 1970-01-01 as a date (H. Hinnant, chrono-compatible low-level date algorithms)."""
    shifted = days + 719468
    era = shifted // 146097
    of_era = shifted - era * 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    return (
        year + era * 400 + (1 if month >= 10 else 0),
        month + 3 if month < 10 else month - 9,
        of_year - (153 * month + 2) // 5 + 1,
    )


def assign(request: ServedRequest, loads: Sequence[Load], previous_line: int) -> None:
    """Find the runners that were started while the request ran, and those that were loaded when it began.

    `previous_line` is the line of the access line before it, which decides where the log has no times.
    """
    recent = loads[-RECENT:]
    request.cut = len(loads) > RECENT and request.begins is not None and _within(request, loads[-RECENT], 0)
    request.own = [load for load in recent if _within(request, load, previous_line)]
    for load in request.own:
        load.covered += 1
    earlier = [load for load in recent if load not in request.own and load.line < request.line]
    alive: dict[str | None, Load] = {}
    for load in earlier:
        if request.begins is not None and load.at is not None and load.at > request.begins:
            continue
        if load.alone:
            alive.clear()
        alive[load.model] = load
    request.before = [load for load in alive.values() if not _dead(load, request)]


def _within(request: ServedRequest, load: Load, previous_line: int) -> bool:
    if load.line > request.line:
        return False
    if request.begins is None or request.ends is None or load.at is None:
        return load.line > previous_line
    return request.begins <= load.at <= request.ends


def _dead(load: Load, request: ServedRequest) -> bool:
    """Whether its death is written before the request's first own line could be."""
    return load.died is not None and request.died != load.died


def noun(request: ServedRequest) -> LogRequest:
    """As the report wants it, with what can be said about what was applied."""
    own = [load for load in request.own if load.covered == 1]
    served = own[-1] if own else None
    reused = False
    if served is None and not request.own and len(request.before) == 1 and not _unserved(request):
        served, reused = request.before[0], True
    offloaded, total, where = served.applied() if served else (None, None, None)
    asked = served.requested if served and not reused else None
    status, why = _applied(request, served, reused)
    refs = [request.ref, *(served.refs() if served else ())]
    prompt_tokens, prompt_ms, tokens, ms = request.timing or (None, None, None, None)
    return LogRequest(
        id=request.id,
        first=served.started if served and not reused else request.ref,
        last=request.ref,
        started=request.started,
        ended=request.ended,
        status=request.status,
        seconds=request.duration,
        model=served.model if served else None,
        runner=served.id if served else None,
        context=served.context() if served else None,
        batch=served.number("batch") if served else None,
        flash_attention=(served.setting("flash_attention") or None) if served else None,
        prompt_tokens=prompt_tokens,
        tokens=tokens,
        prompt_rate=_rate(prompt_tokens, prompt_ms),
        rate=_rate(tokens, ms),
        requested_layers=asked,
        applied_layers=offloaded,
        total_layers=total,
        applied=status,
        why=why,
        reused=reused or (not request.own and not _unserved(request)),
        refs=tuple(sorted({*refs, *([where] if where else [])}, key=line_of)),
    )


def _rate(tokens: int | None, ms: float | None) -> float | None:
    return round(tokens / ms * 1000, 3) if tokens and ms else None


def _unserved(request: ServedRequest) -> bool:
    """An error that no runner needs to have seen: the request is not said to have run on what was loaded."""
    return request.status >= 400 and not request.own and request.died is None


def _applied(request: ServedRequest, served: Load | None, reused: bool) -> tuple[Answer, str]:
    if served is None:
        return Answer.UNKNOWN, _why_nobody(request)
    offloaded, total, where = served.applied()
    shown = f"{offloaded}/{total} layers" if offloaded is not None else "a number of layers that is not shown"
    if reused:
        return (
            Answer.UNKNOWN,
            f"no load of its own: it ran on the runner started at {served.started}, which has {shown}; what this "
            "request asked is not in the log, and a negative or absent num_gpu keeps whatever is loaded",
        )
    status, why = compare(served.requested, offloaded, total)
    if status is Answer.YES and offloaded and served.backends() == (Backend.CPU,):
        return Answer.NO, f"{why}, but every weight buffer lies on the CPU ({where})"
    if status is Answer.YES and offloaded == 0 and served.requested not in (0, None):
        return Answer.NO, f"asked {served.requested}, and no layer was offloaded: it ran on the CPU"
    return status, why


def _why_nobody(request: ServedRequest) -> str:
    if request.cut:
        return f"more than {RECENT} runners were started while it ran"
    if request.own:
        return "another request was under way when the runner was started: the log does not tell whose load it was"
    if _unserved(request):
        return f"answered {request.status} without a load of its own: whether a runner saw it is not in the log"
    if len(request.before) > 1:
        return f"{len(request.before)} models were loaded, and the access line does not name the one it asked"
    return "no load of its own, and the runner that served it was loaded before the log starts"
