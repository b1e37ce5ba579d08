"""Evaluates a checked expression over cells: three-valued, bounded, and with a ledger of what it compared.

Two rates of fixed numbers of trials are compared by an exact test, others by confidence sequences that do not
overlap; two speeds by their intervals. What compares trials of different cells is a contrast: in strict mode it
counts only when it is clean.
"""

from __future__ import annotations

import ast
import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from stillruns.judge.claims import comparing, measuring, questions
from stillruns.judge.claims.ledger import Ledger
from stillruns.judge.claims.values import (
    NO_GAPS,
    NOBODY,
    CellGroup,
    Cells,
    Gap,
    GapKind,
    Gaps,
    Listed,
    NameCounts,
    Number,
    Text,
    Truth,
    Value,
    both,
    combine,
    either,
    negated,
    nothing,
    point,
)

MOST_STEPS = 150_000
"""Nodes that one evaluation may visit."""


class TooMuch(Exception):
    """An expression over so many cells that it would not end soon."""


class Evaluation:
    """One expression over the ledger's cells."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.cells = ledger.cells
        self.filtering = False

    def truth(self, node: ast.expr, bound: Mapping[str, CellGroup] | None = None) -> Truth:
        """Raises TooMuch when the work is out of bounds."""
        value = self._value(node, bound or {})
        assert isinstance(value, Truth), "the checker lets conditions through only"
        return value

    def _value(self, node: ast.expr, bound: Mapping[str, CellGroup]) -> Value:
        self._work(1)
        if isinstance(node, ast.BoolOp):
            return self._logic(node, bound)
        if isinstance(node, ast.UnaryOp):
            if isinstance(node.op, ast.Not):
                return negated(self.truth(node.operand, bound))
            return combine("-", point(0.0), _number(self._value(node.operand, bound)))
        if isinstance(node, ast.BinOp):
            op = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}[type(node.op)]
            return combine(op, _number(self._value(node.left, bound)), _number(self._value(node.right, bound)))
        if isinstance(node, ast.Compare):
            return self._compare(node, bound)
        if isinstance(node, ast.Call):
            return self._call(node, bound)
        return self._leaf(node, bound)

    def _work(self, steps: int) -> None:
        self.ledger.steps += steps
        if self.ledger.steps > MOST_STEPS:
            raise TooMuch

    def _logic(self, node: ast.BoolOp, bound: Mapping[str, CellGroup]) -> Truth:
        """Stops at the part that settles it."""
        settles = isinstance(node.op, ast.Or)
        parts, shown, before = [], [], self.ledger.shown
        for value in node.values:
            self.ledger.shown = set()
            parts.append(self.truth(value, bound))
            shown.append(frozenset(self.ledger.shown))
            if parts[-1].value is settles and not questions.measured(value):
                break  # one that what trials showed settles leaves the tests of the rest in the family
        self.ledger.shown = before.union(*shown)
        if settles:
            return either(parts)
        settled = both(parts)
        return self._together(shown) if settled.value else settled

    def _together(self, shown: Sequence[Cells]) -> Truth:
        """Statements that all hold: what those about different cells are a comparison of must be one factor. Filters
        say which cells are meant and compare nothing."""
        if self.filtering:
            return Truth(True)
        sides = dict.fromkeys(cells for cells in shown if cells)
        pairs = [(a, b) for a, b in itertools.combinations(sides, 2) if not a & b]
        self._work(_COMPARISON * len(pairs))
        return both([comparing.together(self.ledger, a, b) for a, b in pairs])

    def _leaf(self, node: ast.expr, bound: Mapping[str, CellGroup]) -> Value:
        if isinstance(node, ast.Name):
            return bound[node.id]
        if isinstance(node, ast.Constant):
            return _constant(node.value)
        if isinstance(node, (ast.Tuple, ast.List)):
            return Listed(tuple(_constant(item.value) for item in node.elts if isinstance(item, ast.Constant)))
        if isinstance(node, ast.Subscript):
            assert isinstance(node.value, ast.Attribute)
            assert isinstance(node.slice, ast.Constant)
            return measuring.axis(str(node.slice.value), self._group(node.value.value, bound), self.cells)
        assert isinstance(node, ast.Attribute), "the checker lets nothing else through"
        of = self._value(node.value, bound)
        if isinstance(of, CellGroup):
            if node.attr in questions.ENDS:
                self.ledger.shown |= of.cells
            return measuring.field(node.attr, of, self.cells)
        return _part(_number(of), node.attr)

    def _group(self, node: ast.expr, bound: Mapping[str, CellGroup]) -> CellGroup:
        value = self._value(node, bound)
        assert isinstance(value, CellGroup)
        return value

    def _call(self, node: ast.Call, bound: Mapping[str, CellGroup]) -> Value:
        assert isinstance(node.func, ast.Name)
        over = node.args[0]
        assert isinstance(over, ast.GeneratorExp)
        name = node.func.id
        found = list(
            self._bindings(over, bound, all_tests=name in ("any", "all") and questions.tests_rates(over.elt))
        )
        if name == "pool":
            return self._pool(over, found)
        cells = self._concerned(over, bound) if name in ("count", "sum") else NOBODY
        if name in ("count", "sum") and not cells:
            return nothing(_NO_CELL)
        if name == "sum":
            return dataclasses.replace(self._sum(over, found), sides=(cells,) if questions.measured(over) else ())
        truths = []
        for fits, inner in found:
            inside = self._value(over.elt, inner)
            kept = inside if isinstance(inside, Truth) else Truth(True)
            truths.append((fits, kept))
        if name == "count":
            sure = sum(fits.value is True and kept.value is True for fits, kept in truths)
            maybe = sum(fits.value is not False and kept.value is not False for fits, kept in truths)
            gaps = _gaps([t for pair in truths for t in pair]) if maybe > sure else NO_GAPS
            return Number(sure, maybe, gaps, (cells,) if questions.measured(over) else ())
        if all(fits.value is False for fits, _ in truths):
            return Truth(None, self._nothing_fits(over, bound))
        if name == "any":
            settled = either([both([fits, kept]) for fits, kept in truths])
            if settled.value:
                self.ledger.witnesses.append(_witness(truths, found))
            return settled
        return self._sorted(over, found, both([either([negated(fits), kept]) for fits, kept in truths]))

    def _nothing_fits(self, over: ast.GeneratorExp, bound: Mapping[str, CellGroup]) -> Gaps:
        """Why: where cells were meant that no trial was applied in, those are what was never tested."""
        before, self.ledger.used = self.ledger.used, set()
        self._concerned(over, bound)
        meant = [i for i in sorted(self.ledger.used) if not self.cells[i].applied]
        self.ledger.used = before.union(meant)
        return frozenset(measuring.untested(CellGroup(frozenset({i})), self.cells) for i in meant) or frozenset(
            {_NO_CELL}
        )

    def _sorted(
        self, over: ast.GeneratorExp, found: list[tuple[Truth, dict[str, CellGroup]]], settled: Truth
    ) -> Truth:
        """An `all` that says one thing of the cells with a factor and another of those without it compares them."""
        if not settled.value or self.filtering or len(over.generators) > 1 or not questions.measured(over.elt):
            return settled
        pairs = []
        for condition in questions.of_factors(over.elt):
            sides: dict[bool | None, Cells] = {}
            for fits, inner in found:
                side = self.truth(condition, inner).value if fits.value else None
                sides[side] = sides.get(side, NOBODY).union(*(group.cells for group in inner.values()))
            if True in sides and False in sides and not sides[True] & sides[False]:
                pairs.append((sides[True], sides[False]))
        return both([comparing.together(self.ledger, a, b) for a, b in pairs])

    def _sum(self, over: ast.GeneratorExp, found: list[tuple[Truth, dict[str, CellGroup]]]) -> Number:
        total = point(0.0)
        for fits, inner in found:
            number = _number(self._value(over.elt, inner))
            if fits.value is None:
                number = Number(min(0.0, number.low), max(0.0, number.high), number.gaps | fits.gaps, number.sides)
            total = combine("+", total, number)
        return total

    def _pool(self, over: ast.GeneratorExp, found: list[tuple[Truth, dict[str, CellGroup]]]) -> CellGroup:
        assert isinstance(over.elt, ast.Name)
        name = over.elt.id
        sure: Cells = frozenset().union(*(inner[name].cells for fits, inner in found if fits.value))
        maybe = [(fits, inner[name].cells) for fits, inner in found if fits.value is None]
        gaps = _gaps([fits for fits, _ in maybe])
        unsure: Cells = frozenset().union(*(cells for _, cells in maybe))
        if questions.showed(over):
            chosen = "its cells were chosen by what their trials showed, so that their rate is no test of it"
            return CellGroup(sure, gaps | {Gap(GapKind.UNMEASURED, chosen, sure)}, unsure, chosen=True)
        return CellGroup(sure, gaps, unsure)

    def _bindings(
        self, over: ast.GeneratorExp, bound: Mapping[str, CellGroup], *, all_tests: bool = False
    ) -> Iterator[tuple[Truth, dict[str, CellGroup]]]:
        """Every binding of the generators that is not surely filtered out, with the truth of its filters; with
        `all_tests` also those that are left out only for what trials showed: their tests are of the family too."""
        names = [part.target.id for part in over.generators if isinstance(part.target, ast.Name)]
        filters = [condition for part in over.generators for condition in part.ifs]
        singles = [CellGroup(frozenset({i})) for i in range(len(self.cells))]
        self._work(len(singles) ** len(names))  # at once: what is too much is so before it is begun
        for chosen in itertools.product(range(len(singles)), repeat=len(names)):
            inner = {**bound, **{n: singles[i] for n, i in zip(names, chosen, strict=True)}}
            outer, self.filtering = self.filtering, True
            fits = both([self.truth(condition, inner) for condition in filters])
            self.filtering = outer
            if fits.value is not False:
                if fits.value:
                    self.ledger.used.update(chosen)
                yield fits, inner
            elif (
                all_tests
                and both([self.truth(f, inner) for f in questions.factor_filters(filters)]).value is not False
            ):
                yield fits, inner

    def _concerned(self, over: ast.GeneratorExp, bound: Mapping[str, CellGroup]) -> Cells:
        """The cells that a count or a sum goes over, whatever their trials showed. Those that its filters leave out
        for what they showed count too, as none: the answer rests on them."""
        parts = [ast.comprehension(p.target, p.iter, questions.factor_filters(p.ifs), 0) for p in over.generators]
        found = self._bindings(ast.GeneratorExp(over.elt, parts), bound)
        return NOBODY.union(
            *(group.cells for _, inner in found for name, group in inner.items() if name not in bound)
        )

    def _compare(self, node: ast.Compare, bound: Mapping[str, CellGroup]) -> Truth:
        left, found = self._value(node.left, bound), []
        for op, other in zip(node.ops, node.comparators, strict=True):
            right = self._value(other, bound)
            found.append(self._pair(_OPERATORS[type(op)], left, right))
            left = right
        return both(found)

    def _pair(self, op: str, left: Value, right: Value) -> Truth:
        if op in ("in", "not in"):
            inside = self._membership(left, right)
            return inside if op == "in" else negated(inside)
        if isinstance(left, Truth) and isinstance(right, Truth):
            same = either([both([left, right]), both([negated(left), negated(right)])])
            return same if op == "==" else negated(same)
        if isinstance(left, NameCounts) or isinstance(right, NameCounts):
            same = _all_are(left, right)
            return same if op == "==" else negated(same)
        if op in ("==", "!="):
            if isinstance(left, Text) and isinstance(right, Text) and None in (left.number, right.number):
                same = _same_text(left, right)
                return same if op == "==" else negated(same)
            if _is_text(left) or _is_text(right):
                return Truth(op == "!=")
        return self._numbers(op, _number(left), _number(right))

    def _membership(self, left: Value, right: Value) -> Truth:
        if isinstance(right, Listed):
            return either([self._pair("==", left, item) for item in right.items])
        assert isinstance(right, NameCounts)
        assert isinstance(left, Text)
        if left.names and left.names & right.counts.keys():
            return Truth(True)
        gaps = right.gaps | (NO_GAPS if left.names == _UNKNOWN else right.hidden)
        return Truth(None, gaps) if gaps else Truth(False)

    def _numbers(self, op: str, left: Number, right: Number) -> Truth:
        self._work(_COMPARISON)
        return comparing.numbers(self.ledger, op, left, right)


_NO_CELL = Gap(GapKind.UNTESTED, "no cell of these runs fits the hypothesis")


_COMPARISON = 20
"""Steps that comparing two numbers counts for: it may look at all trials behind them."""

_OPERATORS = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.In: "in",
    ast.NotIn: "not in",
}


def _constant(value: object) -> Text | Number:
    if isinstance(value, bool):
        return Text(frozenset({str(value)}), float(value), value)
    if isinstance(value, str):
        return Text(frozenset({value}))
    assert isinstance(value, (int, float))
    return point(float(value))


def _number(value: Value) -> Number:
    if isinstance(value, Number):
        return value
    if isinstance(value, Text):
        if value.number is not None:
            return Number(value.number, value.number, value.gaps, value.sides)
        gaps = value.gaps or frozenset({Gap(GapKind.UNMEASURED, f"{_named(value)} is no number")})
        return Number(-math.inf, math.inf, gaps, value.sides)
    raise AssertionError("the checker lets numbers through only")


def _named(value: Text) -> str:
    return " or ".join(sorted(value.names)) if value.names else "a value that is not there"


def _is_text(value: Value) -> bool:
    """A known text that is no number."""
    return isinstance(value, Text) and value.names is not None and value.number is None


def _same_text(left: Text, right: Text) -> Truth:
    if left.names is None or right.names is None:
        return Truth(None, left.gaps | right.gaps)
    return Truth(bool(left.names & right.names))


_UNKNOWN = frozenset({measuring.UNKNOWN})


def _all_are(left: Value, right: Value) -> Truth:
    """`c.outcome == "crash"`: every applied trial ended so."""
    names, text = (left, right) if isinstance(left, NameCounts) else (right, left)
    assert isinstance(names, NameCounts)
    assert isinstance(text, Text)
    if not names.counts:
        return Truth(None, names.gaps) if names.gaps else Truth(False)
    wanted = text.names or frozenset()
    hidden = names.hidden if wanted != _UNKNOWN else NO_GAPS
    if set(names.counts) - wanted - (_UNKNOWN if hidden else set()):
        return Truth(False)
    gaps = names.gaps | hidden
    return Truth(None, gaps) if gaps else Truth(True)


def _part(number: Number, which: str) -> Number:
    low, high = number.parts or (number.low, number.high)
    value = low if which == "low" else high
    basis = number.basis
    if basis is not None:
        basis = dataclasses.replace(basis, bound=which)
    if number.gaps:
        return Number(
            0.0, number.high if which == "low" else math.inf, number.gaps, number.sides, basis, speed=number.speed
        )
    return Number(value, value, number.gaps, number.sides, basis, speed=number.speed)


def _witness(truths: list[tuple[Truth, Truth]], found: list[tuple[Truth, dict[str, CellGroup]]]) -> Cells:
    """The cells of the first binding that made an `any` true."""
    place = next(i for i, (fits, kept) in enumerate(truths) if fits.value and kept.value)
    return frozenset().union(*(group.cells for group in found[place][1].values()))


def _gaps(truths: Sequence[Truth]) -> frozenset[Gap]:
    return frozenset().union(*(t.gaps for t in truths if t.value is None)) if truths else NO_GAPS
