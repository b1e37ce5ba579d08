"""The strict loader of the catalogue of options (catalogue/data/options/*.csv).

Curated tables (env_vars, flags, cmake, programs: one form) hold what a person read and wrote down; computed tables
(llama_flags, readers, searched) are written by scripts/refresh_catalogue.py from source checkouts. Any broken rule
raises CatalogueError with the file and the line.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from functools import cache

from stillruns.catalogue import shipped
from stillruns.errors import CatalogueError
from stillruns.model.option_row import (
    EnvValue,
    OptionReader,
    OptionRow,
    Options,
    Owner,
    ReleaseFlag,
    Searched,
    Semantics,
    Status,
)
from stillruns.model.version import parse as parse_version

CURATED = {"env_vars.csv": "env", "flags.csv": "flag", "cmake.csv": "cmake", "programs.csv": "program"}
"""Table -> kind of its rows."""

_COLUMNS = [
    "name",
    "owner",
    "status",
    "semantics",
    "values",
    "default",
    "effect",
    "since",
    "until",
    "use",
    "reader",
    "notes",
    "source",
    "read_on",
    "build",
]
_COMPUTED = {
    "owners.csv": ["id", "title", "sign", "programs", "source"],
    "images.csv": ["prefix", "program", "source"],
    "llama_flags.csv": ["names", "negatives", "hint", "env", "programs", "repeat", "takes", "choices", "reader"],
    "readers.csv": ["name", "kind", "owner", "first", "last", "reader", "text"],
    "env_values.csv": ["name", "value", "since", "until", "effect", "source"],
    "searched.csv": ["kind", "prefix", "owner", "first", "last", "releases", "source"],
}
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\Z")
_REPEAT = ("append", "last", "switch", "removed")


@cache
def options() -> Options:
    """The whole catalogue of options, parsed once per process."""
    owners = tuple(_owner(place, row) for place, row in _rows("owners.csv", _COMPUTED["owners.csv"]))
    known = {owner.id for owner in owners}
    rows: list[OptionRow] = []
    for file, kind in CURATED.items():
        seen: set[str] = set()
        for place, row in _rows(file, _COLUMNS):
            made = option_row(place, kind, row, known)
            if made.name in seen:
                raise CatalogueError(f"{place}: {made.name} is there twice; keep one row.")
            seen.add(made.name)
            rows.append(made)
    return Options(
        rows=tuple(rows),
        owners=owners,
        flags=tuple(_flag(place, row) for place, row in _rows("llama_flags.csv", _COMPUTED["llama_flags.csv"])),
        readers=tuple(_reader(place, row, known) for place, row in _rows("readers.csv", _COMPUTED["readers.csv"])),
        searched=tuple(_searched(p, row, known) for p, row in _rows("searched.csv", _COMPUTED["searched.csv"])),
        env_values=tuple(_value(p, row) for p, row in _rows("env_values.csv", _COMPUTED["env_values.csv"])),
        images={row["prefix"]: row["program"] for _, row in _rows("images.csv", _COMPUTED["images.csv"])},
    )


def _rows(file: str, columns: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
    yield from parse(file, shipped.text(f"options/{file}"), columns)


def parse(file: str, text: str, columns: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """(place, row) of a table; raises CatalogueError on other columns, short or long rows."""
    reader = csv.reader(io.StringIO(text), strict=True)
    try:
        head = next(reader, [])
        if head != columns:
            raise CatalogueError(f"{file}:1: the columns are {head}, they must be {columns}.")
        line = reader.line_num + 1
        for values in reader:
            place = f"{file}:{line}"
            line = reader.line_num + 1
            if len(values) != len(columns):
                raise CatalogueError(f"{place}: {len(values)} values for {len(columns)} columns.")
            yield place, {name: value.strip() for name, value in zip(columns, values, strict=True)}
    except csv.Error as error:
        raise CatalogueError(f"{file}:{reader.line_num}: {error}.") from error


def option_row(place: str, kind: str, row: dict[str, str], owners: set[str]) -> OptionRow:
    """One curated row, checked: a known status and owner, a source, a day, a reader where something reads it."""
    owner = row["owner"].split("|")
    status, semantics = _enum(place, Status, row["status"]), _enum(place, Semantics, row["semantics"])
    checks = {
        "has no name": bool(row["name"]) and " " not in row["name"].replace(" (bare)", "").removeprefix("make "),
        f"names an unknown owner {row['owner']}": all(name in owners for name in owner),
        "has no source": bool(row["source"]),
        "has no day of reading": bool(_DAY.match(row["read_on"])),
        "says that something reads it but not where": bool(row["reader"] or row["source"])
        or status not in (Status.CURRENT, Status.DEPRECATED),
        "is renamed but has no new name": status is not Status.RENAMED or bool(row["use"]),
        "was renamed or removed but not when": status not in (Status.RENAMED, Status.REMOVED) or bool(row["until"]),
        "says neither yes nor no to `build`": row["build"] in ("yes", "no"),
    }
    for complaint, fine in checks.items():
        if not fine:
            raise CatalogueError(f"{place}: {row['name'] or 'a row'} {complaint}.")
    return OptionRow(
        kind=kind,
        name=row["name"],
        owner=row["owner"],
        status=status,
        semantics=semantics,
        values=row["values"],
        default=row["default"],
        effect=row["effect"],
        since=row["since"],
        until=row["until"],
        use=row["use"],
        reader=row["reader"],
        notes=row["notes"],
        source=row["source"],
        read_on=row["read_on"],
        build=row["build"] == "yes",
        place=place,
    )


def _enum(place: str, kind: type, value: str):  # type: ignore[no-untyped-def]
    try:
        return kind(value)
    except ValueError:
        raise CatalogueError(f"{place}: {value!r} is no {kind.__name__.lower()}.") from None


def _owner(place: str, row: dict[str, str]) -> Owner:
    try:
        re.compile(row["sign"])
    except re.error as error:
        raise CatalogueError(f"{place}: {row['sign']!r} is no regular expression: {error}.") from error
    if not row["source"] or not row["title"]:
        raise CatalogueError(f"{place}: {row['id']} has no source or no title.")
    return Owner(row["id"], row["title"], row["sign"], tuple(row["programs"].split()), row["source"], place)


def _flag(place: str, row: dict[str, str]) -> ReleaseFlag:
    names = tuple(row["names"].split())
    if not names or not all(name.startswith("-") for name in names) or row["repeat"] not in _REPEAT:
        raise CatalogueError(f"{place}: a flag needs names that begin with a dash and one of {_REPEAT}.")
    if "@" not in row["reader"]:
        raise CatalogueError(f"{place}: {names[0]} has no file:line@rev.")
    return ReleaseFlag(
        names,
        tuple(row["negatives"].split()),
        row["hint"],
        row["env"],
        tuple(row["programs"].split()),
        row["repeat"],
        row["takes"],
        tuple(filter(None, row["choices"].split("|"))),
        row["reader"],
        place,
    )


def _reader(place: str, row: dict[str, str], owners: set[str]) -> OptionReader:
    if row["owner"] not in owners or "@" not in row["reader"]:
        raise CatalogueError(f"{place}: {row['name']} has an unknown owner or no file:line@rev.")
    return OptionReader(
        row["name"], row["kind"], row["owner"], row["first"], row["last"], row["reader"], row["text"], place
    )


def _value(place: str, row: dict[str, str]) -> EnvValue:
    if not row["name"] or not row["value"] or not row["source"] or (row["value"] == "*") > bool(row["effect"]):
        raise CatalogueError(f"{place}: a value needs a variable, a source and, as `*`, an effect.")
    for border in (row["since"], row["until"]):
        if border and parse_version(border) is None:
            raise CatalogueError(f"{place}: {border!r} is no release; write it as v0.12.4.")
    return EnvValue(row["name"], row["value"], row["since"], row["until"], row["effect"], row["source"], place)


def _searched(place: str, row: dict[str, str], owners: set[str]) -> Searched:
    if row["owner"] not in owners or not row["source"] or not row["releases"].isdigit():
        raise CatalogueError(f"{place}: what was searched needs an owner, a number of releases and a source.")
    return Searched(
        row["kind"],
        row["prefix"],
        row["owner"],
        row["first"],
        row["last"],
        int(row["releases"]),
        row["source"],
        place,
    )
