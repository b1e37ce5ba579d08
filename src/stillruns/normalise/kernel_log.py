"""The kernel's log to the events that bear on gates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.gate_tables import KernelEventRule
from stillruns.model.machine import KernelLog, KernelSign
from stillruns.model.raw import Cite, Collected, RawCommand, RawFile

_ADDRESS = re.compile(r"\b([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b")
_RECORD = re.compile(r"\d{1,3},\d{1,20},\d{1,20},[^;]{0,40};(.*)", re.DOTALL)
_MOST = 200
_LONGEST = 2000


def parse(raw: Collected, rules: Sequence[KernelEventRule]) -> KernelLog | Absence:
    """Events in the order of the log, the first 200 of each kind; an absence with the reason when no log was had."""
    source, lines = _best(raw)
    if source is None:
        return _why_not(raw)
    compiled = [(rule, re.compile(rule.regex)) for rule in rules]
    events: list[KernelSign] = []
    counts: dict[str, int] = {}
    total = 0
    whole = source.cite("-")
    for number, line in lines:
        total += 1
        for rule, regex in compiled:
            if rule.anchor not in line:
                continue
            found = regex.search(line[:_LONGEST])
            if not found:
                continue
            counts[rule.id] = counts.get(rule.id, 0) + 1
            if counts[rule.id] <= _MOST:
                events.append(
                    _event(rule, found, line, Cite(whole.source, whole.sha256, f"L{number}", line.strip()[:300]))
                )
            break
    where = source.path if isinstance(source, RawFile) else " ".join(source.argv)
    return KernelLog(tuple(events), total, where)


def _event(rule: KernelEventRule, found: re.Match[str], line: str, cite: Cite) -> KernelSign:
    groups = found.groupdict()
    address = _ADDRESS.search(line)
    place = address[1] if address else groups.get("id") or _function(groups.get("pci") or "")
    named = next((value for key, value in groups.items() if value and key not in ("id", "pci")), "")
    return KernelSign(
        rule.id, rule.layer, rule.severity, place, f"{rule.text}: {named}" if named else rule.text, cite
    )


def _function(place: str) -> str:
    """NVIDIA's driver leaves the function out (`0000:3b:00`): its cards are function 0."""
    return f"{place}.0" if re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}", place) else place


def _best(raw: Collected) -> tuple[RawFile | RawCommand | None, Iterator[tuple[int, str]]]:
    for file in raw.files:
        if file.data:
            return file, _lines(file.data, records=file.path == "/dev/kmsg")
    for command in raw.commands:
        if command.absence is None and command.status == 0 and command.stdout:
            return command, _lines(command.stdout, records=False)
    return None, iter(())


def _lines(data: bytes, *, records: bool) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        if records:
            record = _RECORD.match(line)
            if record:
                yield number, record[1]
        elif line:
            yield number, line


def _why_not(raw: Collected) -> Absence:
    for reason in (AbsenceReason.NO_PERMISSION, AbsenceReason.NOT_COLLECTED):
        for file in raw.files:
            if file.absence is not None and file.absence.reason is reason:
                return Absence(reason, f"the kernel's log is not readable here ({file.absence.detail})",
                               "run once with sudo, or join the group adm")  # fmt: skip
    return Absence(AbsenceReason.NOT_COLLECTED, "no log of the kernel was found", "put `dmesg` into var/log/dmesg")
