"""An autopsy as the JSON document `stillruns.autopsy/1` (docs/schemas/autopsy.json)."""

from __future__ import annotations

from typing import Any

from stillruns.model.autopsy import Autopsy, Excerpt, Incident
from stillruns.model.server_log import LogRequest, Note, ServerLog
from stillruns.report.numbers import rounded


def document(found: Autopsy) -> dict[str, Any]:
    """The whole document; absent values are null, undecided ones `unknown`."""
    body: dict[str, Any] = {
        "schema": "stillruns.autopsy/1",
        "sources": [
            {"id": s.id, "path": s.path, "sha256": s.sha256 or None, "bytes": s.bytes, "lines": s.lines}
            for s in found.sources
        ],
        "servers": [_server(s) for s in found.servers],
        "timeline": [
            {"server": s.id, "phase": span.phase.value, "from": span.first, "to": span.last}
            for s in found.servers
            for span in s.phases
        ],
        "requests": [_request(s, r) for s in found.servers for r in s.requests],
        "incidents": [_incident(i) for i in found.incidents],
        "warnings": [_note(n) for n in found.warnings],
    }
    clean = rounded(body)
    assert isinstance(clean, dict)
    return clean


def _server(server: ServerLog) -> dict[str, Any]:
    return {
        "id": server.id,
        "name": server.name or None,
        "runtime": server.runtime.value,
        "program": server.program or None,
        "version": {
            "low": server.version.low,
            "high": server.version.high,
            "how": server.version.how or None,
        },
        "backends_loaded": [
            {"backend": b.backend.value, "library": b.library, "ref": b.ref} for b in server.backends_loaded
        ],
        "devices": [
            {
                "backend": d.backend.value,
                "name": d.name or None,
                "description": d.description or None,
                "target": d.target,
                "target_from": None if d.target is None else "card name" if d.by_name else "log",
                "memory_mib": d.memory_mib,
                "memory_free_mib": d.free_mib,
                "driver": d.driver or None,
                "ref": d.ref,
            }
            for d in server.devices
        ],
        "runners": [
            {
                "id": r.id,
                "engine": r.engine,
                "started": r.started,
                "model": r.model,
                "architecture": r.architecture,
                "requested_layers": r.requested_layers,
                "applied_layers": r.applied_layers,
                "total_layers": r.total_layers,
                "overflowing": r.overflowing,
                "backend": r.backend.value,
                "backends": [b.value for b in r.backends],
                "device": r.device,
                "settings": dict(r.settings),
            }
            for r in server.runners
        ],
        "lines": server.lines,
    }


def _request(server: ServerLog, request: LogRequest) -> dict[str, Any]:
    return {
        "id": request.id,
        "server": server.id,
        "started": request.started or None,
        "ended": request.ended or None,
        "status": request.status,
        "seconds": request.seconds,
        "model": request.model,
        "context": request.context,
        "batch": request.batch,
        "flash_attention": request.flash_attention,
        "prompt_tokens": request.prompt_tokens,
        "tokens": request.tokens,
        "prompt_tokens_per_second": request.prompt_rate,
        "tokens_per_second": request.rate,
        "runner": request.runner,
        "reused": request.reused,
        "requested_layers": request.requested_layers,
        "applied_layers": request.applied_layers,
        "total_layers": request.total_layers,
        "applied": request.applied.value,
        "why": request.why,
        "refs": list(request.refs or (request.first, request.last)),
    }


def _incident(incident: Incident) -> dict[str, Any]:
    return {
        "server": incident.server,
        "request": incident.request,
        "time": incident.time,
        "outcome": incident.outcome.value if incident.outcome else "unknown",
        "signal": incident.signal,
        "detail": incident.detail,
        "phase": incident.phase.value,
        "backend": incident.backend.value,
        "component": [c.value for c in incident.components],
        "target": incident.target,
        "device": incident.device,
        "requested_layers": incident.requested_layers,
        "applied_layers": incident.applied_layers,
        "total_layers": incident.total_layers,
        "signature": incident.signature,
        "frames": list(incident.frames),
        "key_line": _excerpt(incident.key_line) if incident.key_line else None,
        "evidence": [_excerpt(e) for e in incident.evidence],
        "confidence": incident.confidence.value,
        "explanation": incident.explanation,
        "next_step": incident.next_step,
        "pattern": incident.pattern,
        "known_issues": list(incident.known_issues),
        "workarounds": list(incident.workarounds),
        "unknown": dict(incident.why_unknown),
    }


def _excerpt(excerpt: Excerpt) -> dict[str, str]:
    return {"ref": excerpt.ref, "text": excerpt.text}


def _note(note: Note) -> dict[str, Any]:
    return {"kind": note.kind, "text": note.text, "refs": list(note.refs)}
