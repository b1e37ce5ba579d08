"""A recipe: what somebody was told to run, taken apart into named things with places."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

UNEXPORTED = "not exported"
"""`how` of a shell variable that is set and never exported: no program that the script starts sees it."""


BUILDERS = frozenset(
    {"cmake", "make", "gmake", "ninja", "meson", "go", "cargo", "pip", "pip3", "uv", "python", "python3", "hipconfig"}
)
"""Programs that compile something, or start what does: variables before them are a build's."""


class RecipeForm(str, Enum):
    """How a recipe is written."""

    COMMAND = "command"
    SHELL = "shell"
    UNIT = "unit"
    DOCKERFILE = "dockerfile"
    COMPOSE = "compose"
    MARKDOWN = "markdown"
    CONFIG = "config"


class ItemKind(str, Enum):
    """What a name in a recipe is (DESIGN, `stillruns.lint/1`)."""

    FLAG = "flag"
    ENV = "env"
    CMAKE = "cmake"
    PROGRAM = "program"
    CONFIG = "config"


class Scope(str, Enum):
    """Who gets to see a setting."""

    COMMAND = "command"
    """One command line, or the variables before it."""
    SESSION = "session"
    """Exported in a script: everything that the script starts afterwards."""
    SERVICE = "service"
    """A systemd unit: the service, and nothing that a user starts."""
    CONTAINER = "container"
    """Inside the container only."""
    LOGIN = "login"
    """~/.bashrc and its kind: interactive shells, never a service that systemd starts."""
    BUILD = "build"
    """While something is compiled."""
    FILE = "file"
    """A configuration file that a program reads by itself."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command: `text` after quotes are removed and known variables filled in; `start`, `end` are
    offsets in characters into the file. `dynamic` words hold something that only running would tell (`$(...)`,
    a variable that nothing in the recipe sets); `literal` words stood in quotes."""

    text: str
    start: int
    end: int
    line: int
    dynamic: bool = False
    literal: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """One named thing. `name` is as written; `value` None where there is none or where only running would tell
    (`dynamic`). `command` is the index of the command that it belongs to, or -1 for a setting that stands alone.

    `start`, `end` span everything that would go away with it; `name_start`, `name_end` the name alone. `joined` is
    a flag written `--flag=value`; `follows` the raw next word of a flag, whether it is its value or not; `style` how
    the file separates words here (`shell`, `json`, `line`).
    """

    kind: ItemKind
    name: str
    value: str | None
    line: int
    start: int
    end: int
    name_start: int
    name_end: int
    command: int
    scope: Scope
    how: str
    dynamic: bool = False
    joined: bool = False
    follows: Word | None = None
    style: str = "shell"


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the recipe: `program` is the base name of the word that names it, `written` the word itself.

    `words` are the arguments. `style` is `shell`, or `json` for an exec form. `client` is true for a program that
    only talks to a server (`ollama run`). `without` are variables that were taken away from it (`unset`, `env -u`);
    `*` stands for all (`env -i`)."""

    program: str
    written: Word
    words: tuple[Word, ...]
    line: int
    scope: Scope
    style: str = "shell"
    client: bool = False
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment, or a line of prose in a page: what a person claims about the recipe."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class RecipeNote:
    """A part that was not understood: one sentence and its line."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Recipe:
    """`path` as the user gave it (`-` for standard input, `command line` for words after `--`). `unexported` are
    shell variables that are no variables of any program, though they may be meant as such."""

    path: str
    form: RecipeForm
    text: str
    items: tuple[Item, ...]
    commands: tuple[Command, ...]
    comments: tuple[Comment, ...]
    notes: tuple[RecipeNote, ...]
    unexported: tuple[Item, ...] = ()
    _by_command: dict[int, list[Item]] = field(default_factory=dict, compare=False, repr=False)

    def of_command(self, index: int) -> list[Item]:
        """The items of one command, in order; -1: those that belong to none."""
        if not self._by_command:
            self._by_command[-1] = []
            for item in self.items:
                self._by_command.setdefault(item.command, []).append(item)
        return self._by_command.get(index, [])
