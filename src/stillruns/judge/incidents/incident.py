"""Servers' logs and the kernel's -> incidents: one for each thing that went wrong.

The cause comes before the manner: a line that says out of memory, device lost or hang beats the signal that it led
to. Every field is taken from lines that tell it; a field that none tells is unknown, and `why_unknown` says why.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from stillruns.judge.incidents import fallbacks, fields, known_faults, twins, words
from stillruns.judge.incidents.group import MINOR, Group, LineIndex, groups, runner_of
from stillruns.judge.incidents.kernel_alone import kernel_backend, kernel_only, remarks
from stillruns.judge.incidents.kernel_lines import leftover, of_group
from stillruns.judge.incidents.signature import signature, telling
from stillruns.judge.incidents.stack_phase import first_computation
from stillruns.judge.incidents.stack_phase import phase as stack_phase
from stillruns.model.autopsy import Confidence, Excerpt, Incident
from stillruns.model.backend import Backend
from stillruns.model.card_name import CardName
from stillruns.model.component import Component
from stillruns.model.evidence import line_of
from stillruns.model.kernel_log import KernelEvent, KernelEventKind
from stillruns.model.outcome import OutcomeKind
from stillruns.model.pattern import CrashPattern
from stillruns.model.phase import Phase
from stillruns.model.server_facts import Trouble
from stillruns.model.server_log import Ending, LogDevice, Note, Runner, ServerLog
from stillruns.model.workaround import KnownIssue, Workaround

_CAUSES = (OutcomeKind.OOM, OutcomeKind.DEVICE_LOST, OutcomeKind.HANG)
_CAUSE_RANK = 70
_KEY_RANK = 60
_MAX_EVIDENCE = 12
_GIVES_UP = ("0xc0000409", "0xe06d7363")
"""How abort() and a C++ exception that nothing catches end a process on Windows."""
_GIVEN_UP = (OutcomeKind.ABORT, OutcomeKind.ERROR)
_SAID_RANK = 40
_STARTING = (Phase.DISCOVER, Phase.INIT)
_COMPUTING = (
    *("gpu-illegal-access", "gpu-launch-failure", "gpu-capture", "gpu-cublas", "gpu-op-failed"),
    *("gpu-2023-oom", "gpu-2023-no-code", "gpu-2023-error"),
)
"""Patterns of lines that only a computation prints: where the last line that told a phase is of the start, lines are
missing in between."""


class Knowledge(msgspec.Struct, frozen=True):
    """What the catalogue knows, by id where it is looked up."""

    patterns: Mapping[str, CrashPattern]
    workarounds: Mapping[str, Workaround]
    issues: tuple[KnownIssue, ...]
    cards: tuple[CardName, ...]


def judge(
    servers: tuple[ServerLog, ...], events: tuple[KernelEvent, ...], known: Knowledge
) -> tuple[tuple[Incident, ...], tuple[Note, ...]]:
    """(incidents in the order of servers and lines, notes on troubles that a server survived)."""
    incidents: list[Incident] = []
    notes: list[Note] = []
    used: set[str] = set()
    alone = len(servers) <= 1
    for server in servers:
        found, survived = groups(server, known.patterns)
        found, survived = fallbacks.quiet(server, found, survived)
        index = LineIndex(server)
        for group in found:
            source = _source(group)
            kernel = of_group(group, server, events, source, alone)
            used |= {event.ref for event in kernel}
            found_one = _incident(server, group, kernel, known, index)
            incidents.append(known_faults.named(found_one, server, group, known.issues))
        notes += [_survived(server, group, known) for group in survived]
    incidents, seen_twice = twins.once_each(incidents, servers)
    notes += seen_twice
    for run in leftover(events, used, not servers):
        incidents.append(kernel_only(run))
    notes += remarks(events)
    return tuple(incidents), tuple(notes)


def _source(group: Group) -> str:
    sign = group.endings[0].ref if group.endings else group.troubles[0].ref
    return sign.split(":", 1)[0]


def _survived(server: ServerLog, group: Group, known: Knowledge) -> Note:
    refs = (*(t.ref for t in group.troubles), *(e.ref for e in group.endings))
    pattern = known.patterns.get(group.troubles[0].pattern) if group.troubles else None
    said = pattern.explanation if pattern else "it was stopped"
    if pattern and fallbacks.only_ignored(group):
        advice = pattern.advice(_named_target(pattern, group))
        return Note("device", f"{server.id}: {said} {advice}", refs[:5])
    if not group.endings and max(t.rank for t in group.troubles) < MINOR:
        return Note("weak", f"{server.id}: {len(refs)} line(s) that alone prove no failure: {said}", refs[:5])
    return Note("survived", f"{server.id} went on after {len(refs)} line(s) of trouble: {said}", refs[:5])


def _incident(
    server: ServerLog, group: Group, kernel: tuple[KernelEvent, ...], known: Knowledge, index: LineIndex
) -> Incident:
    runner, request = runner_of(server, group), index.request(group)
    top = _top(group, known.patterns)
    pattern = known.patterns.get(top.pattern) if top else None
    signal = _signal(group, kernel)
    outcome, manner = _outcome(group, top, signal, kernel)
    phase = _phase(group, top, outcome, known.patterns)
    if phase is Phase.UNKNOWN and top is not None and first_computation(server, runner, top.pattern, group):
        phase = Phase.PROMPT
    frames = next((telling(e.frames) for e in group.endings if e.frames), ())
    on = fields.backend(server, runner, group, frames, index)
    on = group.lost if group.lost is not Backend.UNKNOWN else kernel_backend(on, kernel)
    if outcome is OutcomeKind.OK and on is Backend.UNKNOWN:
        on = Backend.CPU  # the server says so itself
    device = fields.device(server, runner, on, top.device if top else None)
    target, remark = fields.target(device, server, known.cards)
    named = _named_target(pattern, group)
    if named and device is not None and _another(device, target, named):
        device, remark = None, ""
    target = named or target
    parts = fields.components(pattern, outcome, frames, on, kernel, device.driver if device else "")
    parts = fields.context(parts, server, outcome, pattern, signal)
    key = _key(group, top, kernel)
    sign = signature(signal or _implied(group), frames, key.text if key else "")
    killed = outcome is OutcomeKind.OOM and any(e.kind is KernelEventKind.OOM_KILL for e in kernel)
    why, advice = words.said(pattern if top and top.rank >= 40 else None, killed, bool(frames), target)
    explanation = words.explain(server, outcome, signal, phase, on, device, target, runner, why, remark)
    found = Incident(
        server=server.id,
        request=request.id if request else None,
        time=next((at for at in (*(e.at for e in group.endings), *(t.at for t in group.troubles)) if at), None),
        outcome=outcome,
        signal=signal,
        detail=manner,
        phase=phase,
        backend=on,
        components=parts,
        target=target,
        device=_device_name(device, runner),
        requested_layers=runner.requested_layers if runner else None,
        applied_layers=runner.applied_layers if runner else None,
        total_layers=runner.total_layers if runner else None,
        signature=sign,
        frames=tuple(f.function if f.function not in ("", "??", "n/a") else f.module for f in frames),
        key_line=key,
        evidence=_evidence(group, kernel, runner, index.shown),
        confidence=_confidence(outcome, phase, on, pattern, signal, group),
        explanation=explanation,
        next_step=words.next_step(outcome, advice, fallbacks.on_cpu(server, runner)),
        pattern=top.pattern if top else None,
        workarounds=_workarounds(pattern, target, on, server, known.workarounds),
    )
    return replace(found, why_unknown=_why(server, group, found))


def _top(group: Group, patterns: Mapping[str, CrashPattern]) -> Trouble | None:
    """The most telling line of trouble; of equals, the first."""
    return max(group.troubles, key=lambda t: (t.rank, -line_of(t.ref)), default=None)


def _named_target(pattern: CrashPattern | None, group: Group) -> str | None:
    """The target that the deciding lines themselves name (`GPU arch : gfx906`); None where they name several."""
    if pattern is None or "(?P<target>" not in pattern.regex:
        return None
    found = (re.search(pattern.regex, trouble.text) for trouble in group.troubles if trouble.pattern == pattern.id)
    targets = {each["target"] for each in found if each}
    return targets.pop() if len(targets) == 1 else None


def _another(device: LogDevice, target: str | None, named: str) -> bool:
    """Whether the line names another card than this device: neither as it prints itself nor by its card's name."""
    known = [each.partition(":")[0] for each in (device.target, target) if each]
    return bool(known) and named not in known


def _signal(group: Group, kernel: tuple[KernelEvent, ...]) -> str | None:
    for ending in group.deaths:
        if ending.signal and ending.kind in ("signal", "exit", "oom"):
            return ending.signal
    for event in kernel:
        if event.kind is KernelEventKind.SEGFAULT:
            return "SIGSEGV"
        if event.kind is KernelEventKind.OOM_KILL:
            return "SIGKILL"
        if event.kind is KernelEventKind.TRAP:
            return "SIGILL" if "invalid opcode" in event.what else "SIGFPE" if "divide" in event.what else None
    return None


def _implied(group: Group) -> str | None:
    """For the signature only: an assert and a terminate are aborts whether or not a shell said so."""
    return "SIGABRT" if any(e.kind in ("assert", "terminate") for e in group.endings) else None


def _outcome(
    group: Group, top: Trouble | None, signal: str | None, kernel: tuple[KernelEvent, ...]
) -> tuple[OutcomeKind | None, str]:
    """(outcome, the manner in one line)."""
    kinds = {e.kind for e in group.deaths}
    manner = "; ".join(dict.fromkeys(_manner(e) for e in group.deaths))[:300]
    killed = any(e.kind is KernelEventKind.OOM_KILL for e in kernel) or "oom" in kinds
    if killed and signal in (None, "SIGKILL"):
        return OutcomeKind.OOM, manner or "killed by the kernel for want of memory"
    causes = [t for t in group.troubles if t.outcome in _CAUSES and t.rank >= _CAUSE_RANK]
    if causes and (top is None or top.outcome in _CAUSES or top.rank - causes[0].rank < 25):
        best = max(causes, key=lambda t: (t.rank, -line_of(t.ref)))
        if top is None or top.outcome in _CAUSES or best.outcome is not OutcomeKind.OOM or top.rank < 85:
            return best.outcome, manner or best.outcome.value.replace("_", " ")
    if signal is None and ("fallback" in kinds or (not kinds and fallbacks.only_ignored(group))):
        return OutcomeKind.OK, "silent CPU fallback: no GPU did any of the work"
    if signal in _GIVES_UP and top is not None and top.outcome in _GIVEN_UP and top.rank >= _SAID_RANK:
        return OutcomeKind.ABORT, manner  # the program said why it gave up, and abort() ends this way on Windows
    if signal is not None and signal != "SIGABRT":
        return OutcomeKind.CRASH, manner or f"crash:{signal}"
    if signal == "SIGABRT" or kinds & {"assert", "terminate", "panic"}:
        return OutcomeKind.ABORT, manner
    if "timeout" in kinds:
        return OutcomeKind.HANG, manner
    if "garbage" in kinds:
        return OutcomeKind.WRONG_OUTPUT, "one character over and over"
    if top is not None:
        return top.outcome, manner or top.outcome.value
    if kinds & {"exception", "exit", "eof", "http"}:
        return OutcomeKind.ERROR, manner
    return None, "a probe of the GPUs failed" if _probe(group) else "the log ends in mid work"


def _probe(group: Group) -> bool:
    return any(e.kind == "probe" for e in group.endings)


def _manner(ending: Ending) -> str:
    if ending.signal:
        return f"{'crash' if ending.signal != 'SIGABRT' else 'abort'}:{ending.signal}"
    if ending.exit_status is not None:
        return f"exit status {ending.exit_status}"
    return {"terminate": "terminate", "assert": "GGML_ASSERT or abort", "http": "HTTP error"}.get(
        ending.kind, ending.kind
    )


def _phase(
    group: Group, top: Trouble | None, outcome: OutcomeKind | None, patterns: Mapping[str, CrashPattern]
) -> Phase:
    """The phase that a deciding line has by itself, else that of the deciding line's place, else of the death's."""
    for trouble in sorted(group.troubles, key=lambda t: -t.rank):
        pattern = patterns.get(trouble.pattern)
        own = pattern.phase if pattern else None
        if own is not None and (trouble is top or trouble.outcome is outcome):
            return own
    places = [top.phase] if top is not None and top.rank >= _KEY_RANK else []
    places += [e.phase for e in group.deaths] + [t.phase for t in group.troubles] + [e.phase for e in group.endings]
    if any(t.pattern in _COMPUTING for t in group.troubles):
        places = [p for p in places if p not in _STARTING]
    places += [stack_phase(e.frames) for e in group.deaths]
    return next((p for p in places if p is not Phase.UNKNOWN), Phase.UNKNOWN)


def _device_name(device: LogDevice | None, runner: Runner | None) -> str | None:
    if device is not None:
        return device.name or device.description or None
    return runner.device if runner else None


def _key(group: Group, top: Trouble | None, kernel: tuple[KernelEvent, ...]) -> Excerpt | None:
    """The single most telling line: the pattern's, a signal's, the kernel's, then whatever ended it."""
    if top is not None and top.rank >= _KEY_RANK:
        return Excerpt(top.ref, top.text)
    killed = [k for k in kernel if k.kind is KernelEventKind.OOM_KILL]
    signals = [e for e in group.deaths if e.kind in ("signal", "assert", "terminate")]
    if signals and not (killed and signals[0].signal == "SIGKILL"):
        return Excerpt(signals[0].ref, signals[0].text)
    deaths = [
        k for k in kernel if k.kind in (KernelEventKind.SEGFAULT, KernelEventKind.TRAP, KernelEventKind.OOM_KILL)
    ]
    if deaths:
        return Excerpt(deaths[0].ref, deaths[0].text)
    if top is not None:
        return Excerpt(top.ref, top.text)
    if group.endings:
        return Excerpt(group.endings[0].ref, group.endings[0].text)
    return None


def _evidence(
    group: Group, kernel: tuple[KernelEvent, ...], runner: Runner | None, texts: Mapping[str, str]
) -> tuple[Excerpt, ...]:
    found: dict[str, str] = {}
    for ref in runner.refs if runner else ():
        if ref in texts:
            found[ref] = texts[ref]
    for ending in group.endings:
        for named in (ending.phase_ref, *ending.refs):
            if named and named in texts:
                found[named] = texts[named]
        found[ending.ref] = ending.text
    for trouble in group.troubles[:_MAX_EVIDENCE]:
        found[trouble.ref] = trouble.text
    for event in kernel[:6]:
        found[event.ref] = event.text
    ordered = sorted(found.items(), key=lambda item: (item[0].split(":")[0], line_of(item[0])))
    if len(ordered) > _MAX_EVIDENCE * 2:
        ordered = [*ordered[:_MAX_EVIDENCE], *ordered[-_MAX_EVIDENCE:]]
    return tuple(Excerpt(ref, text) for ref, text in ordered)


def _confidence(
    outcome: OutcomeKind | None,
    phase: Phase,
    on: Backend,
    pattern: CrashPattern | None,
    signal: str | None,
    group: Group,
) -> Confidence:
    """`high` only where outcome, phase and backend are all told and no composed pattern decided."""
    if outcome is None:
        return Confidence.LOW
    told = (phase is not Phase.UNKNOWN) + (on is not Backend.UNKNOWN)
    real = signal is not None if pattern is None or pattern.rank < _KEY_RANK else pattern.origin == "real"
    if told == 2 and real and all(e.kind != "garbage" for e in group.endings):
        return Confidence.HIGH
    return Confidence.MEDIUM if told else Confidence.LOW


def _workarounds(
    pattern: CrashPattern | None,
    target: str | None,
    on: Backend,
    server: ServerLog,
    known: Mapping[str, Workaround],
) -> tuple[str, ...]:
    """The pattern's, without those that are for other targets, backends or runtimes."""
    found = []
    for name in pattern.workarounds if pattern else ():
        entry = known.get(name)
        if entry is None:
            continue
        fits = target is None or entry.fits(target)
        fits = fits and (not entry.backends or on is Backend.UNKNOWN or on.value in entry.backends)
        fits = fits and (not entry.runtimes or server.runtime.value in (*entry.runtimes, "unknown"))
        if fits:
            found.append(name)
    return tuple(found)


def _why(server: ServerLog, group: Group, incident: Incident) -> tuple[tuple[str, str], ...]:
    """Field name -> why the log does not decide it."""
    found: list[tuple[str, str]] = []
    if incident.outcome is None:
        mid = "the log ends in mid work: a hang, a death and a cut log look alike"
        found.append(("outcome", "no line shows what was used after the probe failed" if _probe(group) else mid))
    if incident.phase is Phase.UNKNOWN:
        told = (
            "no line before it tells a phase"
            if not server.phases
            else "the lines before it do not tell how far it was"
        )
        found.append(("phase", told))
    if incident.backend is Backend.UNKNOWN:
        several = len({d.backend for d in server.devices if d.backend is not Backend.CPU}) > 1
        found.append(
            (
                "backend",
                "several backends are loaded and no line names one"
                if several
                else "no device, buffer or library line names a backend",
            )
        )
    if incident.target is None:
        found.append(("target", "no line prints an architecture, and no card name that is known"))
    if incident.components == (Component.UNKNOWN,):
        found.append(("component", "no pattern and no frame points at a part"))
    if incident.applied_layers is None:
        hidden = any(n.kind == "hidden" for n in server.notes)
        found.append(("layers", "hidden at this verbosity" if hidden else "no layer line stands in this log"))
    return tuple(found)
