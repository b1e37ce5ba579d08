"""The strict loader of what `trace` knows beforehand: bridges between languages and processes, and specs.

`trace_bridges.toml` holds the bridges; every `trace_<option>.toml` holds one spec. An unknown key, a missing source,
a bad regular expression or a variant that names a stage that its spec lacks raises CatalogueError with the place.
"""

from __future__ import annotations

import re
import sys
from dataclasses import fields
from functools import cache
from typing import Any

from stillruns.catalogue import shipped
from stillruns.errors import CatalogueError
from stillruns.model.trace import Bridges, ExpectedStage, TraceSpec, Variant

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]

_BRIDGES = "trace_bridges.toml"
_LIMITS = ("hub_functions", "max_depth", "max_rows", "max_file_bytes")
_PLACEHOLDER = re.compile(r"\{([a-z0-9-]+)\}")


@cache
def bridges() -> Bridges:
    """The bridges; every list of names is a set, path patterns stay in order."""
    data = _parse(_BRIDGES)
    limits = data.pop("limits", {})
    names = {f.name for f in fields(Bridges)}
    _keys(_BRIDGES, "bridges", {*data, *limits}, names, names)
    values: dict[str, Any] = {}
    for key, value in data.items():
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise CatalogueError(f"{_BRIDGES}: {key} must be a list of names.")
        values[key] = tuple(_regex(_BRIDGES, v) for v in value) if key.endswith("_paths") else frozenset(value)
    for key in _LIMITS:
        if not isinstance(limits.get(key), int):
            raise CatalogueError(f"{_BRIDGES}: limits.{key} must be a number.")
        values[key] = limits[key]
    return Bridges(**values)


@cache
def specs() -> dict[str, TraceSpec]:
    """Option (and each alias) -> its spec."""
    found: dict[str, TraceSpec] = {}
    for file in shipped.names("trace_"):
        if re.fullmatch(r"trace_(?!bridges)\w+\.toml", file):
            spec = _spec(file, _parse(file))
            for name in (spec.option, *spec.aliases):
                if name in found:
                    raise CatalogueError(f"{file}: {name} has a spec already ({found[name].option}).")
                found[name] = spec
    return found


def _parse(file: str) -> dict[str, Any]:
    text = shipped.text(file)
    try:
        return dict(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise CatalogueError(f"{file}: {error}.") from error


def _keys(file: str, entry: str, given: set[str], required: set[str], allowed: set[str]) -> None:
    if missing := sorted(required - given):
        raise CatalogueError(f"{file}: {entry} lacks {', '.join(missing)}.")
    if unknown := sorted(given - allowed):
        raise CatalogueError(f"{file}: {entry} has unknown keys: {', '.join(unknown)}.")


def _regex(file: str, pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise CatalogueError(f"{file}: {pattern!r} is no regular expression: {error}.") from error
    return pattern


def _spec(file: str, data: dict[str, Any]) -> TraceSpec:
    required = {"option", "subject", "source", "read_on"}
    _keys(file, "the spec", set(data), required, required | {"aliases", "stages", "meaning", "is_not", "stops"})
    stages = tuple(_stage(file, entry) for entry in data.get("stages", ()))
    ids = {s.id for s in stages}
    if len(ids) != len(stages):
        raise CatalogueError(f"{file}: two stages have the same id.")
    meanings = tuple(_variant(file, entry, ids) for entry in data.get("meaning", ()))
    denials = tuple(_variant(file, entry, ids) for entry in data.get("is_not", ()))
    return TraceSpec(
        option=data["option"],
        aliases=tuple(data.get("aliases", ())),
        subject=data["subject"],
        stages=stages,
        meanings=meanings,
        is_not=denials,
        stops=tuple(data.get("stops", ())),
        source=data["source"],
        read_on=str(data["read_on"]),
    )


def _stage(file: str, entry: dict[str, Any]) -> ExpectedStage:
    required = {"id", "roles", "path", "last_seen"}
    _keys(file, f"stage {entry.get('id', '?')}", set(entry), required, required | {"code"})
    return ExpectedStage(
        entry["id"], tuple(entry["roles"]), entry["path"], _regex(file, entry.get("code", "")), entry["last_seen"]
    )


def _variant(file: str, entry: dict[str, Any], ids: set[str]) -> Variant:
    _keys(file, "a variant", set(entry), {"text"}, {"text", "when", "unless"})
    made = Variant(tuple(entry.get("when", ())), tuple(entry.get("unless", ())), entry["text"])
    named = {*made.when, *made.unless, *_PLACEHOLDER.findall(made.text)}
    if strange := sorted(named - ids):
        raise CatalogueError(f"{file}: a variant names stages that the spec lacks: {', '.join(strange)}.")
    if loose := sorted(set(_PLACEHOLDER.findall(made.text)) - set(made.when)):
        raise CatalogueError(f"{file}: a variant quotes stages that it does not require: {', '.join(loose)}.")
    return made
