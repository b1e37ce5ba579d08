"""Comparisons of numbers: of one group of trials with a threshold, and of two groups with each other.

Two rates whose numbers of trials were fixed are compared by an exact test, others by confidence sequences that do not
overlap, speeds by their intervals. Trials of different cells make a contrast, and in strict mode it must be clean.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

from stillruns.judge.cells import contrast as contrasts
from stillruns.judge.claims import measuring
from stillruns.judge.claims.ledger import Compared, Key, Ledger
from stillruns.judge.claims.values import Basis, CellGroup, Cells, Gap, GapKind, Gaps, Number, Truth, order, point
from stillruns.judge.statistics import blocks, exact, throughput
from stillruns.model.claim import RateTest
from stillruns.model.observed import ObservedCell
from stillruns.model.wording import significant

ERROR = contrasts.ERROR

ALIKE = 0.5
"""Shares of failures that differ by as much are a difference, however few the trials."""

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def numbers(ledger: Ledger, op: str, left: Number, right: Number) -> Truth:
    """`left op right`; what was compared is noted in the ledger."""
    sides = list(dict.fromkeys([*left.sides, *right.sides]))
    if len(sides) == 2 and not sides[0] & sides[1]:
        return _contrast(ledger, op, left, right, sides[0], sides[1])
    if len(sides) > 2:
        return _several(ledger, op, left, right, sides)
    for number, other, turned in ((left, right, op), (right, left, _TURNED[op])):
        if number.basis is not None and not other.sides and other.low == other.high:
            ledger.bounds[(number.basis, turned, other.low)] = order(turned, number, other)
    if (left.speed or right.speed) and len(sides) == 1:
        return _speed(ledger, op, left, right, sides[0])
    found = ordered(op, left, right)
    basis = left.basis or right.basis
    if found.value is not None or left.gaps or right.gaps or basis is None or len(sides) != 1:
        return found
    rate = measuring.rate_of(basis)
    span = f" ({100 * rate.low:.2g} to {100 * rate.high:.2g} %)" if rate else ""
    text = f"{measuring.label(CellGroup(basis.cells), ledger.cells)}: {_of(basis)}{span} leaves it open"
    return Truth(None, frozenset({Gap(GapKind.UNDECIDED, text, basis.cells)}))


def _speed(ledger: Ledger, op: str, left: Number, right: Number, side: Cells) -> Truth:
    """One side's speed and a number: below six speeds there is no interval that holds at 95 %."""
    found = ordered(op, left, right)
    count = len(measuring.speeds([ledger.cells[i] for i in sorted(side)]))
    if left.gaps or right.gaps or count >= throughput.LEAST:
        return found
    name = measuring.label(CellGroup(side), ledger.cells)
    ledger.speeds[name] = throughput.LEAST - count
    text = f"{name}: {count} speeds have no interval at 95 %, {throughput.LEAST} have one"
    return Truth(None, frozenset({Gap(GapKind.UNDECIDED, text, side)}))


def _several(ledger: Ledger, op: str, left: Number, right: Number, sides: Sequence[Cells]) -> Truth:
    """Numbers that were made of more than two groups of cells: every two of them must make a clean contrast."""
    found = ordered(op, left, right)
    for a, b in itertools.combinations(sides, 2):
        if not ledger.strict or found.value is None or a & b:
            continue
        if (a, b) not in ledger.compared:
            kept = ([ledger.cells[i] for i in sorted(side)] for side in (a, b))
            ledger.compared[(a, b)] = _look(ledger, a, b, (next(kept), next(kept)), "", speeds=False)
        if ledger.compared[(a, b)].seen.status != "clean":
            return _unclean(ledger, a, b)
    return found


def ordered(op: str, left: Number, right: Number) -> Truth:
    """By the intervals alone."""
    value = order(op, left, right)
    if value is not None:
        return Truth(value)
    cells: Cells = frozenset().union(*left.sides, *right.sides)
    gaps = left.gaps | right.gaps
    return Truth(None, gaps or frozenset({Gap(GapKind.UNDECIDED, "the interval leaves it open", cells)}))


def _contrast(ledger: Ledger, op: str, left: Number, right: Number, a: Cells, b: Cells) -> Truth:
    """A comparison of trials of different cells: its own test, and only as far as the contrast is clean."""
    ours, theirs = [ledger.cells[i] for i in sorted(a)], [ledger.cells[i] for i in sorted(b)]
    before = ledger.compared.get((a, b))
    kept_a, kept_b, on = contrasts.common(ours, theirs)
    gaps = left.gaps | right.gaps
    if left.basis is not None and right.basis is not None and left.sides == (a,) and right.sides == (b,):
        found = _rates(ledger, op, left.basis, right.basis, gaps, decides=not on)
        if on:
            narrow_a, narrow_b = _narrow(ledger, left.basis, kept_a), _narrow(ledger, right.basis, kept_b)
            found = _rates(ledger, op, narrow_a, narrow_b, gaps, decides=True)
    else:
        found, on = ordered(op, left, right), ""
        why = "what was measured overlaps" if found.value is None and not gaps else ""
        if not gaps and (left.speed or right.speed):
            direct = found.value is not None and left.sides == (a,) and right.sides == (b,)
            apart = _no_difference(ledger, (a, b), direct=direct)
            why = apart or (f"{why}: {_speeds(ours)} tokens/s against {_speeds(theirs)}" if why else "")
        if why:
            ends = [measuring.label(CellGroup(side), ledger.cells) for side in (a, b)]
            found = Truth(None, frozenset({Gap(GapKind.UNDECIDED, f"{ends[0]} and {ends[1]}: {why}", a | b)}))
    if before is None or before.on != on:
        speeds = left.basis is None and right.basis is None
        ledger.compared[(a, b)] = _look(ledger, a, b, (kept_a, kept_b) if on else (ours, theirs), on, speeds=speeds)
    seen = ledger.compared[(a, b)].seen
    if not all(any(cell.applied for cell in side) for side in (ours, theirs)):
        return found  # nothing differs from no trials
    hopeless = len(seen.free) > 1  # more trials of these sides would not tell which factor it is
    if not ledger.strict or seen.status == "clean" or (found.value is None and not hopeless):
        return found
    return _unclean(ledger, a, b)


def _no_difference(ledger: Ledger, sides: tuple[Cells, Cells], *, direct: bool) -> str:
    """Why speeds that lie apart, or their ratio, show nothing yet: too few, or (`direct`: no ratio) no more apart
    than one condition's from its own. Empty where they do show something."""
    found = [measuring.speeds([ledger.cells[i] for i in sorted(side)]) for side in sides]
    few = [len(speeds) for speeds in found]
    if math.comb(sum(few), few[0]) < contrasts.SEPARABLE:
        for side, count in zip(sides, few, strict=True):
            ledger.speeds[measuring.label(CellGroup(side), ledger.cells)] = max(1, throughput.LEAST - count)
        return f"{few[0]} and {few[1]} speeds are too few: so few lie apart by chance in more than 1 of 20 cases"
    return throughput.within_floor(found[0], found[1]) if direct else ""


def _speeds(cells: Sequence[ObservedCell]) -> str:
    seen = throughput.spread(measuring.speeds(cells))
    return "no speed" if seen is None else f"{significant(seen.low)} to {significant(seen.high)}"


def _unclean(ledger: Ledger, a: Cells, b: Cells) -> Truth:
    """Open, for the factors in which two sides differ or may differ."""
    seen = ledger.compared[(a, b)].seen
    names = (measuring.label(CellGroup(a), ledger.cells), measuring.label(CellGroup(b), ledger.cells))
    kind = GapKind.CONFOUNDED if seen.status == "confounded" else GapKind.UNMEASURED
    missing = [f"{name} is not known" for name in seen.unknown]
    text = f"{names[0]} and {names[1]}: {'; '.join([*seen.sentences(), *missing])}"
    return Truth(None, frozenset({Gap(kind, text, a | b)}))


def together(ledger: Ledger, a: Cells, b: Cells) -> Truth:
    """Two statements that both hold, each about cells of its own (`this one fails and that one works`): true, and in
    strict mode open where the trials of these sides differ and the contrast is not clean. No comparison is written
    there, and it is one."""
    ours, theirs = [ledger.cells[i] for i in sorted(a)], [ledger.cells[i] for i in sorted(b)]
    if not ledger.strict or not _unlike(ours, theirs):
        return Truth(True)
    if (a, b) not in ledger.compared:
        kept_a, kept_b, on = contrasts.common(ours, theirs)
        ledger.compared[(a, b)] = _look(ledger, a, b, (kept_a, kept_b), on, speeds=False)
    return Truth(True) if ledger.compared[(a, b)].seen.status == "clean" else _unclean(ledger, a, b)


def _unlike(ours: Sequence[ObservedCell], theirs: Sequence[ObservedCell]) -> bool:
    """Whether two sides fail, crash or compute so differently that to name both is to compare them."""
    for what in ("rate", "crash_rate"):
        a, b = (measuring.basis_of(what, side, frozenset()) for side in (ours, theirs))
        if not a.n or not b.n:
            return False
        if abs(a.failures / a.n - b.failures / b.n) >= ALIKE:
            return True
        if exact.compare(a.failures, a.n, b.failures, b.n)[0] < ERROR:
            return True
    return contrasts.apart(measuring.speeds(ours), measuring.speeds(theirs)) is not None


def _look(
    ledger: Ledger,
    a: Cells,
    b: Cells,
    kept: tuple[Sequence[ObservedCell], Sequence[ObservedCell]],
    on: str,
    *,
    speeds: bool,
) -> Compared:
    seen = contrasts.compare(*kept)
    ours, theirs = (measuring.basis_of("rate", [ledger.cells[i] for i in side], frozenset()) for side in (a, b))
    least = throughput.LEAST if speeds else 0
    advice = contrasts.separating(seen, (ours.failures, ours.n, theirs.failures, theirs.n), least)
    return Compared(a, b, on, seen, advice)


def _narrow(ledger: Ledger, basis: Basis, kept: Sequence[ObservedCell]) -> Basis:
    wanted = {id(cell) for cell in kept}
    cells = frozenset(i for i, cell in enumerate(ledger.cells) if id(cell) in wanted)
    narrow = measuring.basis_of(basis.what, kept, cells)
    return dataclasses.replace(narrow, bound=basis.bound)


def _rates(ledger: Ledger, op: str, a: Basis, b: Basis, gaps: Gaps, *, decides: bool) -> Truth:
    if not a.n or not b.n:
        return Truth(None, gaps)
    names = (measuring.label(CellGroup(a.cells), ledger.cells), measuring.label(CellGroup(b.cells), ledger.cells))
    key: Key = (a.what, a.cells, b.cells) if min(a.cells) < min(b.cells) else (a.what, b.cells, a.cells)
    if a.bound or b.bound or not (a.fixed and b.fixed):
        return _sequences(ledger, op, a, b, key, names)
    if key not in ledger.tests:
        ledger.steps += 2 * (a.n + 1) * (b.n + 1)  # an exact test goes through every table
        p, method = _exact(ledger, a, b)
        fisher = exact.fisher(a.failures, a.n, b.failures, b.n)
        ledger.tests[key] = _test(a, b, names, method, p, fisher)
    if decides:
        ledger.family.add(key)
    p = ledger.adjusted.get(key, ledger.tests[key].p or 0.0)
    if p >= ERROR:
        text = f"{names[0]} and {names[1]}: {_of(a)} against {_of(b)}, p = {p:.2g}"
        return Truth(None, frozenset({Gap(GapKind.UNDECIDED, text, a.cells | b.cells)}))
    return ordered(op, point(a.failures / a.n), point(b.failures / b.n))


def _exact(ledger: Ledger, a: Basis, b: Basis) -> tuple[float, str]:
    """(p, name of the test). Where both sides have trials in one of several boots, failures are dealt within boots
    only: what one boot does to both sides is no difference between them."""
    boots = [{name: (f, n) for name, f, n in _boots(ledger, side)} for side in (a, b)]
    names = sorted({*boots[0], *boots[1]})
    if len(names) > 1 and set(boots[0]) & set(boots[1]):
        strata = [(*boots[0].get(name, (0, 0)), *boots[1].get(name, (0, 0))) for name in names]
        return exact.within(strata), "exact within boots"
    return exact.compare(a.failures, a.n, b.failures, b.n)


def _boots(ledger: Ledger, side: Basis) -> tuple[blocks.Counts, ...]:
    applied = [t for i in sorted(side.cells) for t in ledger.cells[i].applied]
    failed = measuring.failures(side.what, applied)
    return blocks.counts(zip((t.circumstances.boot for t in applied), failed, strict=True))


def _sequences(ledger: Ledger, op: str, a: Basis, b: Basis, key: Key, names: tuple[str, str]) -> Truth:
    """Two intervals that each hold at 97.5 % at any look, so that both hold at 95 %."""
    ledger.tests.setdefault(key, _test(a, b, names, "confidence sequences", None, None))
    ends = []
    for basis in (a, b):
        rate = measuring.rate_of(basis, 1 - ERROR / 2)
        assert rate is not None
        low = rate.high if basis.bound == "high" else rate.low
        high = rate.low if basis.bound == "low" else rate.high
        ends.append(Number(low, high))
    truth = ordered(op, *ends)
    if truth.value is not None:
        return truth
    text = f"{names[0]} and {names[1]}: {_of(a)} against {_of(b)}, and the confidence sequences overlap"
    return Truth(None, frozenset({Gap(GapKind.UNDECIDED, text, a.cells | b.cells)}))


def _test(a: Basis, b: Basis, names: tuple[str, str], method: str, p: float | None, fisher: float | None) -> RateTest:
    return RateTest(a.what, *names, a.failures, a.n, b.failures, b.n, method, p, fisher, None)


def _of(basis: Basis) -> str:
    return f"{basis.failures} of {basis.n}"
