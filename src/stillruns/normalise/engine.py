"""What a llama.cpp binary says about itself -> the parsed fields of an Engine.

Asked are the binary's own `--help`, `--list-devices`, `--version` and a `system_info` line; nothing is guessed from
the version, since many binaries call themselves build 1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.engine import Device
from stillruns.normalise.logs.prefix import strip
from stillruns.normalise.logs.reader import clean
from stillruns.normalise.system_info import features

_FLAG = re.compile(r"--?[A-Za-z][A-Za-z0-9-]*")
_DEVICE = re.compile(r"^\s+(\S+): (.*?)(?: \((\d+) MiB, (\d+) MiB free\))?$")
_VERSION = re.compile(r"^version: (.+)$")
_REMOVED = "argument has been removed"
_COLUMN = 40
"""At this column the help's explanations begin."""


@dataclass(frozen=True, slots=True)
class EngineText:
    """The parsed answers: `flags` every option that the help names and that still does something, `values` the
    accepted values by option (under each of its names), `version` the text after `version: ` or an absence."""

    flags: frozenset[str]
    values: dict[str, tuple[str, ...]]
    devices: tuple[Device, ...] | Absence
    system_info: dict[str, str]
    version: str | Absence


def read(help_text: bytes, devices: bytes, version: bytes, system: bytes) -> EngineText:
    """Parse the four outputs (stdout and stderr of each together, in any order). Empty bytes give absences."""
    flags, values = _help(help_text)
    return EngineText(flags, values, _devices(devices), _system_info(system), _version(version))


def _lines(raw: bytes) -> list[str]:
    return [clean(line.rstrip(b"\r")) for line in raw.split(b"\n")]


def _help(raw: bytes) -> tuple[frozenset[str], dict[str, tuple[str, ...]]]:
    """Options begin at the left (indented by 2 or 9 up to mid 2024), their explanations at column 34 or 40."""
    flags: set[str] = set()
    values: dict[str, tuple[str, ...]] = {}
    for head, text in _blocks(raw):
        names = _names(head)
        if _REMOVED not in " ".join(text):
            flags.update(names)
            accepted = _accepted(head, text)
            if accepted:
                values.update(dict.fromkeys(names, accepted))
    return frozenset(flags), values


def _blocks(raw: bytes) -> list[tuple[str, list[str]]]:
    """Each option's head and the lines that explain it."""
    blocks: list[tuple[str, list[str]]] = []
    for line in _lines(raw):
        if re.match(r" {0,12}--?[A-Za-z]", line):
            head, text = _split(line)
            blocks.append((head, [text]))
        elif line.startswith(" ") and blocks:
            blocks[-1][1].append(line.strip())
        elif line.strip():
            blocks.append(("", []))
    return blocks


def _split(line: str) -> tuple[str, str]:
    """The option's names with their placeholder, and what explains them (on the next line after long names)."""
    parts = re.split(r" {2,}", line.strip())
    head = parts.pop(0)
    while parts and head.endswith(","):  # `-t,    --threads N`
        head = f"{head} {parts.pop(0)}"
    if not parts and len(line) > _COLUMN and line[_COLUMN - 1] == " ":
        return line[: _COLUMN - 1].strip(), line[_COLUMN:].strip()
    return head, " ".join(parts)


def _names(head: str) -> list[str]:
    names = []
    for part in re.split(r",\s*|\s+", head):
        if not _FLAG.fullmatch(part):
            break
        names.append(part)
    return names


def _accepted(head: str, text: list[str]) -> tuple[str, ...]:
    """The accepted values where the help lists them: `[on|off|auto]`, `{none,layer,row}` or `<0|1>` beside the name,
    `allowed values: f32, f16` or a list `- none: ...` below it. A placeholder (`<dev1,dev2,..>`, `N`) lists none."""
    found = re.search(r"\[([\w.+-]+(?:\|[\w.+-]+)+)\]|\{([\w.+-]+(?:,[\w.+-]+)+)\}|<([\w.+-]+(?:\|[\w.+-]+)+)>", head)
    if found:
        return tuple(re.split(r"[|,]", found[1] or found[2] or found[3]))
    for line in text:
        if line.startswith("allowed values: "):
            return tuple(value.strip() for value in line.removeprefix("allowed values: ").split(",") if value.strip())
    listed = [found[1] for line in text if (found := re.match(r"- ([\w.+-]+)(?: \(default\))?: ", line))]
    return tuple(listed) if len(listed) > 1 else ()


def _devices(raw: bytes) -> tuple[Device, ...] | Absence:
    lines = _lines(raw)
    for at, line in enumerate(lines):
        if line.strip() == "Available devices:":
            return tuple(_listed(lines[at + 1 :]))
        if "invalid argument" in line or "unknown argument" in line:
            return Absence(
                AbsenceReason.NOT_COLLECTED,
                "this build has no --list-devices",
                "its log names the devices once a model is loaded",
            )
    if not raw.strip():
        return Absence(AbsenceReason.NOT_COLLECTED, "--list-devices printed nothing")
    return Absence(AbsenceReason.UNPARSABLE, "--list-devices printed no list of devices")


def _listed(lines: list[str]) -> list[Device]:
    devices = []
    for line in lines:
        found = _DEVICE.match(line)
        if not found:
            if line.strip() and line.strip() != "(none)":
                break
            continue
        name, description, total, free = found.groups()
        devices.append(Device(name, description.strip(), int(total) if total else None, int(free) if free else None))
    return devices


def _version(raw: bytes) -> str | Absence:
    for line in _lines(raw):
        found = _VERSION.match(strip(line).text)
        if found:
            return found[1].strip()
    if not raw.strip():
        return Absence(AbsenceReason.NOT_COLLECTED, "--version printed nothing")
    return Absence(AbsenceReason.UNPARSABLE, "--version printed no version line")


def _system_info(raw: bytes) -> dict[str, str]:
    for line in _lines(raw):
        if "system_info:" in line or "system info |" in line:
            found = features(line)
            if found:
                return found
    return {}
