"""What a program on this machine says about itself, and what its files hold."""

from __future__ import annotations

from dataclasses import dataclass, field

from stillruns.model.absence import Absence

NAMED = "named by you"
"""`found_by` of a program that the user named, in place of one that was found on PATH."""


@dataclass(frozen=True, slots=True)
class HelpOption:
    """One option of a `--help` text. `names` in its order, negative forms included; `hint` is the placeholder of its
    value (`N`, `<0|1>`, empty for a switch); `values` the accepted ones where the text lists them. `env` is the
    variable that sets it; `instead` what a deprecated option says to use. `removed`: the help still lists it, only to
    say that it is gone, and the program stops at it. `line` counts from 1; `text` is that line.
    """

    names: tuple[str, ...]
    hint: str
    values: tuple[str, ...]
    default: str
    env: str
    deprecated: bool
    instead: str
    about: str
    line: int
    text: str
    removed: bool = False

    @property
    def negatives(self) -> tuple[str, ...]:
        """Names that turn the option off: `--no-mmap` beside `--mmap`, `-nkvo` beside `-kvo`."""
        plain = {name.lstrip("-") for name in self.names}
        return tuple(
            name
            for name in self.names
            if (name.startswith("--no-") and name[5:] in plain)
            or (name.startswith("-n") and not name.startswith("--") and name[2:] in plain)
        )


@dataclass(frozen=True, slots=True)
class LibraryFile:
    """An ELF file that belongs to a program: `needed` are its DT_NEEDED names, `reads_environment` the dynamic symbol
    through which it can read variables with the symbol's offset (None: it imports none)."""

    path: str
    sha256: str
    bytes: int
    needed: tuple[str, ...]
    reads_environment: tuple[str, int] | None


@dataclass(frozen=True, slots=True)
class StringHit:
    """A NUL-terminated string found whole in a file, at that byte offset."""

    path: str
    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class Installed:
    """A program as installed. `help` is the whole text, `options` what it lists; `hits` maps a name to the places in
    `files` where it is a string of its own; `missing` are DT_NEEDED libraries that were not found."""

    program: str
    path: str
    found_by: str
    version: str
    help: tuple[str, ...]
    options: tuple[HelpOption, ...]
    files: tuple[LibraryFile, ...]
    hits: dict[str, tuple[StringHit, ...]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    problem: Absence | None = None

    def option(self, name: str) -> HelpOption | None:
        """The option of that name, or None."""
        for option in self.options:
            if name in option.names:
                return option
        return None


@dataclass(frozen=True, slots=True)
class SourceRead:
    """A place in a source tree where a name is read, set or declared.

    `kind` is one of env-read, env-set, flag, cmake-option; `detail` the accepted values, the environment variable of
    a flag or the default of a CMake option where the line tells; `names` are all spellings of a flag.
    """

    kind: str
    names: tuple[str, ...]
    project: str
    rev: str
    path: str
    line: int
    text: str
    detail: str = ""

    @property
    def place(self) -> str:
        """`common/arg.cpp:2792@b11434`."""
        return f"{self.path}:{self.line}@{self.rev}" if self.rev else f"{self.path}:{self.line}"
