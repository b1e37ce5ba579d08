"""Kernel lines beside a server's incident: which belong to it, and what the kernel alone shows."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stillruns.judge.incidents.clocks import apart
from stillruns.judge.incidents.group import Group
from stillruns.model.backend import Runtime
from stillruns.model.evidence import line_of
from stillruns.model.expression import Expression
from stillruns.model.kernel_log import KernelEvent, KernelEventKind
from stillruns.model.server_log import ServerLog

NEAR_SECONDS = 30.0
NEAR_LINES = 200
APART_SECONDS = 600.0
"""Between two of the kernel's lines that cannot be of one failure, however close they stand in a searched log."""
CHILD_SECONDS = 10.0
"""Of a process id that the log does not name: Ollama's runners have others than the server."""

OURS = re.compile(r"llama|vllm|ggml|koboldcpp", re.IGNORECASE)
"""Process names that may be a model server."""
_PYTHON = Expression(r"^(?:python[\d.]*|pt_main_thread|ray::)")
"""vLLM's and PyTorch's servers die under these names, as many other programs do: told only of a process that was
killed for want of memory, and only where no server's log stands beside it."""

SEVERE = (
    KernelEventKind.RING_TIMEOUT,
    KernelEventKind.PAGE_FAULT,
    KernelEventKind.GPU_RESET,
    KernelEventKind.FENCE_TIMEOUT,
    KernelEventKind.GPU_HANG,
    KernelEventKind.QUEUE_HANG,
    KernelEventKind.OOPS,
    KernelEventKind.RAS,
    KernelEventKind.XID,
)
DEATHS = (KernelEventKind.SEGFAULT, KernelEventKind.TRAP, KernelEventKind.OOM_KILL)


def of_group(
    group: Group, server: ServerLog, events: Iterable[KernelEvent], source: str, alone: bool
) -> tuple[KernelEvent, ...]:
    """The kernel's lines about this incident: by process id where both name one, else by time, else (only when there
    is one server and no time at all) by nearness in the file."""
    pids = {*server.pids, *(e.pid for e in group.endings if e.pid)}
    times = [time for e in group.endings for time in (e.stamp, e.at) if time] + [t.at for t in group.troubles if t.at]
    found = []
    for event in events:
        if event.pid is not None and event.pid in pids:
            found.append(event)
            continue
        child = event.pid is not None and bool(pids)
        if child and server.runtime is not Runtime.OLLAMA:
            continue
        if event.process and not OURS.search(event.process):
            continue
        between = [seconds for seconds in (apart(event.at, time) for time in times) if seconds is not None]
        if between:
            if min(between) <= (CHILD_SECONDS if child else NEAR_SECONDS):
                found.append(event)
            continue
        same = event.ref.startswith(f"{source}:")
        if alone and same and not child and group.first - NEAR_LINES <= line_of(event.ref) <= group.last + NEAR_LINES:
            found.append(event)
    return tuple(found)


def leftover(events: Iterable[KernelEvent], used: set[str], alone: bool = False) -> list[list[KernelEvent]]:
    """Events that no server's incident has, in runs that lie close together in the log and in time; only runs that
    show a fault of the GPU or the death of something that may be a model server. A line that stands in two files
    counts once. `alone`: the kernel's lines are all there is."""
    runs: list[list[KernelEvent]] = []
    seen: set[tuple[str, str]] = set()
    for event in events:
        if event.ref in used or (event.at, event.text) in seen:
            continue
        if event.at:
            seen.add((event.at, event.text))
        source, line = event.ref.split(":", 1)[0], line_of(event.ref)
        last = runs[-1][-1] if runs else None
        close = last is not None and last.ref.startswith(f"{source}:") and line - line_of(last.ref) <= 50
        if last is not None and close and (apart(last.at, event.at) or 0.0) <= APART_SECONDS:
            runs[-1].append(event)
        else:
            runs.append([event])
    return [run for run in runs if any(_tells(e, alone) for e in run)]


def _tells(event: KernelEvent, alone: bool) -> bool:
    if alone and event.kind is KernelEventKind.OOM_KILL and _PYTHON.match(event.process):
        return True
    if event.kind in DEATHS:
        return bool(OURS.search(event.process))
    return event.kind in SEVERE
