"""A GPU that was there and did nothing: an incident without a crash (outcome `ok`, the request's condition void)."""

from __future__ import annotations

from stillruns.judge.incident_group import line_of
from stillruns.model.backend import Backend
from stillruns.model.phase import Phase
from stillruns.model.server_log import Ending, ServerLog


def unfinished(server: ServerLog) -> tuple[Ending, Backend] | None:
    """(the line, the backend that was looked for): a probe of the GPUs that failed, in a log that shows nothing of
    what was used then; None where a device is listed, a runner was started or the failure only follows a death."""
    failed = [ref for note in server.notes if note.kind == "discovery" for ref in note.refs]
    if not failed or server.runners or server.requests or server.devices:
        return None
    ref = failed[-1]
    text = dict(server.texts).get(ref, "a probe of the GPUs failed")
    return Ending("probe", ref, text, phase=Phase.DISCOVER, phase_ref=ref), _library(text)


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
    lost = _library(text)
    shown = notes[-1].refs[0]
    return (
        Ending("fallback", ref, text, phase=Phase.DISCOVER, refs=(shown,) if shown in texts else ()),
        lost,
    )


def _library(text: str) -> Backend:
    """The backend whose libraries a probe's line names."""
    named = {backend for word, backend in _LIBRARIES if word in text.split("error=")[0].lower()}
    return named.pop() if len(named) == 1 else Backend.UNKNOWN
