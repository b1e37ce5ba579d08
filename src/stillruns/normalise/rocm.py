"""Pieces of ROCm, from every database that names one."""

from __future__ import annotations

import re

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.machine import Piece
from stillruns.model.raw import Collected, RawFile

_PACMAN = re.compile(r"(?P<name>.+)-(?P<version>[^-]+-[^-]+)\Z")
_WHEEL = re.compile(r"(?P<name>[\w.]+?)-(?P<version>[\w.!+]+)\.dist-info\Z")
_RPM = re.compile(r"(?P<name>[\w.+-]+?)-(?P<version>\d[^-]*)-[^-]+\Z")
_STACK = re.compile(
    r"(?:lib)?(?:rocm|rocblas|hipblas|amdhip64|hsa-r|hip-runtime|rocsolver|rocsparse|miopen|ggml0|llama|ollama|torch|"
    r"comgr|mesa-vulkan)",
    re.IGNORECASE,
)


def parse(raw: Collected) -> tuple[Piece, ...] | Absence:
    """Every piece with its version and who says so; empty on a machine without any."""
    if not raw.files and not raw.commands:
        return Absence(AbsenceReason.NOT_COLLECTED, "no package database was looked at")
    found: list[Piece] = []
    for file in raw.files:
        found += _file(file)
    for command in raw.commands:
        for number, line in enumerate(command.text.splitlines(), 1):
            match = _RPM.match(line.rpartition(".")[0])
            if match and _STACK.match(line):
                found.append(Piece(match["name"], match["version"], "rpm", command.cite(line, number)))
    return tuple(found)


def _file(file: RawFile) -> list[Piece]:
    if file.path.endswith("/.info/version") and file.data:
        return [Piece("rocm", file.text.strip(), file.path.removesuffix("/.info/version"), file.cite())]
    if file.path == "/opt/rocm" and file.absence is not None and "loop" in file.absence.detail:
        return [Piece("rocm", "", "/opt/rocm", file.cite(file.absence.detail))]
    lines = file.text.splitlines() if file.data else []
    if file.path == "/var/lib/dpkg/status":
        return [
            Piece(line.split(" ")[0], line.partition(" ")[2], "dpkg", file.cite(line, number))
            for number, line in enumerate(lines, 1)
        ]
    form, teller = (_PACMAN, "pacman") if "pacman" in file.path else (_WHEEL, "pip")
    pieces = []
    for number, line in enumerate(lines, 1):
        match = form.match(line)
        if match:
            pieces.append(Piece(match["name"], match["version"], teller, file.cite(line, number)))
    return pieces
