"""What journals, containers and the kernel put before a program's own line, taken off in one place.

Forms: journalctl's short (`Mar 07 01:19:01 host unit[pid]: `, with the month in any locale: ` 3月 08`, `maj 08`),
short-iso and short-iso-precise, `-o json`; Docker Compose and services (`ollama-1  | `), Docker's JSON files,
`docker logs -t`, `kubectl logs --prefix` (`[pod/ollama-0/ollama] `), CRI (`<time> stderr F `); the kernel's ring
buffer (`[ 123.456] `, `[Sat Mar  7 01:19:01 2026] `), also bare
`kernel: `. Whatever is not recognised stays part of the text.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from stillruns.model.expression import Expression

_SHORT = Expression(
    r" ?(?P<at>(?:[^\W\d_]{2,12}\.? {1,2}\d{1,2}|\d{1,2}(?:月|월|\.) {0,2}\d{1,2}(?:日|일)?)"
    r" \d\d:\d\d:\d\d(?:\.\d{1,9})?)"
    r" (?P<host>\S{1,253}) (?P<unit>[^\s\[\]:]{1,200})(?:\[(?P<pid>\d{1,10})\])?: "
)
_ISO = Expression(
    r"(?P<at>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"
    r" (?P<host>\S{1,253}) (?P<unit>[^\s\[\]:]{1,200})(?:\[(?P<pid>\d{1,10})\])?: "
)
_SNAP = Expression(
    r"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d))"
    r" (?P<unit>[\w-]{1,80}\.[\w-]{1,80})\[(?P<pid>\d{1,10})\]: "
)
"""`snap logs`: the host is left out."""
_CRI = Expression(r"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}(?:Z|[+-]\d\d:\d\d)) (?:stdout|stderr) [FP] ")
_STAMP = Expression(r"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6,9}Z) ")
_COMPOSE = Expression(r"(?P<unit>[A-Za-z][\w.@-]{0,100})[ ]{1,40}\| ?")
_NO_CONTAINER = ("INFO", "WARN", "ERROR", "DEBUG", "load_model", "main", "slot", "srv")
_POD = Expression(r"\[pod/(?P<unit>[^\]\s]{3,400})\] ")
_STUDIO = Expression(r"\[(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\]\[(?:DEBUG|INFO|WARN|ERROR)\](?: |$)")
_STUDIO_ALONE = Expression(r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) \[(?:DEBUG|INFO|WARN|ERROR)\]$")
_STUDIO_TEXT = Expression(
    r" (?=(?:ggml|llama|load|print_info|alloc_tensor|sched|graph|common|clip)_?\w*: |\[lmstudio|\[LLM )"
)
"""LM Studio: the level before the text, or in a line of its own and the text behind a space in the next."""
_NO_HOST = ("slot", "srv", "main", "llama", "common")
"""Beginnings of llama-server's own lines, which look like a host and a unit: `slot launch_slot_: id  0`."""
_RING = Expression(r"\[ {0,6}(?P<at>\d{1,9}\.\d{6}|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\] ")
_BARE = Expression(
    r" {0,20}(?=(?:i915|xe|amdgpu|nouveau) [0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]: |NVRM: )|"
    r"(?=(?:Out of memory: |Memory cgroup out of memory: )Killed process \d)"
)
"""Lines of the kernel that were pasted without their time: no other line begins with a driver and a PCI address."""
_KERNEL = Expression(r"kernel: (?:\[ {0,6}\d{1,9}\.\d{6}\] )?")

KERNEL = "kernel"
"""The unit of the kernel's lines."""


class Opened(NamedTuple):
    """`text` without its envelope; `unit` as named there (`ollama`, `kernel`, a container) or empty, `pid` or None,
    `at` the time as written or empty. `journal` says that the input names its processes."""

    text: str
    unit: str = ""
    pid: int | None = None
    at: str = ""
    journal: bool = False


def open_line(text: str) -> Opened:
    """The line without what the transport added. Never fails, in bounded time."""
    first = text[:1]
    if first in " aixnNOM":
        bare = _BARE.match(text)
        if bare:
            return Opened(text[bare.end() :], KERNEL, None, "", True)
    if text.startswith(("[drm ERROR :", "drmn0: ", "drmn1: ")):
        return Opened(text, KERNEL, None, "", True)  # FreeBSD's drm-kmod, as dmesg prints it
    if first == "[":
        found = _RING.match(text)
        if found:
            return Opened(text[found.end() :], KERNEL, None, found["at"], True)
        found = _STUDIO.match(text)
        if found:
            return Opened(text[found.end() :], "", None, found["at"], False)
        found = _POD.match(text)
        return _inside(text, found) if found else Opened(text)
    if first == "{":
        return _json(text)
    if first.isdigit() or first == " " or first.isalpha():
        return _worded(text, first)
    return Opened(text)


def _worded(text: str, first: str) -> Opened:
    if text.startswith("kernel: "):
        found = _KERNEL.match(text)
        assert found
        return Opened(text[found.end() :], KERNEL, None, "", True)
    if first.isdigit():
        for form in (_ISO, _SNAP, _CRI, _STAMP):
            found = form.match(text)
            if found and not (form is _ISO and found["pid"] is None and found["host"] in _NO_HOST):
                return _opened(text, found)
    found = _STUDIO_ALONE.match(text) if first.isdigit() and text.endswith("]") else None
    if found:
        return Opened("", "", None, found["at"], False)
    found = _SHORT.match(text)
    if found:
        return _opened(text, found)
    found = _STUDIO_TEXT.match(text) if first == " " else None
    if found:
        return Opened(text[1:])
    if first.isalpha() and "|" in text[:160]:
        found = _COMPOSE.match(text)
        if found and found["unit"] not in _NO_CONTAINER:
            return _inside(text, found)
    return Opened(text)


def _inside(text: str, found: re.Match[str]) -> Opened:
    """A container's line behind its name, which may begin with a time."""
    inner = open_line(text[found.end() :]) if text[found.end() : found.end() + 1].isdigit() else None
    rest = inner.text if inner and not inner.unit else text[found.end() :]
    return Opened(rest, found["unit"], None, inner.at if inner else "", True)


def _opened(text: str, found: re.Match[str]) -> Opened:
    if found.re.groups == 1:  # a container's line names no process
        return Opened(text[found.end() :], "", None, found["at"], False)
    at, unit, pid = found.group("at", "unit", "pid")
    return Opened(text[found.end() :], unit or "", int(pid) if pid else None, at, bool(unit))


def _json(text: str) -> Opened:
    """`journalctl -o json` and Docker's json-file; other JSON (llama-server's own) stays as it is."""
    if '"MESSAGE"' not in text and '"log"' not in text[:8]:
        return Opened(text)
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return Opened(text)
    if not isinstance(record, dict):
        return Opened(text)
    message = record.get("MESSAGE")
    if isinstance(message, str):
        unit = record.get("SYSLOG_IDENTIFIER") or record.get("_COMM") or record.get("_SYSTEMD_UNIT") or ""
        pid = str(record.get("_PID", record.get("SYSLOG_PID", "")))
        at = str(record.get("__REALTIME_TIMESTAMP", ""))[:20]
        return Opened(message, str(unit)[:200], int(pid[:10]) if pid[:10].isdecimal() else None, at, bool(unit))
    log = record.get("log")
    if isinstance(log, str):
        return Opened(log.rstrip("\n"), "", None, str(record.get("time", ""))[:40], False)
    return Opened(text)
