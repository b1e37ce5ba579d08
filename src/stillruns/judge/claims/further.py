"""How many more trials would decide what is open, if things go on as they did."""

from __future__ import annotations

from collections.abc import Sequence

from stillruns.judge.cells import contrast
from stillruns.judge.claims import measuring
from stillruns.judge.claims.ledger import Ledger
from stillruns.judge.claims.values import Basis, CellGroup, Number, order
from stillruns.judge.statistics import exact
from stillruns.model.observed import ObservedCell

MOST = 2000
"""Trials; what needs more is said to need more."""


def trials(ledger: Ledger) -> tuple[str, ...]:
    """One sentence for each comparison of a rate with a number, or with another rate, that is open."""
    texts = []
    for (basis, op, threshold), value in ledger.bounds.items():
        if value is None or (basis.bound and value is False):
            texts.append(_bound(basis, op, threshold, ledger.cells))
    for key in sorted(ledger.family, key=lambda k: (k[0], sorted(k[1]), sorted(k[2]))):
        test = ledger.tests[key]
        p = ledger.adjusted.get(key, test.p or 0.0)
        if p >= 0.05:
            number = _pair(test.left_failed, test.left_n, test.right_failed, test.right_n)
            if number:
                texts.append(f"{number} trials a side of {test.left} and {test.right}, if both go on as they did")
            else:
                texts.append(f"{test.left} and {test.right} fail alike so far: no number of trials is in sight")
    texts += [f"{number} more trials of {name} that pass and have a speed" for name, number in ledger.speeds.items()]
    return tuple(dict.fromkeys(text for text in texts if text))


def of_contrast(ledger: Ledger) -> tuple[str, ...]:
    """What would separate the factors of every contrast that is not clean."""
    return tuple(dict.fromkeys(text for seen in ledger.compared.values() for text in seen.separate))


def _bound(basis: Basis, op: str, threshold: float, cells: Sequence[ObservedCell]) -> str:
    name = measuring.label(CellGroup(basis.cells), cells)
    if not basis.n:
        return ""
    for total in _sizes(basis.n):
        failures = int(basis.failures / basis.n * total + 0.5)
        rate = measuring.rate_of(Basis(basis.what, failures, total, basis.fixed, basis.cells))
        assert rate is not None
        low, high = {"low": (rate.low, rate.low), "high": (rate.high, rate.high)}.get(
            basis.bound, (rate.low, rate.high)
        )
        settled = order(op, Number(low, high), Number(threshold, threshold))
        if settled is True or (settled is False and not basis.bound):
            seen = f"if it goes on failing {basis.failures} of {basis.n}"
            if basis.fixed:
                return f"a run with {total} trials of {name}, fixed beforehand, {seen}"
            return f"{total - basis.n} more trials of {name}, {seen}"
    return f"more than {MOST} trials of {name}, if it goes on failing {basis.failures} of {basis.n}"


def _sizes(n: int) -> list[int]:
    """Every number near, ever fewer further away."""
    sizes, size = [], n + 1
    while size <= MOST:
        sizes.append(size)
        size += max(1, size // 25)
    return sizes


def _pair(failed_a: int, n_a: int, failed_b: int, n_b: int) -> int:
    """The least number of trials a side, both fixed, with which Fisher's test tells these shares apart, or 0."""
    if failed_a * n_b == failed_b * n_a:
        return 0
    for number in _sizes(1):
        a, b = int(failed_a / n_a * number + 0.5), int(failed_b / n_b * number + 0.5)
        if exact.fisher(a, number, b, number) < contrast.ERROR:
            return number
    return 0
