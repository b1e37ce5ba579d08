"""What a recipe is judged against, and how a place in it is cited."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from stillruns.model.installed import NAMED, HelpOption, Installed, SourceRead, StringHit
from stillruns.model.lint import Citation
from stillruns.model.option_row import OptionReader, OptionRow, Options, Owner, ReleaseFlag, Searched
from stillruns.model.recipe import Command, Item, Recipe, Scope

FAMILY = ("llama-", "ggml-")
"""How the programs of llama.cpp begin."""


@dataclass(frozen=True, slots=True)
class Option:
    """A flag of one program, from its help text or from the catalogue. `repeat` is append, last, switch or removed:
    the program still lists it, only to stop at it and to say what to use `instead`."""

    names: tuple[str, ...]
    negatives: tuple[str, ...]
    takes_value: bool
    hint: str
    values: tuple[str, ...]
    default: str
    about: str
    env: str
    repeat: str
    deprecated: bool
    instead: str
    cited: Citation
    takes: str = ""
    """What the handler of the newest release makes of the value: `integer`, `number`, `integers`, or empty."""


@dataclass(frozen=True, slots=True)
class Ground:
    """`installed` by program; `sources` are the reads of the trees that were given, by name; `release` what the user
    says is installed, or empty."""

    options: Options
    installed: Mapping[str, Installed]
    sources: Mapping[str, tuple[SourceRead, ...]]
    source_names: tuple[str, ...] = ()
    release: str = ""
    targets: frozenset[str] = frozenset()
    """Every GPU target that has a name (`gfx906`); empty: not known."""
    _sets: dict[str, tuple[Option, ...]] = field(default_factory=dict)
    _names: dict[str, dict[str, Option]] = field(default_factory=dict)
    _inside: list[Ground] = field(default_factory=list)

    def of(self, scope: Scope) -> Ground:
        """For what runs in a container: without the programs that were found on the host's PATH."""
        if scope is not Scope.CONTAINER:
            return self
        if not self._inside:
            named = {name: engine for name, engine in self.installed.items() if engine.found_by == NAMED}
            self._inside.append(replace(self, installed=named, _sets={}, _names={}, _inside=[]))
        return self._inside[0]

    def program(self, name: str) -> str:
        """The name that the program of this recipe has today (`main` is `llama-cli`)."""
        row = self.options.find("program", name)
        return row.use if row is not None and row.use else name

    def options_of(self, program: str) -> tuple[Option, ...]:
        """The flags of a program: from its own help, else from the newest release that the catalogue knows; empty for
        a program that neither knows."""
        return tuple(option for option in self._all(program) if option.repeat != "removed")

    def gone(self, program: str, name: str) -> Option | None:
        """The option of that name (a flag or its variable) that the program lists only to stop at it."""
        listed = (option for option in self._all(program) if option.repeat == "removed")
        return next((o for o in listed if fold(name) in o.names or name == o.env), None)

    def _all(self, program: str) -> tuple[Option, ...]:
        name = self.program(program)
        if name not in self._sets:
            self._sets[name] = self._options(name)
        return self._sets[name]

    def _options(self, name: str) -> tuple[Option, ...]:
        engine = self.installed.get(name)
        if engine is not None and engine.options:
            return tuple(self._from_help(engine, option) for option in engine.options)
        if not name.startswith(FAMILY):
            return ()
        return tuple(_from_release(flag) for flag in self.options.flags if takes(flag, name))

    def _from_help(self, engine: Installed, option: HelpOption) -> Option:
        release = next(
            (
                flag
                for flag in self.options.flags
                if takes(flag, engine.program) and set(flag.names) & set(option.names)
            ),
            None,
        )
        repeat = release.repeat if release else ("last" if option.hint else "switch")
        if option.removed:
            repeat = "removed"
        elif repeat == "removed":  # gone in the newest release, and alive in this build
            repeat = "last" if option.hint else "switch"
        return Option(
            names=option.names,
            negatives=option.negatives,
            takes_value=bool(option.hint),
            hint=option.hint,
            values=option.values,
            default=option.default,
            about=option.about,
            env=option.env,
            repeat=repeat,
            deprecated=option.deprecated,
            instead=option.instead,
            cited=cite_help(engine, option),
            takes=release.takes if release else "",
        )

    def option(self, program: str, name: str) -> Option | None:
        """The option of that (folded) name."""
        name_today = self.program(program)
        if name_today not in self._names:
            options = reversed(self.options_of(program))
            self._names[name_today] = {each: option for option in options for each in option.names}
        return self._names[name_today].get(fold(name))

    def by_env(self, program: str, env: str) -> Option | None:
        """The option that an environment variable sets."""
        return next((option for option in self.options_of(program) if env and option.env == env), None)

    def is_llama(self, program: str) -> bool:
        """Whether the program parses its arguments as llama.cpp's tools do."""
        name = self.program(program)
        return name.startswith("llama-") and name not in ("llama-quantize", "llama-gguf-split")

    def engines(self, programs: Iterable[str]) -> list[Installed]:
        """What is installed of these programs."""
        names = {self.program(name) for name in programs}
        return [engine for name, engine in self.installed.items() if name in names and engine.problem is None]

    def readers(self, name: str, kind: str) -> list[OptionReader]:
        """Computed rows of that exact name and kind."""
        return self.options.reading(kind, name)

    def searched(self, kind: str, name: str) -> list[Searched]:
        """What was searched for names like this."""
        return [row for row in self.options.searched if row.kind == kind and name.startswith(row.prefix)]


@dataclass(frozen=True, slots=True)
class Case:
    """One item in its recipe."""

    recipe: Recipe
    item: Item

    @property
    def command(self) -> Command | None:
        """The command that it belongs to, if any."""
        return self.recipe.commands[self.item.command] if self.item.command >= 0 else None

    @property
    def said(self) -> str:
        """`recipe.sh:12`."""
        return f"{self.recipe.path}:{self.item.line}"


def fold(name: str) -> str:
    """llama.cpp's parsers take `--gpu_layers` as `--gpu-layers` (common/arg.cpp:826-828 at b11434)."""
    return name.replace("_", "-") if name.startswith("--") else name


def takes(flag: ReleaseFlag, program: str) -> bool:
    """Whether a program takes this flag; `*` stands for all but llama-bench, which has a parser of its own."""
    return program in flag.programs or (
        "*" in flag.programs and program.startswith("llama-") and program != "llama-bench"
    )


def _from_release(flag: ReleaseFlag) -> Option:
    choice = re.fullmatch(r"[\[{<]([\w.+-]+(?:[|,][\w.+-]+)+)[\]}>]", flag.hint)
    values = tuple(re.split(r"[|,]", choice.group(1))) if choice and ".." not in flag.hint else flag.choices
    text = f"{' '.join(flag.names)} {flag.hint}".strip()
    return Option(
        names=(*flag.names, *flag.negatives),
        negatives=flag.negatives,
        takes_value=flag.repeat not in ("switch", "removed"),
        hint="" if flag.repeat == "removed" else flag.hint,
        values=values,
        default="",
        about="",
        env=flag.env,
        repeat=flag.repeat,
        deprecated=False,
        instead=flag.hint if flag.repeat == "removed" else "",
        cited=Citation("catalogue", f"catalogue/{flag.place}", text, flag.reader),
        takes=flag.takes,
    )


def cite_help(engine: Installed, option: HelpOption) -> Citation:
    """A line of the program's own help."""
    return Citation("help", f"{engine.program} --help:{option.line}", option.text, engine.path)


def cite_whole_help(engine: Installed, name: str) -> Citation:
    """That the whole help does not name something."""
    count = len(engine.options)
    text = f"lists {count} options, none of them {name}"
    return Citation("help", f"{engine.program} --help:1-{len(engine.help)}", text, engine.path)


def cite_row(row: OptionRow) -> Citation:
    """A curated row of the catalogue, with what it rests on."""
    said = "; ".join(part for part in (row.status.value, row.until, row.notes) if part)
    return Citation("catalogue", f"catalogue/{row.place}", f"{row.name}: {said}"[:300], row.source)


def cite_reader(reader: OptionReader) -> Citation:
    """A computed row: the line that reads the name."""
    return Citation("source", reader.reader, reader.text, f"catalogue/{reader.place}")


def cite_source(read: SourceRead) -> Citation:
    """A line of a tree that the user gave."""
    return Citation("source", read.place, read.text, read.project)


def cite_string(engine: Installed, hit: StringHit) -> Citation:
    """A string in a file, and the symbol through which that file reads the environment."""
    file = next((file for file in engine.files if file.path == hit.path), None)
    symbol = file.reads_environment if file else None
    how = f"a string of its own; the file imports {symbol[0]} (@{symbol[1]:#x})" if symbol else "a string of its own"
    digest = file.sha256 if file else ""
    return Citation("string", f"{hit.path}@{hit.offset:#x}", f"{hit.text}: {how}", digest)


def cite_searched(rows: Iterable[Searched]) -> list[Citation]:
    """What was searched in vain."""
    return [
        Citation(
            "searched",
            f"catalogue/{row.place}",
            f"{row.releases} release(s) searched, {row.first} .. {row.last}",
            row.source,
        )
        for row in rows
    ]


def cite_files(engine: Installed, name: str) -> Citation:
    """That none of a program's files holds a name."""
    text = f"{len(engine.files)} files of {engine.program} hold no string {name}"
    return Citation("string", engine.path, text, ", ".join(file.path for file in engine.files[:12]))


def loaded(engine: Installed, owner: Owner) -> str | None:
    """The file of an installed program that belongs to an owner, or None."""
    if not owner.sign:
        return engine.path if engine.program in owner.programs else None
    for file in engine.files:
        if re.search(owner.sign, file.path.rsplit("/", 1)[-1]):
            return file.path
    return None
