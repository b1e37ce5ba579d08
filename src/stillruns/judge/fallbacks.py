"""A GPU that was there and did nothing: an incident without a crash (outcome `ok`, the request's condition void)."""

from __future__ import annotations

from stillruns.judge.incident_group import line_of
from stillruns.model.backend import Backend
from stillruns.model.phase import Phase
from stillruns.model.server_log import Ending, ServerLog

_LIBRARIES = (("rocm", Backend.ROCM), ("vulkan", Backend.VULKAN), ("cuda", Backend.CUDA))


def ending(server: ServerLog) -> tuple[Ending, Backend] | None:
    """(the line, the backend that was lost), where the log itself shows both that a GPU was looked for in vain and
    that only the CPU is left; None where nothing was asked of a GPU, or it cannot be told."""
    notes = [n for n in server.notes if n.kind == "fallback" and n.refs]
    if not notes or any(d.backend not in (Backend.CPU, Backend.UNKNOWN) for d in server.devices):
        return None
    texts = dict(server.texts)
    failed = [(ref, texts.get(ref, "")) for n in server.notes if n.kind == "discovery" for ref in n.refs]
    before = [pair for pair in failed if line_of(pair[0]) < line_of(notes[-1].refs[0])]
    if not before:
        return None
    ref, text = before[-1]
    named = {backend for word, backend in _LIBRARIES if word in text.split("error=")[0].lower()}
    lost = named.pop() if len(named) == 1 else Backend.UNKNOWN
    shown = notes[-1].refs[0]
    return (
        Ending("fallback", ref, text, phase=Phase.DISCOVER, refs=(shown,) if shown in texts else ()),
        lost,
    )
