"""Time to failure: Kaplan and Meier's curve, and the log-rank test between two cells.

A run that ends healthy did not survive for ever, it was stopped: it is censored at its end. Kaplan and Meier, JASA 53
(1958); Mantel, Cancer Chemotherapy Reports 50 (1966). Deaths at a time are counted before censorings at that time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from stillruns.model.observed import ObservedCell, ObservedTrial
from stillruns.model.survival import LogRank, Step, Survival

Life = tuple[float, bool]
"""(time, died)."""


def curve(lives: Sequence[Life]) -> tuple[Step, ...]:
    """One step a time at which somebody died."""
    steps: list[Step] = []
    left = 1.0
    for at in sorted({time for time, died in lives if died}):
        at_risk = sum(time >= at for time, _ in lives)
        died = sum(died for time, died in lives if time == at)
        left *= 1 - died / at_risk
        steps.append(Step(at, at_risk, died, left))
    return tuple(steps)


def log_rank(a: Sequence[Life], b: Sequence[Life]) -> tuple[float, float] | None:
    """(chi-squared, p) of two groups; None when no time of death has both groups at risk, or nobody died."""
    seen = expected = variance = 0.0
    for at in sorted({time for time, died in (*a, *b) if died}):
        risk_a, risk_b = (sum(time >= at for time, _ in side) for side in (a, b))
        died_a, died_b = (sum(died for time, died in side if time == at) for side in (a, b))
        risk, died = risk_a + risk_b, died_a + died_b
        seen += died_a
        expected += died * risk_a / risk
        if risk > 1:
            variance += died * (risk_a / risk) * (risk_b / risk) * (risk - died) / (risk - 1)
    if variance <= 0:
        return None
    chi = (seen - expected) ** 2 / variance
    return chi, math.erfc(math.sqrt(chi / 2))


def lives(cell: ObservedCell, unit: str) -> list[Life]:
    """A cell's applied trials as times in `tokens` or `seconds`. A wrong answer is no death."""
    return [(_time(t, unit), _died(t)) for t in cell.applied]


UNITS = ("tokens", "seconds")


def of_cells(cells: Sequence[ObservedCell]) -> tuple[tuple[Survival, ...], tuple[LogRank, ...]]:
    """Curves of all tested cells and tests between cells of different sides that are otherwise equal, where some run
    died after its first token, else nothing: a server that dies before it answers has a rate, no life.

    In tokens, of all slots of a server together, and, where servers were asked more than once, in seconds too: from
    the first request, so that loading is no life.
    """
    tested = [c for c in cells if c.applied]
    if not any(_died(t) and t.tokens > 0 for c in tested for t in c.applied):
        return (), ()
    curves: list[Survival] = []
    tests: list[LogRank] = []
    units = UNITS if any(_lasting(c) for c in tested) else UNITS[:1]
    for unit in units:
        curves += [_one(cell, unit) for cell in tested]
        for place, a in enumerate(tested):
            for b in tested[place + 1 :]:
                if a.side != b.side and (str(a.layers), a.axes) == (str(b.layers), b.axes):
                    found = log_rank(lives(a, unit), lives(b, unit))
                    if found:
                        deaths = sum(_died(t) for t in (*a.applied, *b.applied))
                        tests.append(LogRank(a.id, b.id, *found, deaths, unit))
    return tuple(curves), tuple(tests)


def _lasting(cell: ObservedCell) -> bool:
    """Whether its servers were asked more than once."""
    return any(name in cell.factors for name in ("epochs", "duration"))


def _one(cell: ObservedCell, unit: str) -> Survival:
    times = lives(cell, unit)
    deaths = sum(died for _, died in times)
    healthy = [time for time, died in times if not died]
    return Survival(cell.id, unit, len(times), deaths, len(healthy), max(t for t, _ in times), curve(times))


def _died(trial: ObservedTrial) -> bool:
    return trial.outcome not in ("ok", "wrong_output")


def _time(trial: ObservedTrial, unit: str) -> float:
    return float(trial.tokens) if unit == "tokens" else trial.served
