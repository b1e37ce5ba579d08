"""Whether two groups of cells differ in one factor only, and what would separate the factors if not.

Factors are nested (implied by another that differs: a driver by its backend), nuisance (temperature, load, order:
they count only when the sides lie apart beyond what either side varies by), or free: all others, the runtime's
version among them. One free factor and no nuisance is clean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stillruns.judge.statistics import exact
from stillruns.model.observed import ObservedCell, ObservedTrial

NESTED: dict[str, tuple[str, ...]] = {
    "side": ("backend",),
    "device": ("backend",),
    "driver": ("backend",),
    "library": ("backend",),
    "build": ("version", "runtime"),
    "model_file": ("model", "quantisation"),
    "placement": ("layers", "model"),
}
"""Factor -> those that imply it: where one of them differs, it is not counted."""

_BACKEND_VARIABLES = ("env.GGML_VK_", "env.MESA_", "env.VK_", "env.HIP_", "env.ROCR_", "env.HSA_", "env.CUDA_")
"""Variables that only one backend reads are nested in the backend."""

ERROR = 0.05
"""The error level of every test."""

SEPARABLE = 40
"""Two sides lie apart by chance in less than 1 of 20 cases once their trials can be dealt in so many ways."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """`status` is `clean`, `confounded` or `unknown`. `free` are the factors that differ and count, `nuisance` the
    unbalanced ones, `unknown` the factors that some trial does not show; all by name with the values of both sides.
    `only` is the factor that differs where it is one."""

    status: str
    free: dict[str, tuple[str, str]]
    nuisance: dict[str, tuple[str, str]]
    unknown: dict[str, tuple[str, str]]

    @property
    def only(self) -> str:
        """The one factor that the comparison is about; empty where it is not one."""
        return next(iter(self.free)) if len(self.free) == 1 else ""

    def sentences(self) -> tuple[str, ...]:
        """`version: 0.17.4 against 0.17.6`, free factors first."""
        both = {**self.free, **self.nuisance}
        return tuple(f"{name}: {left} against {right}" for name, (left, right) in both.items())


def compare(left: Sequence[ObservedCell], right: Sequence[ObservedCell]) -> Contrast:
    """The contrast of two groups. Only cells with applied trials have a say; without any on a side nothing differs
    and the status is `unknown`."""
    a, b = _tested(left), _tested(right)
    names = list(dict.fromkeys(name for cell in (*a, *b) for name in cell.factors))
    if not all("placement" in cell.factors for cell in (*a, *b)):
        names = [name for name in names if name != "placement"]  # a server that died early shows none
    values = {name: (_values(a, name), _values(b, name)) for name in names}
    unknown, free = {}, {}
    for name, (ours, theirs) in values.items():
        if None in ours or None in theirs:
            if not _implied(name, values):
                unknown[name] = (_shown(ours), _shown(theirs))
        elif ours != theirs and not _implied(name, values):
            free[name] = (_shown(ours), _shown(theirs))
    nuisance = _nuisances(a, b)
    if not a or not b:
        status = "unknown"
    elif len(free) > 1 or nuisance:
        status = "confounded"
    else:
        status = "unknown" if unknown else "clean"
    return Contrast(status, free, nuisance, unknown)


def common(
    left: Sequence[ObservedCell], right: Sequence[ObservedCell]
) -> tuple[tuple[ObservedCell, ...], tuple[ObservedCell, ...], str]:
    """Both sides restricted to the numbers of layers and axis values that both have, and what those are (empty when
    nothing was left out).

    A side that was also tried with more layers than the other differs in that too; on what both were tried with it
    does not. Where a restriction would leave a side empty, that factor is what differs, and it stays.
    """
    a, b, on = tuple(_tested(left)), tuple(_tested(right)), []
    axes = sorted({name for cell in (*a, *b) for name in cell.axes})
    for name in ("layers", *axes):
        shared = _values(a, name) & _values(b, name)
        if None in _values(a, name) | _values(b, name) or not shared or _values(a, name) == _values(b, name):
            continue
        kept_a = tuple(c for c in a if c.factors.get(name) in shared)
        kept_b = tuple(c for c in b if c.factors.get(name) in shared)
        a, b = kept_a, kept_b
        on.append(f"{name} {', '.join(sorted(str(v) for v in shared))}")
    return (a, b, "; ".join(on)) if on and a and b else (tuple(left), tuple(right), "")


def separating(contrast: Contrast, counts: tuple[int, int, int, int], least: int = 0) -> tuple[str, ...]:
    """The smallest set of further trials that would leave one factor: one new cell a side factor that is not the
    first, with as many trials as an exact test needs if it goes on as before.

    `counts` are failures and trials of the left and of the right side; `least` is the number of trials that what is
    compared needs where that is no rate. Nothing for a clean contrast.
    """
    if contrast.status == "clean":
        return ()
    if not counts[1] or not counts[3]:
        return ()
    if contrast.status == "unknown":
        return tuple(f"record {name}: it is not known ({a} against {b})" for name, (a, b) in contrast.unknown.items())
    factors = list(contrast.free.items())
    texts = []
    if len(factors) > 1:
        about, (ours, theirs) = factors[0]
        others = ", ".join(f"{name} {value[1]}" for name, value in factors[1:])
        mirrored = ", ".join(f"{name} {value[0]}" for name, value in factors[1:])
        number = least or trials_needed(*counts)
        times = f"{number} trials" if number else "trials"
        texts.append(
            f"{times} with {about} {ours} and {others} (or with {about} {theirs} and {mirrored}): one such cell "
            f"leaves {about} as the only difference"
        )
    texts += [f"repeat both sides in one randomised run: {name} lay apart" for name in contrast.nuisance]
    return tuple(texts)


def trials_needed(failed_a: int, n_a: int, failed_b: int, n_b: int, level: float = ERROR) -> int:
    """How many trials of a new cell that fails as side a does an exact test against side b needs; 0 for over 60."""
    share = failed_a / n_a if n_a else 1.0
    for number in range(2, 61):
        failures = math.floor(share * number + 0.5)
        if exact.fisher(failures, number, failed_b, n_b) < level:
            return number
    return 0


def _tested(cells: Sequence[ObservedCell]) -> list[ObservedCell]:
    return [cell for cell in cells if cell.applied]


def _values(cells: Sequence[ObservedCell], name: str) -> frozenset[str | None]:
    """The values of one factor over all cells; a factor that a cell does not have at all has the value `not set`."""
    return frozenset(cell.factors.get(name, "not set") for cell in cells)


def _implied(name: str, values: dict[str, tuple[frozenset[str | None], frozenset[str | None]]]) -> bool:
    parents = NESTED.get(name, ())
    if name == "layers" and any(side == {"none"} for side in values[name]):
        parents = ("backend",)  # the cpu offloads nothing: no number of layers is its own
    if name.startswith(_BACKEND_VARIABLES):
        parents = ("backend",)
    return any(parent in values and values[parent][0] != values[parent][1] for parent in parents)


def _shown(values: frozenset[str | None]) -> str:
    return " or ".join(sorted("unknown" if v is None else v for v in values)) or "nothing"


def _nuisances(a: Sequence[ObservedCell], b: Sequence[ObservedCell]) -> dict[str, tuple[str, str]]:
    ours = [t for cell in a for t in cell.applied]
    theirs = [t for cell in b for t in cell.applied]
    names = sorted({name for t in (*ours, *theirs) for name in t.circumstances.measured})
    found = {}
    for name in names:
        pair = apart(
            [t.circumstances.measured[name] for t in ours if name in t.circumstances.measured],
            [t.circumstances.measured[name] for t in theirs if name in t.circumstances.measured],
        )
        if pair:
            found[name] = pair
    if not all(cell.randomised for cell in (*a, *b)) and apart(_orders(ours), _orders(theirs)):
        first = "the left side first" if max(_orders(ours)) < min(_orders(theirs)) else "the right side first"
        found["order"] = (first, "not randomised")
    boots_a, boots_b = _boots(ours), _boots(theirs)
    if boots_a and boots_b and not boots_a & boots_b:
        found["boot"] = (f"{len(boots_a)} of its own", f"{len(boots_b)} of its own")
    return found


def _orders(trials: Sequence[ObservedTrial]) -> list[float]:
    return [t.circumstances.order for t in trials if t.circumstances.order is not None]


def _boots(trials: Sequence[ObservedTrial]) -> set[str]:
    return {t.circumstances.boot for t in trials if t.circumstances.boot}


def apart(ours: list[float], theirs: list[float]) -> tuple[str, str] | None:
    """Both ranges as texts when the sides do not overlap and have trials enough for that to be no chance."""
    if not ours or not theirs or math.comb(len(ours) + len(theirs), len(ours)) < SEPARABLE:
        return None
    if max(ours) < min(theirs) or max(theirs) < min(ours):
        return (_range(ours), _range(theirs))
    return None


def _range(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
