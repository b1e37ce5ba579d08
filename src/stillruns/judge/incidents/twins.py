"""One incident that several inputs show: the same process, moment and end in two excerpts of a journal."""

from __future__ import annotations

from stillruns.judge.incidents.clocks import apart
from stillruns.model.autopsy import Incident
from stillruns.model.server_log import Note, ServerLog

_RANK = {"high": 0, "medium": 1, "low": 2}
_SECONDS = 2.0


def once_each(incidents: list[Incident], servers: tuple[ServerLog, ...]) -> tuple[list[Incident], list[Note]]:
    """(the incidents without the poorer twins, a note for each that was left out).

    Twins come from different inputs, name the same process (`ollama[1416]`), the same deciding line and the same
    moment. Of two, the one whose input tells more is kept.
    """
    by_id = {server.id: server for server in servers}
    kept: list[Incident] = []
    notes: list[Note] = []
    for incident in incidents:
        server = by_id.get(incident.server or "")
        twin = next((k for k in kept if _same(k, incident, server, by_id.get(k.server or ""))), None)
        if twin is None or server is None:
            kept.append(incident)
            continue
        poorer = incident if _worth(twin) <= _worth(incident) else twin
        if poorer is twin:
            kept[kept.index(twin)] = incident
        text = f"{server.name} ended once at {incident.time}: two inputs show it, and the one that tells more counts"
        notes.append(Note("twin", text, (poorer.key_line.ref,) if poorer.key_line else ()))
    return kept, notes


def _same(one: Incident, other: Incident, server: ServerLog | None, before: ServerLog | None) -> bool:
    if server is None or before is None or "[" not in server.name or server.name != before.name:
        return False
    if one.key_line is None or other.key_line is None or one.key_line.text != other.key_line.text:
        return False
    if _source(one) == _source(other):
        return False
    seconds = apart(_stamp(before, one), _stamp(server, other))
    return seconds is not None and seconds <= _SECONDS


def _stamp(server: ServerLog, incident: Incident) -> str:
    """The journal's own time of the deciding line, else what the server printed."""
    ref = incident.key_line.ref if incident.key_line else ""
    return next((e.stamp for e in server.endings if e.ref == ref and e.stamp), incident.time or "")


def _source(incident: Incident) -> str:
    return incident.key_line.ref.split(":", 1)[0] if incident.key_line else ""


def _worth(incident: Incident) -> tuple[int, int]:
    """Smaller is better: confidence, then how much is unknown."""
    return _RANK[incident.confidence.value], len(incident.why_unknown)
