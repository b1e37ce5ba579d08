"""Variables of shells, units and serving processes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.machine import Environment
from stillruns.model.raw import Cite, Collected, RawFile
from stillruns.normalise import container
from stillruns.redact.environment import listed

_PROGRAM = re.compile(r"\s*[-@:+!|]*\"?(/[^\s\"]+)")
"""The program of ExecStart=, after systemd's prefixes."""
_PROCESS = re.compile(r"/proc/(\d+)/comm\Z")


def parse(raw: Collected) -> tuple[Environment, ...] | Absence:
    """Every environment that was found, of the variables that this stack reads; secrets are left out."""
    if not raw.files:
        return Absence(AbsenceReason.NOT_COLLECTED, "no environment was looked at")
    found = []
    for file in raw.files:
        process = _PROCESS.match(file.path)
        if process:
            found.append(_process(raw, process[1], file.text))
        elif file.path.endswith((".service", ".conf")) and file.data:
            found.append(_unit(file))
        elif file.path in ("/etc/environment", "/etc/default/ollama") and file.data:
            found.append(
                Environment(file.path, file.path != "/etc/environment", _assignments(file.text), file.cite())
            )
        elif file.path == "/proc/self/environ" and file.data is not None:
            found.append(Environment("this shell", False, _environ(file.data), _shown(file, _environ(file.data))))
    return tuple(found)


def _shown(file: RawFile, variables: dict[str, str]) -> Cite:
    return file.cite("; ".join(f"{name}={value}" for name, value in variables.items()) or "-")


def _process(raw: Collected, pid: str, name: str) -> Environment:
    file = raw.file(f"/proc/{pid}/environ") or RawFile(f"/proc/{pid}/environ")
    variables = _environ(file.data or b"")
    status = raw.text(f"/proc/{pid}/status") or ""
    uid = re.search(r"^Uid:\s+\d+\s+(\d+)", status, re.MULTILINE)
    exe = raw.file(f"/proc/{pid}/exe")
    return Environment(
        owner=f"process {pid} ({_called(raw.text(f'/proc/{pid}/cmdline') or '', name)})",
        serving=True,
        variables=variables,
        cite=_shown(file, variables),
        user=uid[1] if uid else "",
        pid=int(pid),
        program=exe.real if exe is not None else "",
        gids=_groups(status),
        readable=file.data is not None,
        container=container.kind_of(raw.text(f"/proc/{pid}/cgroup") or ""),
    )


def _called(cmdline: str, name: str) -> str:
    """The program's name and its verb, where it has one: `ollama serve` and `ollama runner` are two processes."""
    words = cmdline.split("\0")
    verb = words[1] if len(words) > 1 and re.fullmatch(r"[a-z]{2,12}", words[1]) else ""
    return f"{name} {verb}".strip()


def _groups(status: str) -> tuple[int, ...]:
    """All groups of a process: its effective one and the supplementary ones."""
    own = re.search(r"^Gid:\s+\d+\s+(\d+)", status, re.MULTILINE)
    more = re.search(r"^Groups:([\d \t]*)", status, re.MULTILINE)
    found = ([own[1]] if own else []) + (more[1].split() if more else [])
    return tuple(dict.fromkeys(int(word) for word in found))


def _unit(file: RawFile) -> Environment:
    variables: dict[str, str] = {}
    user = program = ""
    for line in re.sub(r"\\\n", " ", file.text).splitlines():
        key, equals, value = line.strip().partition("=")
        if equals and key == "Environment":
            variables |= _words(value)
        elif equals and key == "User":
            user = value.strip()
        elif equals and key == "ExecStart" and (found := _PROGRAM.match(value)):
            program = found[1]
    name = file.path.rpartition("/")[2]
    if name.endswith(".conf"):
        name = file.path.split("/")[-2].removesuffix(".d")
    shown = _shown(file, listed(variables))
    return Environment(f"unit {name} ({file.path})", True, listed(variables), shown, user, unit=name, program=program)


def pairs(words: Iterable[str]) -> dict[str, str]:
    """`NAME=value` words by name; of two, the last. Other words are left out."""
    return {word.partition("=")[0]: word.partition("=")[2] for word in words if "=" in word}


def _words(text: str) -> dict[str, str]:
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    return pairs(words)


def _assignments(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip().startswith("#"):
            found |= _words(line.strip().removeprefix("export "))
    return listed(found)


def _environ(data: bytes) -> dict[str, str]:
    parts = data.decode("utf-8", "replace").split("\0")
    return listed(pairs(parts))
