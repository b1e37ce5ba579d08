"""The strict loader of the data that ships with the package.

Everything is read with importlib.resources, parsed once per process and only when it is asked for. A file that breaks
a rule raises CatalogueError, which names the file and the entry. The forms are the dataclasses of
`stillruns.model.pattern` and `stillruns.model.workaround`; a TOML table holds exactly their fields.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from stillruns.catalogue.forms import (
    read_hypothesis,
    read_issue,
    read_pattern,
    read_rule,
    read_workaround,
    table,
    unique,
)
from stillruns.errors import CatalogueError
from stillruns.model.backend import Runtime
from stillruns.model.pattern import CrashPattern, GrammarRule
from stillruns.model.stock_hypothesis import StockHypothesis
from stillruns.model.workaround import KnownIssue, Workaround

if TYPE_CHECKING:
    from importlib.abc import Traversable

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]

_GRAMMAR_FILES: dict[Runtime, tuple[str, ...]] = {Runtime.LLAMA_CPP: ("grammar_llama_cpp.toml",)}


@cache
def grammar(runtime: Runtime) -> tuple[GrammarRule, ...]:
    """The line forms of one runtime, in file order; empty for a runtime without a grammar."""
    rules = [
        read_rule(file, entry)
        for file in _GRAMMAR_FILES.get(runtime, ())
        for entry in table(file, _parse(file), "rule")
    ]
    unique("grammar", rules)
    return tuple(rules)


@cache
def patterns() -> tuple[CrashPattern, ...]:
    """Every crash pattern, the most telling first (rank, then id). The workarounds they name exist."""
    found = [
        read_pattern(file, entry) for file in _files("patterns_") for entry in table(file, _parse(file), "pattern")
    ]
    unique("patterns", found)
    known = {w.id for w in workarounds()} if any(p.workarounds for p in found) else set()
    for pattern in found:
        for name in pattern.workarounds:
            if name not in known:
                raise CatalogueError(f"crash pattern {pattern.id} names the workaround {name}, which is not there.")
    return tuple(sorted(found, key=lambda p: (-p.rank, p.id)))


@cache
def workarounds() -> tuple[Workaround, ...]:
    """Every workaround, in the order of its id."""
    found = [read_workaround(f, entry) for f in _files("workarounds_") for entry in table(f, _parse(f), "workaround")]
    unique("workarounds", found)
    return tuple(sorted(found, key=lambda w: w.id))


@cache
def known_issues() -> tuple[KnownIssue, ...]:
    """Every fault that upstream knows, in the order of its id."""
    found = [read_issue(f, entry) for f in _files("known_issues") for entry in table(f, _parse(f), "issue")]
    unique("known issues", found)
    return tuple(sorted(found, key=lambda issue: issue.id))


@cache
def hypotheses() -> tuple[StockHypothesis, ...]:
    """The library of hypotheses, in file order."""
    found = [read_hypothesis(f, entry) for f in _files("hypotheses") for entry in table(f, _parse(f), "hypothesis")]
    unique("hypotheses", found)
    return tuple(found)


def _files(prefix: str) -> list[str]:
    return sorted(p.name for p in _folder().iterdir() if p.name.startswith(prefix) and p.name.endswith(".toml"))


def _parse(file: str) -> dict[str, Any]:
    """One data file as TOML."""
    try:
        text = _folder().joinpath(file).read_text(encoding="utf-8")
        document: dict[str, Any] = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CatalogueError(f"the catalogue file {file} cannot be read: {error}; reinstall stillruns.") from error
    return document


def _folder() -> Traversable:
    return resources.files("stillruns.catalogue").joinpath("data")
