"""Words that findings about a worklog share: counts, lists, spans, places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stillruns.model.evidence import Ref
from stillruns.model.worklog import StudyRequest

Places = tuple[tuple[str, Ref], ...]
"""(run folder, ref)."""


def asked(request: StudyRequest) -> str:
    """As the client wrote it: a negative number for auto."""
    value = request.record.asked
    return "-1" if value == "auto" else "none" if value is None else str(value)


def many(things: Sequence[object], what: str = "request") -> str:
    """`3 requests`."""
    return f"{len(things)} {what}{'' if len(things) == 1 else 's'}"


def runs(requests: Iterable[StudyRequest]) -> list[str]:
    """Their run folders, each once."""
    return list(dict.fromkeys(r.run for r in requests))


def listed(texts: Iterable[str]) -> str:
    """`a, b, c`."""
    return ", ".join(texts)


def span(values: Iterable[float]) -> str:
    """`2.6 to 9.8`, or the one value."""
    known = sorted(values)
    low, high = f"{known[0]:.3g}", f"{known[-1]:.3g}"
    return low if low == high else f"{low} to {high}"


def places(requests: Iterable[StudyRequest]) -> Places:
    """Their access lines."""
    return tuple((r.run, r.access_ref) for r in requests if r.access_ref)
