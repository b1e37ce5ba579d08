"""An autopsy as text for a terminal: incidents first, then what was asked and applied, then the timeline."""

from __future__ import annotations

from stillruns.model.autopsy import Autopsy, Incident
from stillruns.model.hint import hint
from stillruns.model.server_log import Layers, LogRequest, Runner, ServerLog
from stillruns.report.columns import PLAIN, Page, cut, visible

MAX_REQUESTS = 40
MAX_SOURCES = 12
MAX_EVIDENCE = 8
MAX_FRAMES = 5
MAX_BACKENDS = 8
MAX_DEVICES = 16
MAX_RUNNERS = 20
MAX_EXCERPT = 160
"""Characters of a quoted line; a cut shows, and the log has the rest."""


_NONE = "No incident: no line of a death, an error or a fallback was found."
_ON_CPU = (
    "No incident: no line of a death or an error was found, but work was left to the CPU: see the fallback below."
)
_NO_LOG = (
    "No incident, and no line of a server that is known either: this says nothing about the GPU. Give the server's "
    "own log: journalctl -u ollama -b, docker logs NAME, or what llama-server printed; with journalctl -k beside it."
)


def _kernel_told(found: Autopsy) -> bool:
    return any(note.kind == "kernel" for note in found.warnings)


def text(found: Autopsy, page: Page = PLAIN) -> str:
    """The whole report; excerpts were made visible when they were read."""
    parts = [_sources(found, page)]
    parts += [_incident(number, incident, page) for number, incident in enumerate(found.incidents, 1)]
    if not found.incidents:
        nothing = _ON_CPU if any(n.kind == "fallback" for n in found.warnings) else _NONE
        known = found.servers or _kernel_told(found)
        parts.append("\n".join(page.line(nothing, "", "  ")) if known else _wrap(page, _NO_LOG, 2))
    parts += [_server(server, page) for server in found.servers]
    if found.warnings:
        shown = [f"  {n.kind}: {n.text}" + _refs(n.refs) for n in found.warnings[:30]]
        if len(found.warnings) > 30:
            shown.append(f"  and {len(found.warnings) - 30} more; --json has all")
        parts.append("\n".join(["Notes", *(_wrap(page, line, 4) for line in shown)]))
    whole = "\n\n".join(part for part in parts if part)
    return "\n".join(visible(line) for line in whole.split("\n")) + "\n"


def _sources(found: Autopsy, page: Page) -> str:
    """The inputs; of many, those that something below refers to."""
    shown, rest = found.sources, 0
    if len(shown) > MAX_SOURCES:
        told = _told(found)
        shown = tuple(s for s in shown if s.id in told or s.note)
        rest = len(found.sources) - len(shown)
    lines = [
        f"{s.id} {visible(s.path)}: {s.lines} lines, {s.bytes} bytes" + (f" ({s.note})" if s.note else "")
        for s in shown
    ]
    lines = [part for line in lines for part in page.line(line, "", "   ")]
    return "\n".join([*lines, *([f"{rest} more inputs show nothing of a server; --json lists them"] if rest else [])])


def _told(found: Autopsy) -> set[str]:
    """Ids of the inputs that servers, incidents and notes refer to."""
    refs = [span.first for server in found.servers for span in server.phases]
    for server in found.servers:
        refs += [d.ref for d in server.devices] + [b.ref for b in server.backends_loaded]
        refs += [r.started for r in server.runners] + [r.first for r in server.requests]
    refs += [excerpt.ref for incident in found.incidents for excerpt in incident.evidence]
    refs += [ref for note in found.warnings for ref in note.refs]
    return {ref.split(":", 1)[0] for ref in refs}


def _refs(refs: tuple[str, ...]) -> str:
    more = f" and {len(refs) - 3} more" if len(refs) > 3 else ""
    return f" [{', '.join(refs[:3])}{more}]" if refs else ""


def _wrap(page: Page, line: str, indent: int) -> str:
    return "\n".join(page.wrapped(line, later=" " * indent))


def _incident(number: int, incident: Incident, page: Page) -> str:
    outcome = incident.outcome.value if incident.outcome else "unknown"
    facts = [
        ("server", incident.server or "-"),
        ("request", incident.request or "-"),
        ("phase", incident.phase.value),
        ("backend", incident.backend.value),
        ("component", ", ".join(c.value for c in incident.components)),
        ("target", incident.target or "unknown"),
        ("layers", _layers(incident.requested_layers, incident.applied_layers, incident.total_layers)),
        ("signature", incident.signature or "-"),
    ]
    head = f"Incident {number}: {outcome}" + (f" ({incident.signal})" if incident.signal else "")
    time = f", {incident.time}" if incident.time else ""
    lines = page.line(f"{head}, confidence {incident.confidence.value}{time}")
    lines.append(_wrap(page, f"  {incident.explanation}", 2))
    if incident.next_step:
        lines.append(_wrap(page, f"  Next: {incident.next_step}", 4))
    if incident.frames:
        more = f", and {len(incident.frames) - MAX_FRAMES} more" if len(incident.frames) > MAX_FRAMES else ""
        facts.append(("frames", f"{', '.join(incident.frames[:MAX_FRAMES])}{more}"))
    if incident.workarounds:
        facts.append(("try", ", ".join(incident.workarounds)))
    if incident.known_issues:
        facts.append(("known as", ", ".join(incident.known_issues)))
    for name, value in facts:
        lines += page.line(value, f"  {name:<10} ", " " * 13) if value != "-" else []
        lines += [f"  {'':<10} what to do: {hint('workarounds', *incident.workarounds)}"] if name == "try" else []
    if incident.key_line:
        lines.append(f"  key line   {incident.key_line.ref}  {cut(incident.key_line.text, MAX_EXCERPT)}")
    for excerpt in incident.evidence[:MAX_EVIDENCE]:
        lines.append(f"    {excerpt.ref:<10} {cut(excerpt.text, MAX_EXCERPT)}")
    if len(incident.evidence) > MAX_EVIDENCE:
        lines.append(f"    and {len(incident.evidence) - MAX_EVIDENCE} more lines of evidence")
    for name, why in incident.why_unknown:
        lines.append(_wrap(page, f"  unknown: {name}: {why}", 4))
    return "\n".join(lines)


def _partly(runner: Runner) -> str:
    """`N/N` is not all on the device where layers did not fit."""
    return f" ({runner.overflowing} of them only partly on the device)" if runner.overflowing else ""


def _layers(asked: Layers, got: int | None, total: int | None) -> str:
    if asked is None and got is None:
        return "unknown"
    left = "asked unknown" if asked is None else f"asked {asked}"
    right = "applied unknown" if got is None else f"applied {got}" + (f"/{total}" if total is not None else "")
    return f"{left}, {right}"


def _server(server: ServerLog, page: Page) -> str:
    version = server.version.text or "unknown"
    how = f" (by {server.version.how})" if server.version.how and server.version.how != "line" else ""
    name = f" {server.name}" if server.name else ""
    program = f", {server.program}" if server.program else ""
    lines = [f"Server {server.id}{name}: {server.runtime.value}{program}, version {version}{how}"]
    for loaded in server.backends_loaded[:MAX_BACKENDS]:
        library = f" from {loaded.library}" if loaded.library else ""
        lines.append(f"  backend {loaded.backend.value}{library}  [{loaded.ref}]")
    for device in server.devices[:MAX_DEVICES]:
        driver = f", {device.driver}" if device.driver else ""
        target = f", {device.target}" if device.target else ""
        target += " (by its name)" if device.by_name else ""
        memory = f", {device.memory_mib:.0f} MiB" if device.memory_mib else ""
        memory += f", {device.free_mib:.0f} MiB free" if device.free_mib is not None else ""
        name = device.name or device.backend.value
        lines.append(f"  device {name}: {device.description}{target}{memory}{driver}  [{device.ref}]")
    for runner in server.runners[:MAX_RUNNERS]:
        on = ", ".join(b.value for b in runner.backends) or runner.backend.value
        engine = f"({runner.engine}) " if runner.engine else ""
        lines.append(
            f"  runner {runner.id} {engine}on {on}: "
            f"{_layers(runner.requested_layers, runner.applied_layers, runner.total_layers)}{_partly(runner)}"
            + "".join(f", {key} {value}" for key, value in runner.settings)
            + f"  [{runner.started}]"
        )
    shown = ((server.backends_loaded, MAX_BACKENDS), (server.devices, MAX_DEVICES), (server.runners, MAX_RUNNERS))
    lines += [f"  and {len(many) - most} more; --json has all" for many, most in shown if len(many) > most]
    lines = [part for line in lines for part in page.line(line, "", "    ")]
    if server.requests:
        lines += ["", _requests(server.requests, page)]
    if server.phases:
        spans = [f"{s.phase.value} {_span(s.first, s.last)}" for s in server.phases[-24:]]
        prefix = "  phases " + ("(last 24) " if len(server.phases) > 24 else "")
        lines += ["", _wrap(page, prefix + ", ".join(spans), 9)]
    return "\n".join(lines)


def _span(first: str, last: str) -> str:
    return first if first == last else f"{first}-{last.rpartition(':')[2]}"


def _requests(requests: tuple[LogRequest, ...], page: Page) -> str:
    head = (
        "request",
        "status",
        "seconds",
        "tokens",
        "t/s",
        "runner",
        "context",
        "batch",
        "flash",
        "asked",
        "applied",
    )
    rows = [(*head, "as asked?")]
    for request in requests[-MAX_REQUESTS:]:
        got = "?" if request.applied_layers is None else str(request.applied_layers)
        got += f"/{request.total_layers}" if request.total_layers is not None else ""
        rows.append(
            (
                request.id,
                str(request.status or "?"),
                f"{request.seconds:.2f}" if request.seconds is not None else "?",
                str(request.tokens) if request.tokens is not None else "?",
                f"{request.rate:.2f}" if request.rate is not None else "?",
                (request.runner or "?") + (" (re-used)" if request.reused else ""),
                str(request.context or "?"),
                str(request.batch or "?"),
                request.flash_attention or "?",
                "?" if request.requested_layers is None else str(request.requested_layers),
                got,
                request.applied.value
                + ("" if request.applied.value == "yes" or not request.why else f": {request.why}"),
            )
        )
    left = len(requests) - MAX_REQUESTS
    note = [f"  the last {MAX_REQUESTS} of {len(requests)} requests; --json has all"] if left > 0 else []
    return "\n".join([*page.table(rows, "  "), *note])
