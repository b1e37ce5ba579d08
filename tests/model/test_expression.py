"""The promise: an expression that is compiled late is a sound one, and does what `re` does."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import stillruns
from stillruns.model.expression import Expression

ROOT = Path(stillruns.__file__).parent
MODULES = sorted(
    ".".join(("stillruns", *path.relative_to(ROOT).with_suffix("").parts))
    for path in ROOT.rglob("*.py")
    if "import Expression" in path.read_text()
)


def expressions(value: object) -> Iterator[Expression]:
    """Those in a module's global, tables looked into."""
    if isinstance(value, Expression):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from expressions(part)


@pytest.mark.parametrize("name", MODULES)
def test_all_compile(name: str) -> None:
    """Every one in the program; a faulty one would show only when a line needs it."""
    found = [e for value in vars(importlib.import_module(name)).values() for e in expressions(value)]
    assert found
    for expression in found:
        re.compile(expression.pattern)


def test_like_re() -> None:
    """The same answers, before and after it was compiled."""
    for _ in range(2):
        expression = Expression(r"(?P<n>\d+)b")
        for _ in range(2):
            assert expression.search("a12b") is not None
            assert expression.match("a12b") is None
            assert expression.fullmatch("12b") is not None
            assert expression.sub("x", "1b2b") == "xx"
            assert [m["n"] for m in expression.finditer("1b2b")] == ["1", "2"]
    with pytest.raises(re.error):
        Expression("(").search("")
    with pytest.raises(AttributeError):
        _ = Expression("a").nothing
