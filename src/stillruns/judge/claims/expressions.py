"""The language of hypotheses: a checked subset of Python expressions over `cells`.

    all(c.rate.low > 0.5 for c in cells if c.backend == "vulkan" and c.layers != 0)
    pool(c for c in cells if c.backend == "vulkan").rate > pool(c for c in cells if c.backend == "rocm").rate

Text is parsed with Python's own parser and never evaluated by Python: every node must be one of the forms below, with
kinds that fit, before anything runs. Bounded: the text, the nesting, and (in judge/claims/evaluation.py) the work.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from enum import Enum

from stillruns.errors import SpecError

LONGEST = 2000
"""Characters."""
MOST_NODES = 400
MOST_VARIABLES = 2
"""Cells that one expression can look at together."""


class Kind(Enum):
    """What an expression stands for."""

    TRUTH = "a condition"
    NUMBER = "a number"
    RATE = "a rate"
    TEXT = "a text"
    NAMES = "a set of names"
    EITHER = "a number or a text"
    CELL = "a cell"
    LIST = "a list"


FACTORS: dict[str, Kind] = {
    "backend": Kind.TEXT,
    "side": Kind.TEXT,
    "layers": Kind.EITHER,
    "gpu_layers": Kind.EITHER,
    "placed": Kind.NUMBER,
    "model": Kind.TEXT,
    "quantisation": Kind.TEXT,
    "runtime": Kind.TEXT,
    "version": Kind.TEXT,
    "device": Kind.TEXT,
    "flash_attention": Kind.TEXT,
    "context": Kind.NUMBER,
    "batch": Kind.NUMBER,
    "ubatch": Kind.NUMBER,
    "threads": Kind.NUMBER,
    "predict": Kind.NUMBER,
    "args": Kind.NAMES,
}
"""What defines a cell."""

MEASURES: dict[str, Kind] = {
    "trials": Kind.NUMBER,
    "applied": Kind.NUMBER,
    "void": Kind.NUMBER,
    "unknown": Kind.NUMBER,
    "passed": Kind.NUMBER,
    "failed": Kind.NUMBER,
    "crashed": Kind.NUMBER,
    "wrong": Kind.NUMBER,
    "rate": Kind.RATE,
    "crash_rate": Kind.RATE,
    "throughput": Kind.RATE,
    "time_to_failure": Kind.RATE,
    "client_seconds": Kind.RATE,
    "waited": Kind.RATE,
    "outcome": Kind.NAMES,
    "phase": Kind.NAMES,
    "component": Kind.NAMES,
    "divergence": Kind.NAMES,
}
"""What its trials showed. `divergence` holds the verdicts on outputs (`same`, `wrong`, ...)."""

COUNTED = ("trials", "applied", "void", "unknown")
"""Numbers of trials, told also where none was applied."""

PARTS = {"low", "high"}
"""Bounds of a rate, of a throughput, or of times."""

TIMES = ("time_to_failure", "client_seconds", "waited")
"""Seconds of the trials that crashed, shortest to longest: from the start of the process to its death, as the client
measured the request, and what of that its server waited for an earlier one's memory."""

_QUANTIFIERS = {"any": Kind.TRUTH, "all": Kind.TRUTH, "count": Kind.NUMBER, "sum": Kind.NUMBER, "pool": Kind.CELL}
_NUMERIC = {Kind.NUMBER, Kind.RATE, Kind.EITHER}
_TEXTUAL = {Kind.TEXT, Kind.NAMES, Kind.EITHER}


def parse(text: str, place: str) -> ast.expr:
    """The checked tree of a condition. Raises SpecError with one sentence that begins with `place`."""
    if len(text) > LONGEST:
        raise SpecError(f"{place} is longer than {LONGEST} characters; split the hypothesis")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = error.msg if isinstance(error, SyntaxError) else "nested too deeply or not a text"
        raise SpecError(f"{place} is not an expression: {why}; write it as in docs/hypotheses.md") from None
    if sum(1 for _ in ast.walk(tree)) > MOST_NODES:
        raise SpecError(f"{place} has more than {MOST_NODES} parts; split the hypothesis")
    kind = _Checker(place, text).kind(tree.body, ())
    if kind is not Kind.TRUTH:
        raise SpecError(f"{place} is {kind.value}, not a condition; compare it with something")
    return tree.body


class _Checker:
    """Walks a tree, gives each node its kind, and refuses what is not of the language."""

    def __init__(self, place: str, text: str) -> None:
        self.place = place
        self.text = text
        self.forms: dict[type[ast.expr], Callable[..., Kind]] = {
            ast.BoolOp: self._logic,
            ast.UnaryOp: self._unary,
            ast.BinOp: self._arithmetic,
            ast.Compare: self._compare,
            ast.Call: self._call,
            ast.Attribute: self._attribute,
            ast.Subscript: self._subscript,
            ast.Constant: self._constant,
            ast.Name: self._name,
            ast.Tuple: self._list,
            ast.List: self._list,
        }

    def kind(self, node: ast.expr, variables: tuple[str, ...]) -> Kind:
        """The kind of one node; `variables` are the cells that are bound here."""
        form = self.forms.get(type(node))
        if form is None:
            raise self._refuse(node, f"has {type(node).__name__}, which hypotheses cannot use")
        return form(node, variables)

    def _refuse(self, node: ast.expr, why: str) -> SpecError:
        part = (ast.get_source_segment(self.text.strip(), node) or "")[:60]
        return SpecError(f"{self.place}: {part!r} {why}")

    def _want(self, node: ast.expr, variables: tuple[str, ...], wanted: set[Kind], what: str) -> Kind:
        kind = self.kind(node, variables)
        if kind not in wanted:
            raise self._refuse(node, f"is {kind.value}; {what} is needed here")
        return kind

    def _logic(self, node: ast.BoolOp, variables: tuple[str, ...]) -> Kind:
        for value in node.values:
            self._want(value, variables, {Kind.TRUTH}, "a condition")
        return Kind.TRUTH

    def _unary(self, node: ast.UnaryOp, variables: tuple[str, ...]) -> Kind:
        if isinstance(node.op, ast.Not):
            self._want(node.operand, variables, {Kind.TRUTH}, "a condition")
            return Kind.TRUTH
        if isinstance(node.op, ast.USub):
            self._want(node.operand, variables, _NUMERIC, "a number")
            return Kind.NUMBER
        raise self._refuse(node, "uses an operator that hypotheses do not have")

    def _arithmetic(self, node: ast.BinOp, variables: tuple[str, ...]) -> Kind:
        if not isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
            raise self._refuse(node, "uses an operator that hypotheses do not have; there are + - * /")
        self._want(node.left, variables, _NUMERIC, "a number")
        self._want(node.right, variables, _NUMERIC, "a number")
        return Kind.NUMBER

    def _compare(self, node: ast.Compare, variables: tuple[str, ...]) -> Kind:
        left = node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            self._pair(node, op, self.kind(left, variables), self.kind(right, variables))
            left = right
        return Kind.TRUTH

    def _pair(self, node: ast.expr, op: ast.cmpop, left: Kind, right: Kind) -> None:
        if isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
            fits = left in _NUMERIC and right in _NUMERIC
        elif isinstance(op, (ast.Eq, ast.NotEq)):
            both = (left, right)
            fits = (
                all(k in _NUMERIC for k in both)
                or (all(k in _TEXTUAL for k in both) and both.count(Kind.NAMES) < 2)
                or both == (Kind.TRUTH, Kind.TRUTH)
            )
        elif isinstance(op, (ast.In, ast.NotIn)):
            fits = (right is Kind.LIST and left in _NUMERIC | _TEXTUAL) or (left is Kind.TEXT and right is Kind.NAMES)
        else:
            raise self._refuse(node, "compares with an operator that hypotheses do not have")
        if not fits:
            raise self._refuse(node, f"compares {left.value} with {right.value}")

    def _call(self, node: ast.Call, variables: tuple[str, ...]) -> Kind:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in _QUANTIFIERS or node.keywords or len(node.args) != 1:
            raise self._refuse(node, "is no call that hypotheses have; there are any, all, count, sum and pool")
        over = node.args[0]
        if not isinstance(over, ast.GeneratorExp):
            raise self._refuse(node, f"needs the form {name}(... for c in cells if ...)")
        inner = self._generators(over, variables)
        if name == "pool":
            fits = isinstance(over.elt, ast.Name) and len(over.generators) == 1 and over.elt.id == inner[-1]
            if not fits:
                raise self._refuse(node, "needs the form pool(c for c in cells if ...)")
            return Kind.CELL
        wanted = {"sum": _NUMERIC, "count": {Kind.CELL, Kind.TRUTH}}.get(name, {Kind.TRUTH})
        self._want(over.elt, inner, wanted, "a number" if name == "sum" else "a condition")
        return _QUANTIFIERS[name]

    def _generators(self, over: ast.GeneratorExp, variables: tuple[str, ...]) -> tuple[str, ...]:
        for part in over.generators:
            if part.is_async or not isinstance(part.target, ast.Name):
                raise self._refuse(over, "needs the form: for c in cells")
            if not (isinstance(part.iter, ast.Name) and part.iter.id == "cells"):
                raise self._refuse(part.iter, "cannot be gone through; only `cells` can")
            name = part.target.id
            if name in variables or name in _QUANTIFIERS or name == "cells" or name.startswith("_"):
                raise self._refuse(part.target, "is a name that is taken; use another for this cell")
            variables = (*variables, name)
            if len(variables) > MOST_VARIABLES:
                raise self._refuse(over, f"looks at more than {MOST_VARIABLES} cells together")
            for condition in part.ifs:
                self._want(condition, variables, {Kind.TRUTH}, "a condition")
        return variables

    def _attribute(self, node: ast.Attribute, variables: tuple[str, ...]) -> Kind:
        of = self.kind(node.value, variables)
        if of is Kind.RATE and node.attr in PARTS:
            return Kind.NUMBER
        if of is Kind.CELL:
            kind = FACTORS.get(node.attr) or MEASURES.get(node.attr)
            if kind is not None:
                return kind
            raise self._refuse(
                node, f"is no field of a cell; there are {', '.join(sorted({*FACTORS, *MEASURES}))} and axes['NAME']"
            )
        raise self._refuse(node, f"asks {of.value} for {node.attr!r}, which it does not have")

    def _subscript(self, node: ast.Subscript, variables: tuple[str, ...]) -> Kind:
        value = node.value
        named = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
        if not (isinstance(value, ast.Attribute) and value.attr == "axes" and named):
            raise self._refuse(node, "is not of the form c.axes['NAME']")
        self._want(value.value, variables, {Kind.CELL}, "a cell")
        return Kind.EITHER

    def _constant(self, node: ast.Constant, variables: tuple[str, ...]) -> Kind:
        value = node.value
        if isinstance(value, bool):
            return Kind.EITHER  # an axis may be true or false
        if isinstance(value, str):
            return Kind.TEXT
        if isinstance(value, (int, float)) and abs(value) < 1e15:
            return Kind.NUMBER
        raise self._refuse(node, "is no text and no number of reasonable size")

    def _name(self, node: ast.Name, variables: tuple[str, ...]) -> Kind:
        if node.id in variables:
            return Kind.CELL
        raise self._refuse(node, "is not known; cells are named by: for c in cells")

    def _list(self, node: ast.Tuple | ast.List, variables: tuple[str, ...]) -> Kind:
        if not all(isinstance(item, ast.Constant) for item in node.elts):
            raise self._refuse(node, "may hold texts and numbers only")
        for item in node.elts:
            self.kind(item, variables)
        return Kind.LIST
