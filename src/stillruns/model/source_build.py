"""What a source tree would build, delete and read."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a source tree: project, file, line (from 1) and its text."""

    project: str
    file: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class TargetList:
    """A list of GPU targets that a build uses. `name` says which (`preset ROCm 6`, `default filter`); `targets` is
    the list, or None where the build takes the GPUs of the machine that builds; `regex` is what a filter asks for;
    `default_only` says that it applies only where nobody gave a list. `builds_release` when the release's own recipe
    uses it."""

    name: str
    backend: str
    targets: tuple[str, ...] | None
    regex: str
    default_only: bool
    builds_release: bool
    place: Place


@dataclass(frozen=True, slots=True)
class Deletion:
    """A recipe's line that removes files: `pattern` is a shell pattern of the file names."""

    pattern: str
    place: Place


@dataclass(frozen=True, slots=True)
class EnvRead:
    """A variable's places: where it is read by the program, where it is only set for a child."""

    name: str
    read_at: tuple[Place, ...]
    set_at: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class MacroFact:
    """What a compile path is for a target: `name` (`dp4a`, `wave size`, ...), `value`, and the line that decides."""

    name: str
    value: str
    place: Place


@dataclass(frozen=True, slots=True)
class SourceBuild:
    """One tree: `name` as the user called it, `rev`, its runtime (`ollama`, `llama.cpp`, or empty)."""

    name: str
    rev: str
    runtime: str
    lists: tuple[TargetList, ...]
    deletions: tuple[Deletion, ...]
    reads: tuple[EnvRead, ...]
    macros: dict[str, tuple[MacroFact, ...]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
