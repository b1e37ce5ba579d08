"""One row of the shipped catalogue of options: a name, who reads it, in which releases, with what source."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Status(str, Enum):
    """What the newest release that was read does with the name."""

    CURRENT = "current"
    DEPRECATED = "deprecated"
    RENAMED = "renamed"
    REMOVED = "removed"
    CHANGED = "changed"
    NEVER = "never existed"
    NO_READER = "no reader"


class Semantics(str, Enum):
    """How a value is taken."""

    PRESENCE = "presence"
    """Set at all means on, whatever the value, also 0 and the empty text."""
    ATOI = "atoi"
    """An integer by C's atoi: text that is no number counts as 0."""
    INTEGER = "integer"
    BOOL = "bool"
    ONE = "one"
    """Only the text 1 switches it on."""
    ENUM = "enum"
    WORDS = "words"
    """Words with commas between them; one that is not known is passed over without a word."""
    DURATION = "duration"
    """Go's time.ParseDuration, or whole seconds; anything else leaves the default."""
    INDICES = "indices"
    GFX = "gfx version"
    TEXT = "text"
    CMAKE = "cmake"
    FLAG = "flag"
    """As the flag that it stands for."""


@dataclass(frozen=True, slots=True)
class OptionRow:
    """`kind` is env, flag, cmake, make or program; `owner` who reads it (an id of owners.csv, or `none`);
    `values` the accepted values separated by `|`; `since` and `until` releases or ranges as the source tells them;
    `use` what to write instead; `place` is `table.csv:line` in this package."""

    kind: str
    name: str
    owner: str
    status: Status
    semantics: Semantics
    values: str
    default: str
    effect: str
    since: str
    until: str
    use: str
    reader: str
    notes: str
    source: str
    read_on: str
    build: bool
    place: str


@dataclass(frozen=True, slots=True)
class Owner:
    """Who reads options: `sign` is a regular expression over the names of the files that a program loads (empty: the
    owner is a program of its own), `programs` those that belong to it, `not_seen` what its absence means."""

    id: str
    title: str
    sign: str
    programs: tuple[str, ...]
    source: str
    place: str


@dataclass(frozen=True, slots=True)
class ReleaseFlag:
    """A flag of one release, computed from its source: which programs take it, its environment variable, whether
    it takes a value, and whether a second one adds to or replaces the first."""

    names: tuple[str, ...]
    negatives: tuple[str, ...]
    hint: str
    env: str
    programs: tuple[str, ...]
    repeat: str
    takes: str
    """`integer`, `number`, `integers` (a list of integers and ranges), or empty: any text."""
    choices: tuple[str, ...]
    """The words that are taken, where every other is refused (but integers, where `takes` says so); else empty."""
    reader: str
    place: str


@dataclass(frozen=True, slots=True)
class OptionReader:
    """A line of a release that reads, sets or declares a name (computed), or the range of releases that do."""

    name: str
    kind: str
    owner: str
    first: str
    last: str
    reader: str
    text: str
    place: str


@dataclass(frozen=True, slots=True)
class Searched:
    """What was searched for a kind of name: the ground of every `never existed`."""

    kind: str
    prefix: str
    owner: str
    first: str
    last: str
    releases: int
    source: str
    place: str


@dataclass(frozen=True, slots=True)
class EnvValue:
    """The releases `since` to `until` (empty: the first, the newest that was read) that take a value of a variable,
    and what comes of it (`effect`, may be empty). `value` may hold `*` and `?`; a row whose value is `*` says what
    those releases do with every value that they do not take."""

    name: str
    value: str
    since: str
    until: str
    effect: str
    source: str
    place: str


@dataclass(frozen=True, slots=True)
class Options:
    """The whole catalogue of options."""

    rows: tuple[OptionRow, ...]
    owners: tuple[Owner, ...]
    flags: tuple[ReleaseFlag, ...]
    readers: tuple[OptionReader, ...]
    searched: tuple[Searched, ...]
    images: dict[str, str]
    env_values: tuple[EnvValue, ...] = ()
    _rows: dict[tuple[str, str], OptionRow] = field(default_factory=dict, compare=False, repr=False)
    _readers: dict[tuple[str, str], list[OptionReader]] = field(default_factory=dict, compare=False, repr=False)

    def find(self, kind: str, name: str) -> OptionRow | None:
        """The curated row of that kind and exact name, or None."""
        if not self._rows:
            self._rows.update({(row.kind, row.name): row for row in self.rows})
        return self._rows.get((kind, name))

    def reading(self, kind: str, name: str) -> list[OptionReader]:
        """The computed rows of that kind and exact name."""
        if not self._readers:
            for reader in self.readers:
                self._readers.setdefault((reader.kind, reader.name), []).append(reader)
        return list(self._readers.get((kind, name), ()))

    def owner(self, name: str) -> Owner | None:
        """The owner with that id."""
        return next((owner for owner in self.owners if owner.id == name), None)
