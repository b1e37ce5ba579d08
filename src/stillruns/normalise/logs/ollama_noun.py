"""What was gathered of an Ollama server, as the noun that every grammar returns."""

from __future__ import annotations

import re

from msgspec.structs import replace

from stillruns.model.backend import Backend, Runtime
from stillruns.model.evidence import Ref, line_of
from stillruns.model.phase import Phase
from stillruns.model.server_facts import PhaseSpan
from stillruns.model.server_log import Ending, LogDevice, LogRequest, Note, Runner, ServerLog
from stillruns.normalise.logs import ollama_devices
from stillruns.normalise.logs.llama_cpp_state import NOTE_PIECE
from stillruns.normalise.logs.ollama_requests import noun
from stillruns.normalise.logs.ollama_runner import Load
from stillruns.normalise.logs.ollama_state import OllamaState

_PID = re.compile(r"\[(\d{1,10})\]$")


def server_log(state: OllamaState, id: str, name: str) -> ServerLog:
    """The state, closed."""
    state.deaths.finish()
    load = state.child
    if load is not None and not load.ready and not load.died and state.phases.spans and state.phases.current:
        span = state.phases.spans[-1]
        if load.headless and load.applied()[0] is not None:
            # it shows where the layers went, which is why it was pasted; one that stops before may show a hang
            state.note("excerpt", "begins and ends in mid load: a piece of a log, whose end says nothing", span.last)
        elif state.header_line == state.lines:
            state.note("excerpt", NOTE_PIECE, span.last)
        else:
            state.deaths.cut(span.last, state.texts.get(span.last, ""), load, state.at, span.phase)
    if state.estimate and not state.loads:
        # only the server's plan is in this log: what was asked is told all the same
        planned = state.add_load(state.estimate.ref, "llama runner")
        planned.ask(state.estimate.requested, state.estimate.ref)
    for load in state.loads:
        load.llama.close()
    devices = ollama_devices.devices(state)
    said = _discovered(state, devices)
    if any(note.kind == "contradiction" for note in said):
        for load in state.loads:
            load.plan = None  # whose plan it was is not told either
    if len(state.buses) == 1:
        for load in state.loads:
            load.settings["device_bus"] = next(iter(state.buses))
    kinds = {load.model: load.kind() for load in state.loads if load.model and load.kind()}
    runners = tuple(
        replace(load.noun(devices), architecture=load.kind() or kinds.get(load.model or "")) for load in state.loads
    )
    requests = tuple(noun(request) for request in state.requests)
    endings = tuple(death.noun() for death in state.deaths.all)
    left = {load.id: load for load in state.loads if load.left_on_cpu()}
    others = tuple(runner for runner in runners if runner.id not in left)
    notes = (*said, *_counts(state), *_reuse(requests))
    notes += (*_unplanned(tuple(left.values())), *_fallbacks(others))
    pid = _PID.search(name)
    log = ServerLog(
        id=id,
        name=name,
        runtime=Runtime.OLLAMA,
        version=state.versions.range(),
        program="ollama",
        backends_loaded=tuple(state.libraries),
        devices=devices,
        runners=runners,
        requests=requests,
        phases=_phases(state, endings),
        last_phase=state.phases.current or Phase.UNKNOWN,
        troubles=tuple(state.troubles),
        endings=endings,
        notes=notes,
        pids=(int(pid[1]),) if pid else (),
        lines=state.lines,
    )
    wanted = refs_of(log) | state.around
    shown = tuple((ref, text) for ref, text in state.texts.items() if ref in wanted)
    return replace(log, texts=shown)


def _phases(state: OllamaState, endings: tuple[Ending, ...]) -> tuple[PhaseSpan, ...]:
    """The spans that lines told, and where a stack shows a runner to have died."""
    told = list(state.phases.spans)
    for ending in endings:
        if ending.phase in (Phase.PROMPT, Phase.DECODE) and ending.phase_ref and not ending.secondary:
            told.append(PhaseSpan(ending.phase, ending.ref, ending.phase_ref))
    return tuple(sorted(told, key=lambda span: line_of(span.first)))


def _discovered(state: OllamaState, devices: tuple[LogDevice, ...]) -> list[Note]:
    """The notes so far. Where a GPU is listed too, a line that says that there is none proves nothing: it may be
    another server's, whose lines stand among these."""
    if all(device.backend in (Backend.CPU, Backend.UNKNOWN) for device in devices):
        return state.notes
    refs = tuple(ref for note in state.notes if note.kind == "fallback" for ref in note.refs)
    if not refs:
        return state.notes
    text = "one line says that discovery found no GPU, and a GPU is listed: these may be the lines of two servers"
    return [*(note for note in state.notes if note.kind != "fallback"), Note("contradiction", text, refs[:20])]


def _counts(state: OllamaState) -> tuple[Note, ...]:
    """What was left out, and what could not be decided."""
    notes = []
    for count, what in (
        (state.loads_dropped, "runners"),
        (state.requests_dropped, "requests"),
        (state.deaths.dropped, "endings"),
    ):
        if count:
            notes.append(Note("cut", f"{count} further {what} are left out"))
    if state.versions.contradicted and not state.versions.stated:
        notes.append(
            Note("version", "the call sites of its lines fit no single release: two versions, or a build of its own")
        )
    return tuple(notes)


def _reuse(requests: tuple[LogRequest, ...]) -> tuple[Note, ...]:
    """One note for all requests that ran on a runner loaded for another."""
    reused = [request for request in requests if request.reused and request.runner]
    if not reused:
        return ()
    return (
        Note(
            "reused",
            f"{len(reused)} request(s) loaded nothing and ran on a runner loaded before, whatever they asked",
            tuple(request.last for request in reused[:20]),
        ),
    )


def _unplanned(loads: tuple[Load, ...]) -> tuple[Note, ...]:
    """Runners that compute on the CPU although the server planned layers for a GPU: one note for each plan."""
    found: dict[str, list[Ref]] = {}
    for load in loads:
        shown = load.left_on_cpu()
        if load.plan is None or shown is None:
            continue
        of = f" of {load.plan.total}" if load.plan.total is not None else ""
        why = "is built for the CPU" if load.built is Backend.CPU else "loaded every weight into the host's memory"
        planned = f"{load.plan.layers}{of} layers for {load.plan.library or 'a GPU'}"
        text = f"the server planned {planned}, and the runner that it started {why}: it computes on the CPU"
        found.setdefault(text, []).extend((load.plan.ref, shown))
    return tuple(Note("fallback", text, tuple(refs[:20])) for text, refs in list(found.items())[:20])


def _fallbacks(runners: tuple[Runner, ...]) -> tuple[Note, ...]:
    """Runners that were asked for layers on a device and put none there."""
    fell = [
        r
        for r in runners
        if r.requested_layers not in (0, None)
        and r.applied_layers is not None
        and (r.applied_layers == 0 or r.backends == (Backend.CPU,))
    ]
    if not fell:
        return ()
    text = f"{len(fell)} runner(s) were asked for layers on a device and run on the CPU"
    return (Note("fallback", text, tuple(ref for r in fell[:20] for ref in r.refs[:3])),)


def refs_of(log: ServerLog) -> set[Ref]:
    """Every line that the report names."""
    wanted: set[Ref | None] = set()
    wanted.update(b.ref for b in log.backends_loaded)
    wanted.update(d.ref for d in log.devices)
    wanted.update(t.ref for t in log.troubles)
    for part in (log.runners, log.requests, log.endings, log.notes):
        for entry in part:
            wanted.update(_refs(entry))
    for span in log.phases:
        wanted.update((span.first, span.last))
    return {ref for ref in wanted if ref}


def _refs(entry: Runner | LogRequest | Ending | Note) -> tuple[Ref | None, ...]:
    if isinstance(entry, Runner):
        return (entry.started, entry.ready, *entry.refs)
    if isinstance(entry, LogRequest):
        return (entry.first, entry.last, *entry.refs)
    if isinstance(entry, Ending):
        return (entry.ref, entry.phase_ref, *entry.refs, *(frame.ref for frame in entry.frames))
    return entry.refs
