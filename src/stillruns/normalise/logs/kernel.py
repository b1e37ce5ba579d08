"""The kernel's lines about GPUs, dying processes and memory -> KernelEvents.

Sources of the forms: Linux drivers/gpu/drm/amd/amdgpu (amdgpu_job.c, gmc_v9_0.c, amdgpu_device.c, amdgpu_ras.c),
drivers/gpu/drm/i915, arch/x86/mm/fault.c and traps.c, mm/oom_kill.c; NVIDIA's NVRM lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from msgspec.structs import replace

from stillruns.model.evidence import line_of, line_ref
from stillruns.model.expression import Expression
from stillruns.model.kernel_log import KernelEvent, KernelEventKind
from stillruns.model.server_log import LogLine
from stillruns.normalise.logs.reader import visible

MAX_EVENTS = 2000

_K = KernelEventKind
_FORMS: tuple[tuple[KernelEventKind, str, Expression], ...] = (
    (_K.RING_TIMEOUT, " timeout", Expression(r"\bring (?P<what>[\w.]{2,40}) timeout")),
    (_K.PAGE_FAULT, "page fault", Expression(r"amdgpu.{0,200}(?:retry |no-retry )?page fault")),
    (
        _K.PAGE_FAULT,
        "VM_L2_PROTECTION_FAULT",
        Expression(r"VM_L2_PROTECTION_FAULT_STATUS:(?P<what>0x[0-9A-Fa-f]{1,16})"),
    ),
    (
        _K.GPU_RESET,
        "eset",
        Expression(
            r"(?:amdgpu|\[drm\]).{0,200}(?P<what>GPU reset begin|GPU reset\(\d+\) succeeded|"
            r"GPU reset succeeded|[Rr]ing \S{1,40} reset (?:succeeded|failed)|wedged)"
        ),
    ),
    (_K.GPU_RESET, "wedged", Expression(r"(?P<what>device wedged[^\n]{0,60})")),
    (
        _K.FENCE_TIMEOUT,
        "Fence expiration time out",
        Expression(
            r"Fence expiration time out \S{1,60}?:"
            r"(?:(?P<process>[\w.-]{1,32})\[(?P<pid>\d{1,10})\]|[0-9a-f]{1,8}!)"
        ),
    ),
    (
        _K.GPU_HANG,
        "GPU HANG",
        Expression(
            r"GPU HANG: ecode (?P<what>[\w:]{1,40})"
            r"(?:, in (?P<process>[\w.:/-]{1,32}) \[(?P<pid>\d{0,10}))?"
        ),
    ),
    (
        _K.GPU_HANG,
        "due to GPU hang",
        Expression(
            r"\b(?P<process>[\w.:/-]{1,32})\[(?P<pid>\d{0,10})\w{0,10}\] "
            r"(?P<what>context reset) due to GPU hang"
        ),
    ),
    (
        _K.GPU_HANG,
        "imedout job",
        Expression(
            r"(?P<what>Timedout job): seqno=[^\n]{0,200}?flags=0x[0-9a-f]{1,8}"
            r"(?: in (?P<process>[\w.:/-]{1,32})(?: \[(?P<pid>\d{1,10})\]))?"
        ),
    ),
    (
        _K.QUEUE_HANG,
        " preemption",
        Expression(r"(?P<what>[Qq]ueue preemption time ?out|unsuccessful queues? preemption)"),
    ),
    (
        _K.GPU_RESET,
        "eset",
        Expression(
            r"(?P<what>Engine reset: engine_class=\w{1,8}|"
            r"Resetting (?:chip|[a-z]{2,4}\d{1,2}) (?:for|after) .{1,60})"
        ),
    ),
    (
        _K.GPU_RESET,
        "MES ",
        Expression(r"(?P<what>MES might be in unrecoverable state)"),
    ),
    (
        _K.XID,
        "fallen off the bus",
        Expression(r"(?P<what>fallen off the bus)"),
    ),
    (
        _K.FIRMWARE,
        "firmware",
        Expression(r"(?:Direct firmware load for (?P<what>\S{1,100}) failed|failed to load .{0,80}firmware)"),
    ),
    (
        _K.ATOMICS,
        "tomic",
        Expression(
            r"(?P<what>PCI rejects atomics|PCI[Ee] atomics? (?:ops )?(?:is |are )?not supported|"
            r"skipped device \S{1,20} PCI rejects atomics)"
        ),
    ),
    (_K.RAS, "uncorrectable", Expression(r"(?P<what>\d* ?uncorrectable hardware errors?[^\n]{0,60})")),
    (_K.EEPROM, "EEPROM", Expression(r"amdgpu.{0,100}(?P<what>Failed to read EEPROM[^\n]{0,60})")),
    (
        _K.XID,
        "Xid",
        Expression(
            r"NVRM: Xid \((?:PCI:)?(?P<device>[0-9a-fA-F:.]{4,20})\): (?P<what>\d{1,4})"
            r"(?:, pid='?(?P<pid>\d{1,10})'?)?(?:, name=(?P<process>[\w.-]{1,64}))?"
        ),
    ),
    (_K.OOM_KILL, "Killed process", Expression(r"Killed process (?P<pid>\d{1,10}) \((?P<process>[^)]{1,64})\)")),
    (
        _K.SEGFAULT,
        "segfault at",
        Expression(
            r"(?P<process>[\w.:/-]{1,32})\[(?P<pid>\d{1,10})\]: segfault at "
            r"(?P<what>[0-9a-f]{1,16})(?:.{0,200}? in (?P<module>[\w.+-]{1,200})\[)?"
        ),
    ),
    (
        _K.TRAP,
        "trap",
        Expression(
            r"traps: (?P<process>[\w.:/-]{1,32})\[(?P<pid>\d{1,10})\] trap (?P<what>[a-z ]{3,30}?)"
            r"(?: ip:\S{1,20})?.{0,200}?(?: in (?P<module>[\w.+-]{1,200})\[|$)"
        ),
    ),
)
_FAILED_IN = Expression(
    r"RIP: \d{4}:(?P<what>\w{2,80})\+0x[0-9a-f]{1,8}/0x[0-9a-f]{1,8} "
    r"\[(?P<module>amdgpu|i915|xe|nouveau|nvidia\w{0,10})\]"
)
_OOPS_LINES = 40
"""The function in which the kernel failed stands within so many lines of the line that says that it did; a mere
warning prints the function, too."""
_RUNNING = Expression(r"\bPID: (?P<pid>\d{1,10}) Comm: (?P<process>[\w.:/-]{1,32})")

ANCHORS: tuple[str, ...] = (
    *dict.fromkeys(anchor for _, anchor, _ in _FORMS if len(anchor) > 6),
    "BUG: unable to handle",
    "Oops: ",
    " Comm: ",
    "RIP: 0010:",
    "amdgpu",
    "NVRM",
    "i915",
    "xe 0000",
)
"""Every line of an event contains one of these (short anchors are covered by the drivers' names)."""

_DEVICE = Expression(r"\b(?P<device>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b")
_PROCESS = Expression(
    r"[Pp]rocess (?:information: process )?(?P<process>[\w.:/-]{1,32}) (?:pid|PID) ?(?P<pid>\d{1,10})"
)


@dataclass
class Reader:
    """Takes the kernel's lines; `events` are kept in order, a flood keeps its first."""

    source: str
    events: list[KernelEvent] = field(default_factory=list)
    left_out: int = 0
    _oops: int | None = None
    _running: re.Match[str] | None = None

    def take(self, line: LogLine) -> None:
        """The next line of the kernel."""
        text = line.text
        if self._oopsed(text, line):
            return
        for kind, anchor, form in _FORMS:
            if anchor in text:
                found = form.search(text)
                if found:
                    self._add(kind, found, line)
                    return
        if "rocess" in text and self.events:
            named = _PROCESS.search(text)
            last = self.events[-1]
            if named and not last.process and line.number - line_of(last.ref) <= 8:
                self.events[-1] = replace(last, process=named["process"], pid=int(named["pid"]))

    def _oopsed(self, text: str, line: LogLine) -> bool:
        """Whether the line is of an oops; where a GPU's driver failed it is an event."""
        if "BUG: unable to handle" in text or "Oops: " in text:
            self._oops, self._running = line.number, None
            return True
        if self._oops is None or line.number - self._oops > _OOPS_LINES:
            return False
        self._running = _RUNNING.search(text) or self._running
        found = _FAILED_IN.search(text) if "RIP: " in text else None
        if found:
            self._oops = None
            self._add(_K.OOPS, found, line)
            if self._running and self.events:
                who = self._running
                self.events[-1] = replace(self.events[-1], process=who["process"], pid=int(who["pid"]), module="")
        return found is not None

    def _add(self, kind: KernelEventKind, found: re.Match[str], line: LogLine) -> None:
        if len(self.events) >= MAX_EVENTS:
            self.left_out += 1
            return
        groups = found.groupdict()
        device = _DEVICE.search(line.text)
        pid = groups.get("pid")
        event = KernelEvent(
            kind=kind,
            ref=line_ref(self.source, line.number),
            text=visible(line.text),
            at=line.at,
            process=groups.get("process") or "",
            pid=int(pid) if pid else None,
            module=groups.get("module") or "",
            device=groups.get("device") or (device["device"] if device else ""),
            what=(groups.get("what") or "").strip(),
        )
        self.events.append(event)

    def close(self) -> tuple[KernelEvent, ...]:
        """Everything seen."""
        return tuple(self.events)
