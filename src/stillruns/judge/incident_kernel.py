"""Kernel lines beside a server's incident: which belong to it, and what the kernel alone shows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timezone

from stillruns.judge.incident_group import Group, line_of
from stillruns.model.expression import Expression
from stillruns.model.kernel_log import KernelEvent, KernelEventKind
from stillruns.model.server_log import ServerLog

NEAR_SECONDS = 30.0
NEAR_LINES = 200

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
    KernelEventKind.RAS,
    KernelEventKind.XID,
)
DEATHS = (KernelEventKind.SEGFAULT, KernelEventKind.TRAP, KernelEventKind.OOM_KILL)

_SHORT = Expression(r"(?P<month>[A-Z][a-z]{2}|\d{1,2}月) {1,2}(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d)")
_MONTHS = {m: i for i, m in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)}


def seconds(at: str) -> float | None:
    """A written time as seconds, comparable only between times of the same form; None where it cannot be read."""
    if not at:
        return None
    found = _SHORT.match(at.strip())
    if found:
        month = _MONTHS.get(found["month"]) or int(re.sub(r"\D", "", found["month"]) or 0)
        hours, minutes, secs = (int(part) for part in found["clock"].split(":"))
        return ((month * 31 + int(found["day"])) * 24 + hours) * 3600.0 + minutes * 60 + secs
    try:
        text = re.sub(r"([+-]\d\d)(\d\d)$", r"\1:\2", at.replace(",", ".").replace("Z", "+00:00"))
        text = re.sub(r"(\.\d{6})\d+", r"\1", text)
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            return float(at)
        except ValueError:
            return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


def of_group(
    group: Group, server: ServerLog, events: Iterable[KernelEvent], source: str, alone: bool
) -> tuple[KernelEvent, ...]:
    """The kernel's lines about this incident: by process id where both name one, else by time, else (only when there
    is one server and no time at all) by nearness in the file."""
    pids = {*server.pids, *(e.pid for e in group.endings if e.pid)}
    times = [t for t in (seconds(e.at) for e in group.endings) if t is not None]
    found = []
    for event in events:
        if event.pid is not None and pids:
            if event.pid in pids:
                found.append(event)
            continue
        if event.process and not OURS.search(event.process):
            continue
        at = seconds(event.at)
        if at is not None and times:
            if min(abs(at - t) for t in times) <= NEAR_SECONDS:
                found.append(event)
            continue
        same = event.ref.startswith(f"{source}:")
        if alone and same and group.first - NEAR_LINES <= line_of(event.ref) <= group.last + NEAR_LINES:
            found.append(event)
    return tuple(found)


def leftover(events: Iterable[KernelEvent], used: set[str], alone: bool = False) -> list[list[KernelEvent]]:
    """Events that no server's incident has, in runs that lie close together; only runs that show a fault of the GPU
    or the death of something that may be a model server. `alone`: the kernel's lines are all there is."""
    runs: list[list[KernelEvent]] = []
    for event in events:
        if event.ref in used:
            continue
        source, line = event.ref.split(":", 1)[0], line_of(event.ref)
        last = runs[-1][-1] if runs else None
        if last is not None and last.ref.startswith(f"{source}:") and line - line_of(last.ref) <= 50:
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
