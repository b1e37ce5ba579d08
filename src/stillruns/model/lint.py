"""The answer of `lint`: does anything read this, and the value given?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from stillruns.model.recipe import ItemKind


class Reading(str, Enum):
    """The verdict on a name."""

    READ = "read"
    RENAMED = "renamed"
    REMOVED = "removed"
    BUILD_TIME = "build-time only"
    PRESENCE = "presence only"
    WRONG_INDEX = "wrong index"
    OTHER = "other program"
    NEVER = "never existed"
    NOT_FOUND = "not found"
    CONFLICT = "conflict"


class ValueReading(str, Enum):
    """The verdict on a value; None where there is no value or nothing says what is accepted."""

    OK = "ok"
    NOT_ACCEPTED = "not accepted"
    NO_EFFECT = "no effect"
    OTHER_MEANING = "other meaning"


@dataclass(frozen=True, slots=True)
class Citation:
    """Where a verdict rests: `place` is `file:line@rev`, `llama-server --help:96`, `libggml.so@0x1f40` or
    `catalogue/flags.csv:12`; `text` what stands there; `source` for a catalogue row what the row itself rests on."""

    kind: str
    place: str
    text: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class LintItem:
    """One verdict. `said` is where the recipe says it (`recipe.sh:12`); `effect` what it does in one sentence;
    `use` what to write instead; `evidence` is never empty."""

    kind: ItemKind
    name: str
    value: str | None
    program: str
    said: str
    verdict: Reading
    value_verdict: ValueReading | None
    why: str
    reader: str | None
    effect: str
    default: str
    accepts: str
    since: str | None
    until: str | None
    use: str | None
    evidence: tuple[Citation, ...]

    @property
    def good(self) -> bool:
        """Whether the answer is yes: it is read, and its value does what it says."""
        if self.verdict is Reading.PRESENCE:
            return self.value_verdict is ValueReading.OK
        return self.verdict is Reading.READ and self.value_verdict in (None, ValueReading.OK)


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of the corrected recipe, with its reason."""

    line: int
    before: str
    after: str
    why: str


@dataclass(frozen=True, slots=True)
class Against:
    """What the recipe was judged against: a program on this machine, a source tree, or the catalogue."""

    name: str
    how: str
    version: str
    place: str


@dataclass(frozen=True, slots=True)
class LintResult:
    """`corrected` is the recipe to paste (None when nothing had to change); `notes` what was not judged and why."""

    recipe: str
    form: str
    against: tuple[Against, ...]
    items: tuple[LintItem, ...]
    edits: tuple[Edit, ...]
    corrected: str | None
    notes: tuple[str, ...]
    still_open: tuple[str, ...] = ()
    """What the corrected recipe still leaves to the user, each with its line in the corrected text."""

    @property
    def clean(self) -> bool:
        """Whether every name is read and every value accepted."""
        return all(item.good for item in self.items)
