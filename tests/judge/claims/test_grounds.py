"""What a verdict may rest on: applied trials, known answers, cells picked beforehand, and one factor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from claim_samples import VOID, cell, claim, trial
from stillruns.catalogue.stock_hypotheses import shipped_hypotheses as library
from stillruns.lab.runs import observing
from stillruns.model.applied import Answer
from stillruns.model.claim import ClaimVerdict
from stillruns.model.observed import ObservedCell, ObservedTrial

FAILS = cell("vulkan", failed=6, version="0.17.4")
WORKS = cell("rocm", passed=6, version="0.17.7")


def verdict(predicts: str, *cells: ObservedCell, refuted_if: str = "1 == 2") -> ClaimVerdict:
    """Of a hypothesis that nothing refutes."""
    return claim(predicts, refuted_if, *cells).verdict


@pytest.mark.parametrize("cells", [(), (cell("vulkan", void=3),), (cell("vulkan", void=3), cell("rocm", void=3))])
@pytest.mark.parametrize(
    "predicts",
    [
        "1 == 1",
        "count(c for c in cells if c.backend == 'sycl') == 0",
        "count(c.crashed > 0 for c in cells) == 0",
        "count(c for c in cells if c.rate >= 0) == 0",
        "sum(c.crashed for c in cells if c.backend == 'sycl') == 0",
        "sum(0 for c in cells if c.crashed > 0) == 0",
        "pool(c for c in cells if c.backend == 'sycl').void == 0",
        "pool(c for c in cells if c.backend == 'sycl').trials == 0",
        "pool(c for c in cells if c.backend == 'sycl').rate >= 0",
        "not any(c.crashed > 0 for c in cells)",
        "all(c.rate.low >= 0 for c in cells)",
        "all(c.axes['env.NOT_SET'] != 3 for c in cells)",
        "all('--flag' not in c.args for c in cells)",
    ],
)
def test_nothing_is_true_on_no_evidence(predicts: str, cells: tuple[ObservedCell, ...]) -> None:
    """Without an applied trial there is no verdict but void or inconclusive, whatever an expression comes to, and the
    same as what would refute it."""
    open_ = (ClaimVerdict.VOID, ClaimVerdict.INCONCLUSIVE)
    assert verdict(predicts, *cells) in open_
    assert verdict("1 == 2", *cells, refuted_if=predicts) in open_


def test_what_was_never_applied_may_be_claimed() -> None:
    """Trials that were not applied are evidence for a statement about just that."""
    assert verdict("all(c.void == c.trials for c in cells)", cell(void=3)) is ClaimVerdict.SUPPORTED
    assert verdict("all(c.void == c.trials for c in cells)") is ClaimVerdict.VOID


def test_a_count_of_none_rests_on_the_cells_that_it_left_out() -> None:
    """No cell crashed: the cells that did not are what the claim is about, and what it is only for."""
    found = claim("count(c for c in cells if c.backend == 'rocm' and c.crashed > 0) == 0", "1 == 2", FAILS, WORKS)
    assert found.verdict is ClaimVerdict.SUPPORTED
    assert [row.cell for row in found.counts] == [WORKS.id]
    assert "0.17.7" in found.scope
    assert "0.17.4" not in found.scope


@pytest.mark.parametrize(
    ("predicts", "hidden", "shown"),
    [
        ("all('wrong' not in c.divergence for c in cells)", trial(output="unknown"), trial(output="same")),
        ("all(c.divergence == 'same' for c in cells)", trial(output=None), trial(output="same")),
        ("all(c.wrong == 0 for c in cells)", trial(output="unknown"), trial(output="same")),
        ("not any(c.passed > 0 for c in cells)", trial(passed=False, output="unknown"), trial("crash")),
        ("all('decode' not in c.phase for c in cells)", trial("crash", phase="unknown"), trial("crash")),
        ("all(c.phase == 'prompt' for c in cells)", trial("crash", phase="unknown"), trial("crash")),
        ("all('driver' not in c.component for c in cells)", trial("crash", components=("unknown",)), trial("crash")),
        ("all('driver' not in c.component for c in cells)", trial("crash", components=()), trial("crash")),
    ],
)
def test_what_nobody_saw_is_not_absent(predicts: str, hidden: ObservedTrial, shown: ObservedTrial) -> None:
    """An unknown output, phase or component may be any: that a name was not seen then says nothing."""
    assert verdict(predicts, cell(trials=(shown,) * 4)) is ClaimVerdict.SUPPORTED
    assert verdict(predicts, cell(trials=(shown, hidden))) is ClaimVerdict.INCONCLUSIVE


def test_a_name_that_was_seen_was_seen() -> None:
    """One wrong answer beside unknown ones is a wrong answer; `unknown` itself can be asked for."""
    cells = cell(trials=(trial("wrong_output", output="wrong"), trial(output="unknown")))
    assert verdict("any('wrong' in c.divergence for c in cells)", cells) is ClaimVerdict.SUPPORTED
    assert verdict("any('unknown' in c.divergence for c in cells)", cells) is ClaimVerdict.SUPPORTED
    assert verdict("all(c.wrong >= 1 for c in cells)", cells) is ClaimVerdict.SUPPORTED


TWO_STATEMENTS = [
    "all(c.failed == c.applied for c in cells if c.backend == 'vulkan')"
    " and all(c.passed == c.applied for c in cells if c.backend == 'rocm')",
    "all(c.rate.low > 0.5 for c in cells if c.backend == 'vulkan')"
    " and all(c.rate.high < 0.5 for c in cells if c.backend == 'rocm')",
    "pool(c for c in cells if c.backend == 'vulkan').rate.low > 0.5"
    " and pool(c for c in cells if c.backend == 'rocm').rate.high < 0.5",
    "any(v.crashed > 0 and r.crashed == 0 for v in cells for r in cells"
    " if v.backend == 'vulkan' and r.backend == 'rocm')",
    "count(c for c in cells if c.backend == 'vulkan' and c.crashed > 0)"
    " > count(c for c in cells if c.backend == 'rocm' and c.crashed > 0)",
    "sum(c.crashed for c in cells if c.backend == 'vulkan') > sum(c.crashed for c in cells if c.backend == 'rocm')",
    "all(('crash' in c.outcome) == (c.backend == 'vulkan') for c in cells)",
    "all(c.crashed > 0 or c.backend == 'rocm' for c in cells)",
]


@pytest.mark.parametrize("predicts", TWO_STATEMENTS)
@pytest.mark.parametrize("layers", [(2,), (1, 2)])
def test_two_statements_are_a_comparison(predicts: str, layers: tuple[int, ...]) -> None:
    """`Vulkan fails, ROCm works` is one contrast however it is written: confounded with the version where that
    differs too, supported where it does not, open where nobody knows it."""

    def sides(version: str | None) -> list[ObservedCell]:
        return [
            made
            for n in layers
            for made in (cell("vulkan", n, failed=6, version="0.17.4"), cell("rocm", n, passed=6, version=version))
        ]

    found = claim(predicts, "1 == 2", *sides("0.17.7"))
    assert found.verdict is ClaimVerdict.CONFOUNDED
    assert "version: 0.17" in found.why
    assert any("one such cell leaves backend" in text for text in found.would_decide)
    assert verdict(predicts, *sides("0.17.4")) is ClaimVerdict.SUPPORTED
    assert verdict(predicts, *sides(None)) in (ClaimVerdict.INCONCLUSIVE, ClaimVerdict.CONFOUNDED)


def test_two_statements_that_say_the_same_are_none() -> None:
    """Both sides work: no difference is claimed, and none needs a cause."""
    predicts = (
        "all(c.rate.high < 0.5 for c in cells if c.backend == 'vulkan')"
        " and all(c.rate.high < 0.5 for c in cells if c.backend == 'rocm')"
    )
    assert verdict(predicts, cell("vulkan", passed=6, version="0.17.4"), WORKS) is ClaimVerdict.SUPPORTED


def test_cells_picked_by_their_results_test_nothing() -> None:
    """Those that failed often fail more often than those that did not: always true, and no evidence."""
    lucky = [cell("vulkan", n, failed=4 if n % 2 else 1, passed=1 if n % 2 else 4) for n in range(1, 9)]
    often, seldom = (f"pool(c for c in cells if c.crashed {op} 2).rate" for op in (">", "<="))
    assert verdict(f"{often} > {seldom}", *lucky) is ClaimVerdict.INCONCLUSIVE
    assert verdict(f"{often}.low > 0.5", *lucky) is ClaimVerdict.INCONCLUSIVE
    applied = "pool(c for c in cells if c.backend == 'rocm' and c.applied > 0).rate.high < 0.5"
    assert verdict(applied, WORKS, cell("rocm", 3, void=2)) is ClaimVerdict.SUPPORTED


@pytest.mark.parametrize("picked", ["if c.failed > d.failed", "if c.failed > 2"])
def test_tests_that_results_left_out_are_of_the_family(picked: str) -> None:
    """Looking at every pair and testing the one that stands out is a test of every pair."""
    cells = [cell("vulkan", n, failed=n == 1 and 3, passed=0 if n == 1 else 3) for n in range(1, 5)]
    pairs = f"any(c.rate > d.rate for c in cells for d in cells {picked})"
    both = "any(c.failed > d.failed and c.rate > d.rate for c in cells for d in cells)"
    every = claim("any(c.rate > d.rate for c in cells for d in cells)", "1 == 2", *cells)
    for text in (pairs, both):
        found = claim(text, "1 == 2", *cells)
        assert found.verdict is every.verdict is ClaimVerdict.INCONCLUSIVE
        assert len(found.tests) == len(every.tests) == 6


def test_a_cell_that_may_belong_keeps_a_pool_open() -> None:
    """Trials of an unknown backend may be this one's; without applied trials they change no count."""
    hidden = cell("rocm", 3, failed=6)
    hidden = replace(hidden, factors={**hidden.factors, "backend": None}, side="?")
    predicts = "pool(c for c in cells if c.backend == 'rocm').crashed == 0"
    assert verdict(predicts, WORKS, hidden) is ClaimVerdict.INCONCLUSIVE
    assert verdict(predicts, WORKS, replace(hidden, trials=(VOID,))) is ClaimVerdict.SUPPORTED
    rate = "pool(c for c in cells if c.backend == 'rocm').rate < 0.6"
    assert verdict(rate, WORKS, hidden) is ClaimVerdict.INCONCLUSIVE


FASTER = "pool(c for c in cells if c.layers == 2).throughput > pool(c for c in cells if c.layers == 1).throughput"


@pytest.mark.parametrize(("each", "wanted"), [(3, ClaimVerdict.INCONCLUSIVE), (4, ClaimVerdict.SUPPORTED)])
def test_few_speeds_lie_apart_by_chance(each: int, wanted: ClaimVerdict) -> None:
    """Three speeds and three lie apart in one of ten cases without any difference, four and four in one of 35."""
    found = claim(FASTER, "1 == 2", cell(layers=1, passed=each, speed=10), cell(layers=2, passed=each, speed=20))
    assert found.verdict is wanted
    if wanted is ClaimVerdict.INCONCLUSIVE:
        assert "3 more trials of backend=vulkan,gpu_layers=1 that pass and have a speed" in found.would_decide
    assert "backend=vulkan,gpu_layers=2: 20 tokens/s" in " ".join(found.sides)


def test_a_speed_and_a_number_need_an_interval() -> None:
    """Two speeds above a number are above it by chance in one of four cases; six have an interval."""
    predicts = "all(c.throughput > 5 for c in cells)"
    assert verdict(predicts, cell(passed=2)) is ClaimVerdict.INCONCLUSIVE
    assert verdict(predicts, cell(passed=6)) is ClaimVerdict.SUPPORTED


@pytest.mark.parametrize("name", ["gpu-unusable", "works-with-all-layers"])
def test_one_pass_among_hangs_is_no_proof_that_it_works(name: str) -> None:
    """A hang or a wrong answer is a failure as a crash is."""
    known = next(h for h in library() if h.id == name)
    cells = cell(layers="all", trials=(trial("hang"),) * 3 + (trial(),) * 3)
    assert claim(known.predicts, known.refuted_if, cells).verdict is ClaimVerdict.INCONCLUSIVE


def test_runs_that_were_added_are_looks() -> None:
    """Three against none in each of two runs: the second may have been made for what the first showed, so the number
    was not fixed, and the interval is the confidence sequence's."""
    first = [cell("vulkan", failed=3), cell("rocm", passed=3)]
    again = [replace(c, trials=tuple(replace(t, run="r2") for t in c.trials)) for c in first]
    predicts = (
        "pool(c for c in cells if c.backend == 'vulkan').rate > pool(c for c in cells if c.backend == 'rocm').rate"
    )
    found = claim(predicts, "1 == 2", *observing.merged([*first, *again]))
    assert {test.method for test in found.tests} == {"confidence sequences"}
    assert all(row.rate.method.startswith("sequential") for row in found.counts if row.rate)
    alone = claim(predicts, "1 == 2", *observing.merged([*first, cell("rocm", void=3)]))
    assert {row.rate.method for row in alone.counts if row.rate} == {"fixed-n"}


def test_void_names_the_cells_that_were_meant() -> None:
    """A filter on applied trials leaves the void cells out; they are what was never tested."""
    found = claim("all(c.placed <= 1 for c in cells if c.layers > 1 and c.applied > 0)", "1 == 2", cell(void=3))
    assert found.verdict is ClaimVerdict.VOID
    assert found.untested == ("backend=vulkan,gpu_layers=2: no trial was applied (ran on the CPU)",)
    assert [row.void for row in found.counts] == [3]


def test_an_open_interval_names_its_cell() -> None:
    """Which cell, how many failures of how many, and what interval that leaves."""
    found = claim("all(c.rate < 0.5 for c in cells)", "1 == 2", cell(passed=5))
    assert found.why == "not decided: backend=vulkan,gpu_layers=2: 0 of 5 (0 to 52 %) leaves it open"


@pytest.mark.parametrize("others", [(), (cell("rocm", void=3, version="0.17.7"),)])
def test_a_side_without_trials_is_untested_and_not_different(others: tuple[ObservedCell, ...]) -> None:
    """A comparison with what was never tested is void; no factor lies `against nothing`."""
    predicts = (
        "pool(c for c in cells if c.backend == 'vulkan').rate > pool(c for c in cells if c.backend == 'rocm').rate"
    )
    found = claim(predicts, "1 == 2", FAILS, *others)
    assert found.verdict is ClaimVerdict.VOID
    assert "against" not in found.why
    assert found.contrasts == ()


def test_failures_of_unknown_condition_are_named() -> None:
    """`No applied trial crashed` is true beside crashes that nobody can place; a claim that says so names them."""
    unplaced = trial("crash", applied=Answer.UNKNOWN, passed=False)
    found = claim("all(c.crashed == 0 for c in cells)", "1 == 2", cell(passed=3, trials=(unplaced, unplaced)))
    assert found.verdict is ClaimVerdict.SUPPORTED
    text = "backend=vulkan,gpu_layers=2: 2 trials of unknown condition failed, and stand in no count and no rate"
    assert text in found.warnings
