"""Trials that share something are not independent: one process that served several, one boot of the machine.

Where the trials of a rate come from several such blocks, the interval is at least as wide as what drawing whole
blocks anew with replacement gives (the cluster bootstrap: Davison and Hinkley, Bootstrap Methods, 1997, 3.8): ten
trials of which one boot passed five and the other failed five know two boots, not ten coins. It never makes an
interval narrower, since with few blocks resampling shows too little. Where they come from one block, that is said.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from stillruns.judge.statistics import splitmix
from stillruns.model.claim import CellBlocks
from stillruns.model.observed import ObservedCell, ObservedTrial
from stillruns.model.rate import Rate

Counts = tuple[str, int, int]
"""(block, failures, trials)."""

EXACT = 8
"""Up to so many blocks all draws are gone through (6435 of them); beyond, `DRAWS` are drawn."""
DRAWS = 5_000
_SEED = 1997


def counts(trials: Iterable[tuple[str, bool]]) -> tuple[Counts, ...]:
    """(block, failed) of each trial, summed by block, in the order of their names."""
    found: dict[str, list[int]] = {}
    for block, failed in trials:
        sums = found.setdefault(block, [0, 0])
        sums[0] += int(failed)
        sums[1] += 1
    return tuple((block, failed, n) for block, (failed, n) in sorted(found.items()))


def block_of(trials: Sequence[ObservedTrial]) -> tuple[str, ...]:
    """The block of each trial: its boot where there were several, else its server process where several trials share
    one; none at all where nothing is shared, or nothing is known. Trials without a boot on record count as of one
    more boot."""
    boots = {t.circumstances.boot for t in trials}
    if len(boots) > 1:
        return tuple(t.circumstances.boot for t in trials)
    servers = [t.circumstances.server for t in trials]
    if "" not in servers and 1 < len(set(servers)) < len(servers):
        return tuple(servers)
    return ()


def widened(rate: Rate | None, found: Sequence[Counts]) -> Rate | None:
    """The interval, no narrower than that of resampled blocks; as it is below two blocks."""
    if rate is None or len(found) < 2:
        return rate
    low, high = resampled(tuple(found), rate.level)
    return replace(rate, low=min(rate.low, low), high=max(rate.high, high), method=f"{rate.method}, by block")


@lru_cache(maxsize=1024)
def resampled(found: tuple[Counts, ...], level: float = 0.95) -> tuple[float, float]:
    """The central interval of the rate when as many blocks are drawn anew, with replacement, as there are."""
    weights: dict[float, float] = {}
    for chosen, weight in _draws(len(found)):
        failures, n = sum(found[i][1] for i in chosen), sum(found[i][2] for i in chosen)
        weights[failures / n] = weights.get(failures / n, 0.0) + weight
    ordered, total = sorted(weights.items()), math.fsum(weights.values())
    tail = (1 - level) / 2 * total
    return _quantile(ordered, tail), _quantile(list(reversed(ordered)), tail)


def _quantile(ordered: Sequence[tuple[float, float]], tail: float) -> float:
    below = 0.0
    for value, weight in ordered:
        below += weight
        if below > tail:
            return value
    return ordered[-1][0]


def _draws(blocks: int) -> Iterable[tuple[Sequence[int], float]]:
    """Every draw with the number of orders that it comes in, or enough of them, always the same ones."""
    if blocks <= EXACT:
        for chosen in itertools.combinations_with_replacement(range(blocks), blocks):
            orders = math.factorial(blocks)
            for i in set(chosen):
                orders //= math.factorial(chosen.count(i))
            yield chosen, float(orders)
        return
    drawn = splitmix.words(_SEED)
    for _ in range(DRAWS):
        yield [next(drawn) % blocks for _ in range(blocks)], 1.0


def of_cells(cells: Sequence[ObservedCell]) -> tuple[CellBlocks, ...]:
    """How many processes, servers and boots the applied trials of each cell come from, for cells with several."""
    found = []
    for cell in cells:
        applied = cell.applied
        if len(applied) > 1:
            seen = [t.circumstances for t in applied]
            found.append(
                CellBlocks(
                    cell.id,
                    len(applied),
                    _number([c.server for c in seen]),
                    _number([c.service for c in seen]),
                    _number([c.boot for c in seen]),
                )
            )
    return tuple(found)


def _number(names: Sequence[str]) -> int | None:
    """How many different ones; None where some are not on record."""
    return None if "" in names else len(set(names))


def sentences(cells: Sequence[ObservedCell]) -> tuple[str, ...]:
    """What all evidence comes from, where that is one block: a boot, or a long-lived server."""
    tested = [c for c in cells if len(c.applied) > 1]
    every = [t.circumstances for c in tested for t in c.applied]
    boots = {c.boot for c in every}
    if not every:
        return ()
    if len(boots) == 1 and "" not in boots:
        found = [
            f"all {len(every)} applied trials of {_names(tested)} were made in one boot of the machine: what that "
            "boot brought with it is in every rate"
        ]
    elif "" in boots:
        missing = sum(c.boot == "" for c in every)
        found = [f"{missing} of {len(every)} applied trials have no boot on record: they may all be of one"]
    else:
        single = [c for c in tested if len({t.circumstances.boot for t in c.applied}) == 1]
        found = [f"{c.id}: all {len(c.applied)} applied trials were made in one boot of several" for c in single]
    return (*found, *_services(tested))


def _services(tested: Sequence[ObservedCell]) -> list[str]:
    """One sentence for each long-lived server that started the processes of all trials of some cells."""
    served: dict[str, list[ObservedCell]] = {}
    for cell in tested:
        services = {t.circumstances.service for t in cell.applied}
        if len(services) == 1 and "" not in services:
            served.setdefault(services.pop(), []).append(cell)
    return [
        f"one server process, {service}, started the runners of all {sum(len(c.applied) for c in mine)} applied "
        f"trials of {_names(mine)}"
        for service, mine in served.items()
    ]


def _names(cells: Sequence[ObservedCell]) -> str:
    names = [c.id for c in cells]
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more cell{'s' if more > 1 else ''}" if more > 0 else "")
