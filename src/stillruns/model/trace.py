"""An option followed through source trees: the rows found, the stages a person reads, the shipped knowledge."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SourceRef:
    """A tree that was searched. `rev` is a commit, or `work tree of <commit>`, or `files`; `tree` digests its
    content; `asked` is the revision as it was asked for (`v0.17.5`), empty for a work tree."""

    name: str
    rev: str
    tree: str
    asked: str = ""
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a tree: bytes, and the digest that names them in the cache."""

    project: str
    path: str
    data: bytes
    blob: str


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One line that the value touches. `role` is a word of docs/trace.md; `depth` counts hops from the entry;
    `derived` is True for a value computed from the option rather than the option itself."""

    project: str
    path: str
    line: int
    role: str
    function: str
    symbol: str
    to: str
    depth: int
    derived: bool
    code: str


@dataclass(frozen=True, slots=True)
class Stage:
    """Rows of one function that belong together, as one line of the table. `lines` are all of its rows' lines."""

    stage: str
    project: str
    file: str
    line: int
    code: str
    effect: str
    special: tuple[str, ...]
    function: str
    lines: tuple[int, ...]
    on_path: bool
    expected: str = ""


@dataclass(frozen=True, slots=True)
class Expected:
    """A stage that a trace spec knows. `status` is found, moved (other file than last seen) or missing."""

    id: str
    status: str
    place: str
    last_seen: str


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence with the places (`project:file:line`) that it rests on."""

    text: str
    refs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """The answer for one option in one set of trees."""

    option: str
    sources: tuple[SourceRef, ...]
    stages: tuple[Stage, ...]
    folded: tuple[TraceRow, ...]
    rows: tuple[TraceRow, ...]
    meaning: Statement
    is_not: tuple[Statement, ...]
    unknown: tuple[str, ...]
    expected: tuple[Expected, ...]
    stops: tuple[str, ...]
    near: tuple[str, ...]
    searched: tuple[str, ...]
    elsewhere: tuple[tuple[str, int], ...]
    hits: int
    notes: tuple[str, ...] = ()

    @property
    def found(self) -> bool:
        """Does any source tree know the name?"""
        return bool(self.rows)


@dataclass(frozen=True, slots=True)
class Bridges:
    """Where a value crosses a border that no data flow shows: languages, processes, reflection. All of it is data
    (`catalogue/data/trace_bridges.toml`); every set holds plain names as they stand in the source."""

    passes: frozenset[str]
    clips: frozenset[str]
    accessors: frozenset[str]
    appenders: frozenset[str]
    logs: frozenset[str]
    log_receivers: frozenset[str]
    spawns: frozenset[str]
    flag_definitions: frozenset[str]
    flag_tables: frozenset[str]
    env_readers: frozenset[str]
    lookups: frozenset[str]
    whole_compares: frozenset[str]
    reflect_tags: frozenset[str]
    stop_fields: frozenset[str]
    stop_locals: frozenset[str]
    other_owners: frozenset[str]
    skip_paths: tuple[str, ...]
    aside_paths: tuple[str, ...]
    hub_functions: int
    max_depth: int
    max_rows: int
    max_file_bytes: int


@dataclass(frozen=True, slots=True)
class ExpectedStage:
    """How to recognise a stage of a spec: any of `roles`, in a path that ends with `path` (may be empty), with
    `code` (a regular expression) in its line."""

    id: str
    roles: tuple[str, ...]
    path: str
    code: str
    last_seen: str


@dataclass(frozen=True, slots=True)
class Variant:
    """A reading that holds when all stages in `when` were found and none in `unless`. `text` may name `{stage-id}`,
    which is replaced by that stage's place."""

    when: tuple[str, ...]
    unless: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class TraceSpec:
    """What is known about one option: names it goes by, stages, readings by version, and common misreadings."""

    option: str
    aliases: tuple[str, ...]
    subject: str
    stages: tuple[ExpectedStage, ...]
    meanings: tuple[Variant, ...]
    is_not: tuple[Variant, ...]
    stops: tuple[str, ...]
    source: str
    read_on: str
    default: str = ""
    extra: dict[str, str] = field(default_factory=dict)
