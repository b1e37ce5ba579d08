"""The promise: a run that became slower as a whole says so, and one that did not says nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations

import pytest

from claim_samples import cell, trial
from stillruns.judge.statistics import pace
from stillruns.model.observed import Circumstances, ObservedCell

ROUNDS = 10


def run(changing: Callable[[str, int], float], rounds: int = ROUNDS) -> list[ObservedCell]:
    """A CPU's three cells and a card's three, asked in turns; what each trial adds of itself repeats every third."""
    made = []
    for place, (backend, own) in enumerate((("cpu", 150.0), ("cuda", 700.0)) * 3):
        trials = tuple(
            replace(
                trial(tokens_per_second=own * changing(backend, i) * (1 + 0.02 * ((i + place) % 3))),
                circumstances=Circumstances(order=float(6 * i + place)),
            )
            for i in range(rounds)
        )
        made.append(cell(backend, "none" if backend == "cpu" else "all", trials=trials))
    return made


def test_a_host_that_slows_down() -> None:
    """Everything falls by a fifth, and the CPU's own cells tell whose it is."""
    said = pace.changed(run(lambda _, i: 0.8 ** (i / 9)))
    assert said.startswith("speeds fell by 20 % while the run went on")
    assert "; so did the CPU's own cells, which no card can do to them: " in said


def test_a_card_that_slows_down() -> None:
    """Where the CPU's cells are steady, nothing is said of them; it is the change of all cells that counts."""
    said = pace.changed(run(lambda backend, i: 0.6 ** (i / 9) if backend == "cuda" else 1.0))
    assert said.startswith("speeds fell by 2")
    assert "CPU" not in said


@pytest.mark.parametrize(
    "changing",
    [
        lambda _, i: 1.0,
        lambda _, i: 1.0 + 0.3 * (i % 2),
        lambda _, i: 1.0 if i < ROUNDS - 1 else 0.3,
        lambda _, i: 1.0 - 0.005 * i,
    ],
    ids=["steady", "restless", "one bad minute", "too little to say"],
)  # fmt: skip
def test_no_trend(changing: Callable[[str, int], float]) -> None:
    """Spread is no trend, a single bad part neither, and five per cent are not worth a sentence."""
    assert pace.changed(run(changing)) == ""


def test_too_few_trials() -> None:
    """Below thirty trials nothing is said, however far they fall."""
    assert pace.changed(run(lambda _, i: 0.5**i, rounds=4)) == ""
    assert pace.changed([]) == ""


def test_a_cell_that_was_asked_late_is_no_trend() -> None:
    """Each trial stands beside its own cell: a slow cell at the end does not slow the run down."""
    quick, slow = run(lambda *_: 1.0)[1], run(lambda *_: 0.1)[3]
    later = tuple(replace(t, circumstances=Circumstances(order=1000.0 + i)) for i, t in enumerate(slow.trials))
    more = [replace(quick, id=f"quick {n}") for n in range(3)]
    assert pace.changed([*more, replace(slow, trials=later)]) == ""


def test_chances_are_those_of_all_orders() -> None:
    """Counted by hand over every order of five values; equal values are evidence of nothing."""
    for seen in ([1, 2, 3, 4, 5], [2, 1, 3, 4, 5], [3, 1, 2, 5, 4], [5, 4, 3, 2, 1]):
        fewest = min(inversions(seen), 10 - inversions(seen))
        extreme = sum(inversions(order) <= fewest for order in permutations(range(5)))
        assert pace.chance(seen) == pytest.approx(min(1.0, 2 * extreme / math.factorial(5)))
    assert pace.chance([7.0] * 10) == 1.0


def inversions(order: list[int] | tuple[int, ...]) -> int:
    return sum(a > b for i, a in enumerate(order) for b in order[i + 1 :])
