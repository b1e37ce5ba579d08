"""What a llama.cpp binary says about itself -> the parsed fields of an Engine.

Asked are the binary's own `--help`, `--list-devices`, `--version` and a `system_info` line; nothing is guessed from
the version, since many binaries call themselves build 1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.engine import Device
from stillruns.normalise import program_help
from stillruns.normalise.logs.prefix import strip
from stillruns.normalise.logs.reader import clean, visible
from stillruns.normalise.system_info import features

_DEVICE = re.compile(r"^\s+(\S+): (.*?)(?: \((\d+) MiB, (\d+) MiB free\))?$")
_TROUBLE = re.compile(r"(?i)error|not found|cannot|failed|denied")
_VERSION = re.compile(r"^version: (.+)$")
_REFUSED = re.compile(
    rb"error while loading shared libraries: (?P<library>[^ :\n]{1,400}): cannot open shared object file|"
    rb"error while loading shared libraries: [^\n]{1,400}|[^\n]{1,400} not found \(required by [^\n)]{1,400}\)"
)
"""The dynamic loader's words when it does not start a program (glibc elf/dl-load.c, dl-version.c)."""
_PACKAGES = {"libgomp.so.1": "libgomp1", "libvulkan.so.1": "libvulkan1"}
"""Libraries that builds of llama.cpp take from the system, by their package in Debian and Ubuntu (`dpkg -S`)."""


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


def refusal(raw: bytes) -> str:
    """Why the dynamic loader did not start the program that printed this, and what to do; empty when it did."""
    found = _REFUSED.search(raw)
    if found is None:
        return ""
    if not found["library"]:
        return (
            f"{visible(found[0].decode('utf-8', 'replace').strip())}; take a build for this system, or build it here"
        )
    library = visible(found["library"].decode("utf-8", "replace"))
    package = f" (Debian and Ubuntu: {_PACKAGES[library]})" if library in _PACKAGES else ""
    return f"it needs {library}, which is not here; install the package that has it{package}"


def _lines(raw: bytes) -> list[str]:
    return [clean(line.rstrip(b"\r")) for line in raw.split(b"\n")]


def _help(raw: bytes) -> tuple[frozenset[str], dict[str, tuple[str, ...]]]:
    """The names of all options that still do something, and the accepted values under each name."""
    _, options = program_help.read("\n".join(_lines(raw)))
    live = [option for option in options if not option.removed]
    values = {name: option.values for option in live if option.values for name in option.names}
    return frozenset(name for option in live for name in option.names), values


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
    return Absence(AbsenceReason.UNPARSABLE, f"--list-devices printed no list, but: {_telling(lines)}")


def _telling(lines: list[str]) -> str:
    """The first line that names a trouble, else the first that says anything, in quotes; at most 200 characters."""
    said = [line.strip() for line in lines if line.strip()]
    first = next((line for line in (*said, "") if _TROUBLE.search(line)), said[0] if said else "")
    return f"'{visible(first[:200])}'" if first else "blanks"


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
