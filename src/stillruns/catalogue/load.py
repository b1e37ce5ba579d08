"""The strict loader of the data that ships with the package.

Everything is read once per process and only when it is asked for. A file that breaks a rule raises CatalogueError,
which names the file and the entry. The forms are the dataclasses of `stillruns.model.pattern` and
`stillruns.model.workaround`; a TOML table holds exactly their fields. A file that is byte for byte the one that
passed the check is not parsed and checked again (shipped.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import msgspec

from stillruns.catalogue import shipped
from stillruns.catalogue.forms import (
    document,
    read_card_names,
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
from stillruns.model.workaround import KnownIssue, Workaround

_FORMS: tuple[tuple[str, str, type[Any], Callable[[str, dict[str, Any]], Any]], ...] = (
    ("grammar_", "rule", GrammarRule, read_rule),
    ("patterns_", "pattern", CrashPattern, read_pattern),
    ("workarounds_", "workaround", Workaround, read_workaround),
    ("known_issues", "issue", KnownIssue, read_issue),
    ("card_names", "", CardName, read_card_names),
)
"""How a file's name begins, its array of tables, the form of an entry, and who reads one."""

_GRAMMAR_FILES: dict[Runtime, tuple[str, ...]] = {
    Runtime.LLAMA_CPP: ("grammar_llama_cpp.toml",),
    Runtime.OLLAMA: ("grammar_ollama.toml", "grammar_llama_cpp.toml"),
    Runtime.VLLM: ("grammar_vllm.toml",),
}
"""Ollama's runners print llama.cpp's lines, so its grammar holds both; `GrammarRule.runtime` tells them apart."""


@cache
def grammar(runtime: Runtime) -> tuple[GrammarRule, ...]:
    """The line forms of one runtime, in file order; empty for a runtime without a grammar."""
    rules: list[GrammarRule] = [rule for file in _GRAMMAR_FILES.get(runtime, ()) for rule in _entries(file)]
    unique("grammar", rules)
    return tuple(rules)


@cache
def patterns() -> tuple[CrashPattern, ...]:
    """Every crash pattern, the most telling first (rank, then id). The workarounds they name exist."""
    found: list[CrashPattern] = _all("patterns_")
    unique("patterns", found)
    if not all(shipped.checked(file) for prefix in ("patterns_", "workarounds_") for file in shipped.names(prefix)):
        _compare(found, workarounds())
    return tuple(sorted(found, key=lambda p: (-p.rank, p.id)))


@cache
def workarounds() -> tuple[Workaround, ...]:
    """Every workaround, in the order of its id."""
    found: list[Workaround] = _all("workarounds_")
    unique("workarounds", found)
    return tuple(sorted(found, key=lambda w: w.id))


@cache
def known_issues() -> tuple[KnownIssue, ...]:
    """Every fault that upstream knows, in the order of its id."""
    found: list[KnownIssue] = _all("known_issues")
    unique("known issues", found)
    return tuple(sorted(found, key=lambda issue: issue.id))


@cache
def card_names() -> tuple[CardName, ...]:
    """Names of cards as logs print them, with their targets."""
    return _entries("card_names.toml")


def forget_checks() -> None:
    """Load and check everything again in this process (for the script and the test that vouch for `checked.txt`)."""
    shipped.forget()
    for loaded in (grammar, _entries, patterns, workarounds, known_issues, card_names):
        loaded.cache_clear()


def checked_list() -> str:
    """What `checked.txt` has to say of the data files as they are, parsed and checked anew."""
    lines, patterns, workarounds = [], [], []
    for file in shipped.names(""):
        parts = [shipped.digest(file), file]
        if any(file.startswith(prefix) for prefix, *_ in _FORMS):
            entries = _parsed(file)
            patterns += [entry for entry in entries if isinstance(entry, CrashPattern)]
            workarounds += [entry for entry in entries if isinstance(entry, Workaround)]
            parts.append(msgspec.json.encode(entries).decode())
        lines.append("  ".join(parts) + "\n")
    _compare(patterns, workarounds)
    return "".join(lines)


def _compare(patterns: Iterable[CrashPattern], workarounds: Iterable[Workaround]) -> None:
    """The workarounds that the patterns name are there."""
    known = {w.id for w in workarounds}
    for pattern in patterns:
        for name in pattern.workarounds:
            if name not in known:
                raise CatalogueError(f"crash pattern {pattern.id} names the workaround {name}, which is not there.")


def _all(prefix: str) -> list[Any]:
    return [entry for file in shipped.names(prefix) for entry in _entries(file)]


@cache
def _entries(file: str) -> tuple[Any, ...]:
    """One file's entries: as they were checked, or parsed and checked now."""
    form = next(form for prefix, _, form, _ in _FORMS if file.startswith(prefix))
    try:
        return tuple(msgspec.json.decode(shipped.entries(file), type=list[form]))  # type: ignore[valid-type]
    except msgspec.DecodeError:  # none there, or damaged: the TOML file is the truth
        return _parsed(file)


def _parsed(file: str) -> tuple[Any, ...]:
    """One file's entries from its TOML, every one checked."""
    parsed = document(file, shipped.content(file))
    name, read = next((name, read) for prefix, name, _, read in _FORMS if file.startswith(prefix))
    if not name:
        return tuple(entry for group in parsed.values() for entry in read(file, group))
    return tuple(read(file, entry) for entry in table(file, parsed, name))
