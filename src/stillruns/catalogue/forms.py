"""The five forms of a catalogue entry, and what makes an entry invalid."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

import msgspec

from stillruns.catalogue.regexes import RegexRefused, check, check_linear
from stillruns.errors import CatalogueError
from stillruns.model.backend import Backend
from stillruns.model.card_name import CardName
from stillruns.model.expression import Expression
from stillruns.model.outcome import OutcomeKind
from stillruns.model.pattern import CrashPattern, GrammarRule
from stillruns.model.phase import Phase
from stillruns.model.workaround import KnownIssue, Workaround

_T = TypeVar("_T", bound=msgspec.Struct)
_ID = Expression(r"[a-z0-9][a-z0-9._-]*\Z")
_DAY = Expression(r"\d{4}-\d{2}-\d{2}\Z")
_EVIDENCE = ("measured", "source", "reported", "folklore")
_ORIGINS = ("real", "composed")


class _Named(Protocol):
    @property
    def id(self) -> str:
        """The entry's name."""


def document(file: str, data: bytes) -> dict[str, Any]:
    """One data file as TOML."""
    if sys.version_info >= (3, 11):  # here, since files that were checked before need no parser
        import tomllib
    else:  # pragma: no cover
        import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]
    try:
        parsed: dict[str, Any] = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CatalogueError(f"the catalogue file {file} cannot be read: {error}; reinstall stillruns.") from error
    return parsed


def table(file: str, document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The array of tables `[[name]]`, the only top-level key that a catalogue file may have."""
    if set(document) != {name}:
        raise CatalogueError(f"{file} must hold [[{name}]] tables and nothing else, but has {sorted(document)}.")
    entries = document[name]
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise CatalogueError(f"{file}: {name} is not an array of tables.")
    return entries


def unique(what: str, entries: Iterable[_Named]) -> None:
    """Raise CatalogueError when two entries share an id."""
    seen: set[str] = set()
    for entry in entries:
        if entry.id in seen:
            raise CatalogueError(f"{what}: the id {entry.id} is there twice; give one of them another.")
        seen.add(entry.id)


def read_rule(file: str, entry: dict[str, Any]) -> GrammarRule:
    """A `[[rule]]` of a log grammar. `phase`, `since` and `until` may be left out (none, any version)."""
    rule = convert(file, {"phase": None, "since": "", "until": "", **entry}, GrammarRule)
    say(file, rule.id, event=rule.event, source=rule.source)
    _regex(file, rule.id, rule.regex, rule.anchor)
    for border in (rule.since, rule.until):
        if border and not re.match(r"(?:b\d+|\d+(?:\.\d+)*)\Z", border):
            raise CatalogueError(f"{file}, {rule.id}: {border!r} is not a version (b4000 or 0.12.4).")
    return rule


def read_pattern(file: str, entry: dict[str, Any]) -> CrashPattern:
    """A `[[pattern]]`: a line that explains a failure. `phase` may be left out."""
    pattern = convert(file, {"phase": None, **entry}, CrashPattern)
    say(
        file,
        pattern.id,
        explanation=pattern.explanation,
        next_step=pattern.next_step,
        source=pattern.source,
        components=pattern.components,
    )
    _regex(file, pattern.id, pattern.regex, pattern.anchor)
    if pattern.harmless_when:
        _compile(file, pattern.id, pattern.harmless_when)
    if pattern.origin not in _ORIGINS:
        raise CatalogueError(f"{file}, {pattern.id}: origin is {pattern.origin!r}; write real or composed.")
    return pattern


def read_workaround(file: str, entry: dict[str, Any]) -> Workaround:
    """A `[[workaround]]`. What it applies to and the machine-readable change may be left out."""
    empty: dict[str, Any] = {"targets": [], "runtimes": [], "backends": [], "set_env": {}, "set_args": []}
    found = convert(file, {**empty, **entry}, Workaround)
    say(
        file,
        found.id,
        title=found.title,
        change=found.change,
        mechanism=found.mechanism,
        verify=found.verify,
        undo=found.undo,
        risk=found.risk,
        sources=found.sources,
    )
    day(file, found.id, found.read_on)
    if found.evidence not in _EVIDENCE:
        raise CatalogueError(f"{file}, {found.id}: evidence is {found.evidence!r}; write one of {_EVIDENCE}.")
    return found


def read_issue(file: str, entry: dict[str, Any]) -> KnownIssue:
    """An `[[issue]]` that upstream knows. Conditions that do not apply and versions not known are left out."""
    empty: dict[str, Any] = {
        "runtimes": [],
        "backends": [],
        "targets": [],
        "versions_from": None,
        "versions_until": None,
        "fixed_in": None,
        "signatures": [],
    }
    found = convert(file, {**empty, **entry}, KnownIssue)
    say(file, found.id, title=found.title, text=found.text, sources=found.sources)
    for regex in (*found.lines, *found.drivers):
        _linear(file, found.id, regex)
    for key, known in (("outcomes", OutcomeKind), ("phases", Phase), ("backends", Backend)):
        for name in getattr(found, key):
            if name not in {member.value for member in known}:
                raise CatalogueError(f"{file}, {found.id}: {name!r} is none of the known {key}.")
    if (found.versions_from or found.versions_until or found.fixed_in) and len(found.runtimes) != 1:
        raise CatalogueError(f"{file}, {found.id}: versions are those of one runtime; name exactly one.")
    day(file, found.id, found.read_on)
    return found


def read_card_names(file: str, group: dict[str, Any]) -> tuple[CardName, ...]:
    """A table of card names: `source`, and `names` as pairs of a name and its target."""
    if set(group) != {"source", "names"}:
        raise CatalogueError(f"{file}: a group of card names has source and names, not {sorted(group)}.")
    try:
        pairs = msgspec.convert(group["names"], list[tuple[str, str]], strict=True)
        source = msgspec.convert(group["source"], str, strict=True)
    except msgspec.ValidationError as error:
        raise CatalogueError(f"{file}: {error}.") from error
    for name, target in pairs:
        if not re.fullmatch(r"gfx[0-9a-f]{3,4}|sm_\d{2,3}", target) or len(name) < 6:
            raise CatalogueError(f"{file}: {name!r} or {target!r} is too short or no target.")
    return tuple(CardName(name, target, source) for name, target in pairs)


def convert(file: str, entry: dict[str, Any], form: type[_T]) -> _T:
    """The entry as an instance of `form`: no key unknown, none missing, each of its type."""
    name = entry.get("id", "an entry without an id")
    known = {field.name: field for field in msgspec.structs.fields(form)}
    for key in entry:
        if key not in known:
            raise CatalogueError(f"{file}, {name}: {key} is not a field of {form.__name__}; remove or rename it.")
    for key, field in known.items():
        if key not in entry and field.required:
            raise CatalogueError(f"{file}, {name}: {key} is missing.")
    try:
        found = msgspec.convert(entry, form, strict=True)
    except msgspec.ValidationError as error:
        raise CatalogueError(f"{file}, {name}: {error}.") from error
    if not _ID.match(str(name)):
        raise CatalogueError(f"{file}, {name}: an id is made of a-z, 0-9, '.', '_' and '-'.")
    return found


def say(file: str, name: str, **values: str | tuple[object, ...]) -> None:
    """Fields that must say something."""
    for key, value in values.items():
        parts = value if isinstance(value, tuple) else (value,)
        if not parts or any(isinstance(part, str) and not part.strip(" -") for part in parts):
            raise CatalogueError(f"{file}, {name}: {key} is empty; say it, or leave the entry out.")


def day(file: str, name: str, written: str) -> None:
    """A day as it is written everywhere here."""
    if not _DAY.match(written):
        raise CatalogueError(f"{file}, {name}: read_on is {written!r}; write the day as 2026-11-30.")


def _linear(file: str, name: str, regex: str) -> None:
    try:
        check_linear(regex)
    except RegexRefused as error:
        raise CatalogueError(f"{file}, {name}: {error}.") from error


def _regex(file: str, name: str, regex: str, anchor: str) -> None:
    try:
        check(regex, anchor)
    except RegexRefused as error:
        raise CatalogueError(f"{file}, {name}: {error}.") from error
    _compile(file, name, regex)


def _compile(file: str, name: str, regex: str) -> None:
    try:
        re.compile(regex)
    except (re.error, RecursionError) as error:
        raise CatalogueError(f"{file}, {name}: not a regular expression: {error}.") from error
