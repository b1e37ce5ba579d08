"""Hypotheses after their trials: supported, refuted, inconclusive, void or confounded, and what that rests on.

Each expression is evaluated twice: as the numbers stand, and with every comparison struck out whose sides differ in
more than one factor. What the first decides and the second does not is confounded. All exact tests that the
hypotheses of one evaluation hang on are one family (Holm).
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stillruns.judge.claims import expressions, further, quoting
from stillruns.judge.claims.evaluation import Evaluation, TooMuch
from stillruns.judge.claims.ledger import Key, Ledger
from stillruns.judge.claims.values import Gap, GapKind, Truth
from stillruns.judge.statistics import blocks, exact
from stillruns.model.claim import Claim, ClaimVerdict, ContrastView, Frozen, RateTest
from stillruns.model.observed import ObservedCell
from stillruns.model.spec import HypothesisSpec
from stillruns.model.workaround import KnownIssue


@dataclass(frozen=True, slots=True)
class Posed:
    """A hypothesis, when it was written, and the runs in which it was frozen (empty for one posed afterwards)."""

    hypothesis: HypothesisSpec
    frozen: Frozen
    note: str = ""


def check(hypothesis: HypothesisSpec, place: str) -> tuple[ast.expr, ast.expr]:
    """Both expressions, parsed and checked. Raises SpecError for one that is missing or not of the language."""
    return (
        expressions.parse(hypothesis.predicts, f"{place}: predicts of {hypothesis.id}"),
        expressions.parse(hypothesis.refuted_if, f"{place}: refuted_if of {hypothesis.id}"),
    )


def judge(
    posed: Sequence[Posed], cells: Sequence[ObservedCell], issues: Sequence[KnownIssue] = ()
) -> tuple[Claim, ...]:
    """All hypotheses over the same cells, in the order given. Raises SpecError for an expression that is none."""
    parsed = [check(p.hypothesis, "hypothesis") for p in posed]
    family: dict[Key, float] = {}
    for trees in parsed:
        first = Ledger(cells, strict=False)
        for tree in trees:
            _truth(first, tree)
        family |= {key: first.tests[key].p or 0.0 for key in first.family}
    adjusted = dict(zip(family, exact.holm(list(family.values())), strict=True))
    return tuple(_claim(p, trees, cells, adjusted, issues) for p, trees in zip(posed, parsed, strict=True))


def _truth(ledger: Ledger, tree: ast.expr) -> Truth:
    try:
        return Evaluation(ledger).truth(tree)
    except TooMuch:
        return Truth(
            None, frozenset({Gap(GapKind.UNMEASURED, "the expression looks at too many cells to be evaluated")})
        )


def _claim(
    posed: Posed,
    trees: tuple[ast.expr, ast.expr],
    cells: Sequence[ObservedCell],
    adjusted: Mapping[Key, float],
    issues: Sequence[KnownIssue],
) -> Claim:
    ledger = Ledger(cells, adjusted)
    predicts = _truth(ledger, trees[0])
    ledger.witnesses.clear()
    refutes = _truth(ledger, trees[1])
    lenient = Ledger(cells, adjusted, strict=False)
    as_numbers = [_truth(lenient, tree) for tree in trees]
    verdict, why = _grounded(_verdict(predicts, refutes, as_numbers[0], as_numbers[1]), ledger, trees)
    if verdict is ClaimVerdict.REFUTED and ledger.witnesses:
        seen = sorted(ledger.witnesses[0])
        why += " in " + " and ".join(quoting.summary(cells[i]) for i in seen)
        timed = [quoting.times(cells[i]) for i in seen] if _asks_times(trees) else []
        why += "".join(f"; {text}" for text in timed if text)
    used = [cells[i] for i in sorted(ledger.used)]
    drivers, missing = quoting.driver(used)
    decided = verdict in (ClaimVerdict.SUPPORTED, ClaimVerdict.REFUTED)
    gaps = sorted(predicts.gaps | refutes.gaps, key=lambda g: (g.kind.value, g.text))
    open_ = () if decided else further.trials(ledger)
    separate = () if decided else further.of_contrast(ledger)
    return Claim(
        id=posed.hypothesis.id,
        text=posed.hypothesis.text,
        verdict=verdict,
        why=why,
        scope=quoting.scope(used),
        predicted=predicts.value,
        refuted=refutes.value,
        frozen=posed.frozen,
        runs=tuple(sorted({t.run for c in used for t in c.trials})),
        counts=tuple(quoting.counts(c) for c in used),
        tests=tuple(_tests(ledger)),
        contrasts=tuple(_contrasts(ledger)),
        untested=tuple(dict.fromkeys(g.text for g in gaps if g.kind is GapKind.UNTESTED)),
        not_varied=quoting.not_varied(used),
        would_decide=tuple(dict.fromkeys((*separate, *open_, *_untested_needs(gaps, decided=decided)))),
        evidence=quoting.lines(used),
        warnings=tuple(w for w in (posed.note, *quoting.warnings(used), *_timed(trees, used)) if w),
        known_issues=quoting.known_issues(used, ledger.compared.values(), issues, cells),
        driver=drivers,
        driver_unknown=missing,
        blocks=blocks.of_cells(used),
        sides=(*quoting.sides(used), *_speeds(trees, used), *quoting.faster(used, cells)),
        shared=blocks.sentences(used),
    )


def _asked(trees: Sequence[ast.expr]) -> set[str]:
    """All fields that the expressions name."""
    return {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def _asks_times(trees: Sequence[ast.expr]) -> bool:
    """Whether an expression is about the time to a crash."""
    return not _asked(trees).isdisjoint(expressions.TIMES)


def _speeds(trees: Sequence[ast.expr], used: Sequence[ObservedCell]) -> tuple[str, ...]:
    """The speeds of the cells, where an expression is about them."""
    return tuple(text for text in map(quoting.speed, used) if text) if "throughput" in _asked(trees) else ()


def _timed(trees: Sequence[ast.expr], used: Sequence[ObservedCell]) -> tuple[str, ...]:
    return tuple(quoting.times(cell) for cell in used) if _asks_times(trees) else ()


def _untested_needs(gaps: Sequence[Gap], *, decided: bool) -> list[str]:
    if decided:
        return []
    return [f"trials that are applied: {g.text}" for g in gaps if g.kind is GapKind.UNTESTED]


def _verdict(predicts: Truth, refutes: Truth, as_predicted: Truth, as_refuted: Truth) -> tuple[ClaimVerdict, str]:
    strict = _decide(predicts, refutes)
    if strict is not None:
        return strict
    gaps = predicts.gaps | refutes.gaps
    numbers = _decide(as_predicted, as_refuted)
    confounded = sorted(g.text for g in gaps if g.kind is GapKind.CONFOUNDED)
    if numbers is not None and confounded and numbers[0] is not ClaimVerdict.INCONCLUSIVE:
        return ClaimVerdict.CONFOUNDED, (
            f"by the numbers {numbers[0].value}, but the sides differ in more than one factor: {confounded[0]}"
        )
    kinds = {g.kind for g in gaps}
    if kinds == {GapKind.CONFOUNDED}:
        return ClaimVerdict.CONFOUNDED, (
            f"the numbers leave it open, and more of the same would not decide it: the sides differ in more than one "
            f"factor: {confounded[0]}"
        )
    texts = sorted(g.text for g in gaps)
    if kinds == {GapKind.UNTESTED}:
        return ClaimVerdict.VOID, f"never really tested: {texts[0]}"
    if not gaps:
        return ClaimVerdict.INCONCLUSIVE, "neither what it predicts nor what would refute it was seen"
    rank: Callable[[Gap], tuple[int, str]] = lambda g: (_RANK[g.kind], g.text)  # noqa: E731
    return ClaimVerdict.INCONCLUSIVE, f"not decided: {min(gaps, key=rank).text}"


def _grounded(
    decided: tuple[ClaimVerdict, str], ledger: Ledger, trees: Sequence[ast.expr]
) -> tuple[ClaimVerdict, str]:
    """A verdict that rests on no applied trial is void, whatever the expressions came to; save where they ask for
    trials that were not applied, and there are some."""
    if decided[0] in (ClaimVerdict.VOID, ClaimVerdict.INCONCLUSIVE):
        return decided
    used = [ledger.cells[i] for i in sorted(ledger.used)]
    if any(cell.applied for cell in used):
        return decided
    if not _asked(trees).isdisjoint(expressions.COUNTED) and any(cell.trials for cell in used):
        return decided
    if not used:
        return ClaimVerdict.VOID, "never really tested: it is about no cell of these runs"
    return ClaimVerdict.VOID, f"never really tested: {', '.join(c.id for c in used[:3])}: no trial was applied"


_RANK = {GapKind.UNDECIDED: 0, GapKind.CONFOUNDED: 1, GapKind.UNMEASURED: 2, GapKind.UNTESTED: 3}


def _decide(predicts: Truth, refutes: Truth) -> tuple[ClaimVerdict, str] | None:
    if predicts.value and refutes.value:
        return ClaimVerdict.INCONCLUSIVE, "what it predicts and what would refute it both hold: it is badly posed"
    if refutes.value:
        return ClaimVerdict.REFUTED, "what would refute it was seen"
    if predicts.value and refutes.value is False:
        return ClaimVerdict.SUPPORTED, "what it predicts was seen, and nothing that would refute it"
    return None


def _tests(ledger: Ledger) -> list[RateTest]:
    return [
        dataclasses.replace(test, adjusted=ledger.adjusted.get(key) if key in ledger.family else None)
        for key, test in ledger.tests.items()
    ]


def _contrasts(ledger: Ledger) -> list[ContrastView]:
    views = []
    for seen in ledger.compared.values():
        if not all(any(ledger.cells[i].applied for i in group) for group in (seen.left, seen.right)):
            continue  # nothing was compared
        names = [quoting.side(ledger, cells) for cells in (seen.left, seen.right)]
        unknown = tuple(f"{name}: {a} against {b}" for name, (a, b) in seen.seen.unknown.items())
        views.append(
            ContrastView(names[0], names[1], seen.seen.status, seen.seen.sentences(), unknown, seen.separate, seen.on)
        )
    return views
