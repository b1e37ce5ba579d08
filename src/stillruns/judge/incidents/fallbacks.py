"""Work that was a GPU's and that the CPU did: an incident without a crash (outcome `ok`, the condition void)."""

from __future__ import annotations

from stillruns.judge.incidents.group import Group
from stillruns.model.backend import Backend, Runtime
from stillruns.model.evidence import line_of
from stillruns.model.phase import Phase
from stillruns.model.server_log import Ending, Runner, ServerLog

_PASSED_OVER = ("ollama-rocm-not-installed", "ollama-amdgpu-refused")
"""Patterns of lines by which a server passes over one device: there may be another."""
IGNORED = ("no-usable-gpu", "llamafile-cpu-instead", "ollama-cuda-too-old", *_PASSED_OVER)
"""Patterns of lines by which a server says that it goes on on the CPU alone, or why it does."""

_BUSY = (Phase.LOAD, Phase.RESERVE, Phase.WARMUP, Phase.PROMPT)


def only_ignored(group: Group) -> bool:
    """Whether nothing went wrong but that a GPU was asked for and is not there."""
    return bool(group.troubles) and all(t.pattern in IGNORED for t in group.troubles)


def quiet(server: ServerLog, found: list[Group], survived: list[Group]) -> tuple[list[Group], list[Group]]:
    """(incidents, survived), where nothing died but a probe: the server may have fallen back to the CPU, and then
    what the probe said before is the reason; or its log ends in mid work."""
    beside = [g for g in found if _beside(g, server)]
    found, survived = [g for g in found if g not in beside], [*survived, *beside]
    lost = ending(server)
    said = [] if lost is None else [g for g in (*found, *survived) if _probes(g, lost[0])]
    if any(g not in said for g in found):
        return found, survived
    lost = lost or unfinished(server)
    if lost is not None:
        group = Group(lost=lost[1])
        for trouble in (t for g in said for t in g.troubles):
            group.add(line_of(trouble.ref), trouble)
        group.add(line_of(lost[0].ref), lost[0])
        return [group], [g for g in survived if g not in said]
    if server.last_phase in _BUSY and server.runtime in (Runtime.OLLAMA, Runtime.VLLM) and not server.clean_end:
        last = server.phases[-1].last
        excerpt = any(note.kind == "excerpt" for note in server.notes)
        if not excerpt and not any(line_of(r.last) > line_of(last) for r in server.requests):
            text = dict(server.texts).get(last, f"the log ends in {server.last_phase.value}")
            group = Group()
            group.add(line_of(last), Ending("cut", last, text, phase=server.last_phase, phase_ref=last))
            return [group], survived
    return [], survived


def _beside(group: Group, server: ServerLog) -> bool:
    """Whether a device was passed over and nothing shows that no other is used."""
    if not only_ignored(group) or any(t.phase is not Phase.DISCOVER for t in group.troubles):
        return False
    if _gpu_listed(server):
        return True
    told = any(note.kind == "fallback" for note in server.notes)
    return not told and all(t.pattern in _PASSED_OVER for t in group.troubles)


def _gpu_listed(server: ServerLog) -> bool:
    """Whether discovery found a GPU: one that it passed over is then no fallback."""
    return any(d.backend not in (Backend.CPU, Backend.UNKNOWN) for d in server.devices)


def on_cpu(server: ServerLog, runner: Runner | None) -> bool:
    """Whether what ran, ran on the CPU though the request left it open or asked for a GPU."""
    if any(note.kind == "fallback" for note in server.notes):
        return True
    return runner is not None and runner.backends == (Backend.CPU,) and runner.requested_layers not in (0, None)


def _probes(group: Group, end: Ending) -> bool:
    """Whether these lines are the failed probe's own."""
    early = all(t.phase is Phase.DISCOVER and line_of(t.ref) <= line_of(end.ref) for t in group.troubles)
    return bool(group.troubles) and not group.endings and early


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
    if not notes or _gpu_listed(server):
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
