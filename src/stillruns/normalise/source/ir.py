"""What every language is lowered to: functions as flat lists of statements over small expression lists.

An expression is a list whose first two items are its operator and its line (from 1):

    ["id", line, name]                        a local, parameter, global or macro
    ["sel", line, base, field]                `base.field`, `base->field`
    ["call", line, name, receiver|None, args] `receiver.name(args)`; the receiver is an expression (or a package)
    ["lit", line, text]                       a literal; strings without their quotes
    ["bin", line, operator, left, right]
    ["kv", line, [[key, line, expr], ...], type]   a composite literal or initialiser with keys
    ["seq", line, [exprs], what]              value may come from any part: unary, cast, list, conditional ...
    ["fun", line, index]                      a lambda: function `index` of the same file

Lists, not classes, because a tree has a million of them and they travel through the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

Expr = list[Any]

DIALECT = 9
"""Number of the lowering's rules; a cache written under another number is ignored."""


class Stmt(msgspec.Struct, array_like=True):
    """One statement.

    `kind` is assign, expr, branch, return, range or param; `ctrl` is the index (in the function's list) of the
    nearest enclosing branch, or -1. Compound assignment keeps its operator in `op`;
    a branch has its condition in `values`.
    """

    kind: str
    line: int
    targets: list[Expr]
    values: list[Expr]
    ctrl: int = -1
    op: str = ""


class Func(msgspec.Struct, array_like=True):
    """A function, method or lambda. `owner` is the receiver's type or the class; `parent` the index of the function
    around a lambda (-1 for none); `named` the results that have names; `names` every identifier inside."""

    name: str
    owner: str
    line: int
    end: int
    params: list[str]
    results: list[str]
    named: list[str]
    parent: int
    stmts: list[Stmt]
    names: list[str]


class Field(msgspec.Struct, array_like=True):
    """A struct field or class attribute with its tag (Go), trailing comment and default, each empty when absent."""

    name: str
    owner: str
    line: int
    type: str
    tag: str = ""
    comment: str = ""
    default: str = ""


class FileFacts(msgspec.Struct, array_like=True):
    """One file, lowered. Function 0 holds what stands outside of any function. `note` says what could not be read."""

    language: str
    funcs: list[Func]
    fields: list[Field]
    note: str = ""
    embeds: list[list[str]] = msgspec.field(default_factory=list)


class Builder:
    """Collects one function's statements while a frontend walks its tree."""

    def __init__(self, name: str, owner: str, line: int, end: int, parent: int = -1, index: int = 0) -> None:
        self.index = index
        self.func = Func(name, owner, line, end, [], [], [], parent, [], [])
        self.names: set[str] = set()
        self.ctrl = -1

    def add(
        self, kind: str, line: int, targets: list[Expr] | None = None, values: list[Expr] | None = None, op: str = ""
    ) -> int:
        """Append a statement under the current branch; returns its index."""
        self.func.stmts.append(Stmt(kind, line, targets or [], values or [], self.ctrl, op))
        return len(self.func.stmts) - 1

    def done(self) -> Func:
        """The finished function."""
        self.func.names = sorted(self.names)
        return self.func


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all expressions inside, outermost first; lambdas are not entered."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        op = node[0]
        if op == "sel":
            stack.append(node[2])
        elif op == "call":
            stack.extend(reversed(node[4]))
            if node[3] is not None:
                stack.append(node[3])
        elif op == "bin":
            stack.append(node[4])
            stack.append(node[3])
        elif op == "kv":
            stack.extend(item[2] for item in reversed(node[2]))
        elif op == "seq":
            stack.extend(reversed(node[2]))


def show(expr: Expr | None, limit: int = 80) -> str:
    """The expression as short source-like text."""
    text = _show(expr, 0) if expr is not None else ""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _show(expr: Expr, depth: int) -> str:
    op = expr[0]
    if depth > 8:
        return "…"
    if op == "id":
        return str(expr[2])
    if op == "lit":
        return str(expr[2])
    if op == "sel":
        return f"{_show(expr[2], depth + 1)}.{expr[3]}"
    if op == "call":
        receiver = f"{_show(expr[3], depth + 1)}." if expr[3] is not None else ""
        return f"{receiver}{expr[2]}({', '.join(_show(a, depth + 1) for a in expr[4][:6])})"
    if op == "bin":
        return f"{_show(expr[3], depth + 1)} {expr[2]} {_show(expr[4], depth + 1)}"
    if op == "kv":
        return f"{expr[3]}{{…}}"
    if op == "seq":
        inner = ", ".join(_show(a, depth + 1) for a in expr[2][:6])
        return f"{expr[3]}{inner}" if expr[3] in ("!", "-", "*", "&", "+", "~") else inner
    return "func"
