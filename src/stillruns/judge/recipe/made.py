"""How a verdict is written down: one constructor with defaults, so that each judge says only what it knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from stillruns.judge.recipe.ground import Case, Ground
from stillruns.judge.recipe.values import UNKNOWN, Answer
from stillruns.model.lint import Citation, LintItem, Reading


def verdict(
    case: Case,
    reading: Reading,
    evidence: Iterable[Citation],
    *,
    why: str = "",
    value: Answer = UNKNOWN,
    program: str = "",
    reader: str | None = None,
    effect: str = "",
    default: str = "",
    accepts: str = "",
    since: str = "",
    until: str = "",
    use: str = "",
) -> LintItem:
    """A LintItem; at least one citation is required."""
    cited = tuple(evidence)
    assert cited, f"a verdict on {case.item.name} without a place"
    command = case.command
    return LintItem(
        kind=case.item.kind,
        name=case.item.name,
        value=case.item.value,
        program=program or (command.program if command else ""),
        said=case.said,
        verdict=reading,
        value_verdict=value[0],
        why="; ".join(part for part in (why, value[1]) if part),
        reader=reader,
        effect=effect,
        default=default,
        accepts=accepts,
        since=since or None,
        until=until or None,
        use=use or None,
        evidence=cited,
    )


def near(name: str, known: Iterable[str]) -> list[str]:
    """At most three spellings that are close to a name; those that only differ in case or dashes first."""
    pool = sorted(set(known) - {name})
    same = [other for other in pool if same_letters(other, name)]
    return (same + [other for other in difflib.get_close_matches(name, pool, 3, 0.8) if other not in same])[:3]


def same_letters(one: str, other: str) -> bool:
    """Whether two names differ only in case, dashes and underscores."""
    return _bare(one) == _bare(other)


def _bare(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def known_env(ground: Ground) -> list[str]:
    """Every environment variable that the catalogue knows."""
    rows = [row.name for row in ground.options.rows if row.kind == "env"]
    return rows + [reader.name for reader in ground.options.readers if reader.kind == "env"]
