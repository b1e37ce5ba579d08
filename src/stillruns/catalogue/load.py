"""The strict loader of the data that ships with the package.

Everything is read with importlib.resources, parsed once per process and only when it is asked for. A file that breaks
a rule raises CatalogueError, which names the file and the entry. The forms are the dataclasses of
`stillruns.model.pattern` and `stillruns.model.workaround`; a TOML table holds exactly their fields.
"""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from stillruns.catalogue.forms import (
    read_card_names,
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
from stillruns.model.card_name import CardName
from stillruns.model.pattern import CrashPattern, GrammarRule
from stillruns.model.stock_hypothesis import StockHypothesis
from stillruns.model.workaround import KnownIssue, Workaround

if TYPE_CHECKING:
    from importlib.abc import Traversable

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]

_GRAMMAR_FILES: dict[Runtime, tuple[str, ...]] = {
    Runtime.LLAMA_CPP: ("grammar_llama_cpp.toml",),
    Runtime.OLLAMA: ("grammar_ollama.toml", "grammar_llama_cpp.toml"),
    Runtime.VLLM: ("grammar_vllm.toml",),
}
"""Ollama's runners print llama.cpp's lines, so its grammar holds both; `GrammarRule.runtime` tells them apart."""


@cache
def grammar(runtime: Runtime) -> tuple[GrammarRule, ...]:
    """The line forms of one runtime, in file order; empty for a runtime without a grammar."""
    rules = [
        read_rule(file, entry, _checked(file))
        for file in _GRAMMAR_FILES.get(runtime, ())
        for entry in table(file, _parse(file), "rule")
    ]
    unique("grammar", rules)
    return tuple(rules)


@cache
def patterns() -> tuple[CrashPattern, ...]:
    """Every crash pattern, the most telling first (rank, then id). The workarounds they name exist."""
    found = [
        read_pattern(file, entry, _checked(file))
        for file in _files("patterns_")
        for entry in table(file, _parse(file), "pattern")
    ]
    unique("patterns", found)
    named = [p for p in found if p.workarounds]
    if all(_checked(file) for file in (*_files("patterns_"), *_files("workarounds_"))):
        named = []  # the names were compared with these very files
    known = {w.id for w in workarounds()} if named else set()
    for pattern in named:
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
    found = [
        read_issue(f, entry, _checked(f)) for f in _files("known_issues") for entry in table(f, _parse(f), "issue")
    ]
    unique("known issues", found)
    return tuple(sorted(found, key=lambda issue: issue.id))


@cache
def hypotheses() -> tuple[StockHypothesis, ...]:
    """The library of hypotheses, in file order."""
    found = [read_hypothesis(f, entry) for f in _files("hypotheses") for entry in table(f, _parse(f), "hypothesis")]
    unique("hypotheses", found)
    return tuple(found)


@cache
def card_names() -> tuple[CardName, ...]:
    """Names of cards as logs print them, with their targets."""
    file = "card_names.toml"
    return tuple(name for group in _parse(file).values() for name in read_card_names(file, group))


def _files(prefix: str) -> list[str]:
    return sorted(p.name for p in _folder().iterdir() if p.name.startswith(prefix) and p.name.endswith(".toml"))


def digests() -> dict[str, str]:
    """Every data file's SHA-256 (hex): what `data/checked.txt` lists (scripts/check_catalogue.py)."""
    return {name: hashlib.sha256(_folder().joinpath(name).read_bytes()).hexdigest() for name in _files("")}


@cache
def _listed() -> dict[str, str]:
    """What `checked.txt` lists: name -> digest of the bytes that passed the whole check."""
    place = _folder().joinpath("checked.txt")
    if not place.is_file():
        return {}
    pairs = [line.split("  ", 1) for line in place.read_text(encoding="ascii").splitlines()]
    return {name: digest for digest, name in pairs}


@cache
def _checked(file: str) -> bool:
    """Whether these very bytes passed the check of expressions and names, which costs a quarter of a second."""
    data = _folder().joinpath(file).read_bytes()
    return _listed().get(file) == hashlib.sha256(data).hexdigest()


def forget_checks() -> None:
    """Check everything again in this process (for the script and the test that vouch for `checked.txt`)."""
    _listed.cache_clear()
    _checked.cache_clear()
    for loaded in (grammar, patterns, workarounds, known_issues, card_names):
        loaded.cache_clear()


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
