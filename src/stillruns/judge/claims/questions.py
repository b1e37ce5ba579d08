"""What a condition asks about: what cells are, how many trials they have, or what those showed."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from stillruns.judge.claims.expressions import COUNTED, MEASURES

ENDS = frozenset(MEASURES) - frozenset(COUNTED)
"""What the ends of applied trials show."""


def conjuncts(condition: ast.expr) -> list[ast.expr]:
    """The parts that must all be true."""
    if isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.And):
        return [part for value in condition.values for part in conjuncts(value)]
    return [condition]


def measured(node: ast.expr) -> bool:
    """Whether it asks what trials showed, not only what cells are."""
    return any(isinstance(part, ast.Attribute) and part.attr in MEASURES for part in ast.walk(node))


def showed(node: ast.expr) -> bool:
    """Whether it asks how applied trials ended, not only what cells are and how many trials they have."""
    return any(isinstance(part, ast.Attribute) and part.attr in ENDS for part in ast.walk(node))


def factor_filters(filters: Sequence[ast.expr]) -> list[ast.expr]:
    """What filters ask of what cells are."""
    return [part for condition in filters for part in conjuncts(condition) if not measured(part)]


def tests_rates(node: ast.expr) -> bool:
    """Whether it may come to a test of two rates."""
    return any(isinstance(part, ast.Attribute) and part.attr in ("rate", "crash_rate") for part in ast.walk(node))


def of_factors(node: ast.expr) -> list[ast.expr]:
    """The conditions in an expression that ask only what cells are, the widest of each."""
    if not measured(node):
        asks = any(isinstance(part, (ast.Attribute, ast.Subscript)) for part in ast.walk(node))
        return [node] if asks and isinstance(node, (ast.Compare, ast.BoolOp, ast.UnaryOp)) else []
    inner: Sequence[ast.expr] = ()
    if isinstance(node, ast.Compare):
        inner = (node.left, *node.comparators)
    elif isinstance(node, ast.BoolOp):
        inner = node.values
    elif isinstance(node, ast.UnaryOp):
        inner = (node.operand,)
    return [part for side in inner for part in of_factors(side)]
