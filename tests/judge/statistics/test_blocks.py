"""The promise: trials that share a boot or a server are not taken for independent ones, and it is said."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from claim_samples import VOID, cell, claim
from stillruns.catalogue.stock_hypotheses import shipped_hypotheses as library
from stillruns.judge.claims import measuring
from stillruns.judge.statistics import blocks, exact
from stillruns.judge.statistics.binomial import clopper_pearson
from stillruns.model.claim import ClaimVerdict
from stillruns.model.observed import ObservedCell

WORSE = (
    "pool(c for c in cells if c.backend == 'vulkan').rate > pool(c for c in cells if c.backend == 'rocm').rate",
    "pool(c for c in cells if c.backend == 'vulkan').rate <= pool(c for c in cells if c.backend == 'rocm').rate",
)
RARE = ("all(c.rate.high < 0.9 for c in cells)", "all(c.rate.low > 0.9 for c in cells)")


def in_boots(base: ObservedCell, *boots: str) -> ObservedCell:
    """The cell with its trials made in these boots, one each, from the first on (failures are first)."""
    trials = [
        replace(t, circumstances=replace(t.circumstances, boot=boot))
        for t, boot in zip(base.trials, boots, strict=True)
    ]
    return replace(base, trials=tuple(trials))


def test_resampling_goes_through_all_draws() -> None:
    """Two boots, one all bad, one all good: a quarter of the draws has only one of them, so 95 % holds everything."""
    assert blocks.resampled((("a", 5, 5), ("b", 0, 5))) == (0.0, 1.0)
    assert blocks.resampled((("a", 1, 4), ("b", 1, 4), ("c", 1, 4))) == (0.25, 0.25)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), min_size=2, max_size=5))
def test_resampling_equals_brute_force(counts: list[tuple[int, int]]) -> None:
    """The weighted draws are all draws: the same quantiles as listing every one."""
    found = tuple((str(i), min(f, n), n) for i, (f, n) in enumerate(counts))
    rates = sorted(
        sum(found[i][1] for i in chosen) / sum(found[i][2] for i in chosen)
        for chosen in itertools.product(range(len(found)), repeat=len(found))
    )
    low, high = blocks.resampled(found)
    cut = int(0.025 * len(rates))
    assert rates[max(0, cut - 1)] <= low <= rates[cut] or low == rates[cut]
    assert high in (rates[-1 - cut], rates[-cut]) or rates[-1 - cut] <= high <= rates[-1]


def test_many_boots_are_drawn_the_same_each_time() -> None:
    """Beyond eight boots a fixed stream draws: the same bounds on every machine, and near the binomial's."""
    many = tuple((f"b{i}", i % 2, 1) for i in range(40))
    assert blocks.resampled(many) == blocks.resampled(many)
    low, high = blocks.resampled(many)
    assert 0.3 <= low <= 0.4
    assert 0.6 <= high <= 0.7


def test_an_interval_is_never_narrower_than_the_exact_one() -> None:
    """Boots that agree add no certainty that ten trials do not have; boots that do not take certainty away."""
    agree = measuring.rate_of(measuring.basis_of("rate", [in_boots(cell(failed=2, passed=2), *"abab")], frozenset()))
    plain = clopper_pearson(2, 4)
    assert agree is not None
    assert plain is not None
    assert (agree.low, agree.high) == (plain.low, plain.high)
    assert agree.method == "fixed-n, by block"
    apart = in_boots(cell(failed=10, passed=10), *("a" * 10 + "b" * 10))
    wide = measuring.rate_of(measuring.basis_of("rate", [apart], frozenset()))
    assert wide is not None
    assert (wide.low, wide.high) == (0.0, 1.0)


def test_a_verdict_knows_that_two_boots_are_two() -> None:
    """Ten failures of twenty, all of one boot: what twenty independent trials would decide stays open."""
    independent = cell(failed=10, passed=10)
    assert claim(*RARE, independent).verdict is ClaimVerdict.SUPPORTED
    assert claim(*RARE, in_boots(independent, *("a" * 10 + "b" * 10))).verdict is ClaimVerdict.INCONCLUSIVE


def test_one_boot_for_both_sides_is_compared_within() -> None:
    """A boot in which everything failed says nothing against one side that had more trials in it."""
    bad_boot = in_boots(cell(failed=8), *"aaaaaaaa"), in_boots(cell("rocm", failed=1, passed=7), *"abbbbbbb")
    found = claim(*WORSE, *bad_boot)
    assert found.tests[0].method == "exact within boots"
    assert found.tests[0].p == pytest.approx(1.0)
    assert found.verdict is not ClaimVerdict.SUPPORTED
    same = in_boots(cell(failed=8), *"aaaabbbb"), in_boots(cell("rocm", passed=8), *"aaaabbbb")
    assert claim(*WORSE, *same).verdict is ClaimVerdict.SUPPORTED


def test_boots_of_their_own_are_a_second_difference() -> None:
    """Sides that share no boot differ in the boot as well."""
    found = claim(*WORSE, in_boots(cell(failed=6), *"aaabbb"), in_boots(cell("rocm", passed=6), *"cccddd"))
    assert found.verdict is ClaimVerdict.CONFOUNDED
    assert any(text.startswith("boot: ") for text in found.contrasts[0].differs_in)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=1, max_size=3))
def test_within_equals_brute_force(raw: list[tuple[int, int, int, int]]) -> None:
    """Every way of dealing each boot's failures among its own trials, listed; one boot is Fisher's test."""
    strata = [(min(fa, na), na, min(fb, nb), nb) for fa, na, fb, nb in raw]
    sums: dict[int, int] = {}
    deals = [
        [sum(i < na for i in chosen) for chosen in itertools.combinations(range(na + nb), fa + fb)]
        for fa, na, fb, nb in strata
    ]
    for dealt in itertools.product(*deals):
        sums[sum(dealt)] = sums.get(sum(dealt), 0) + 1
    seen = sums[sum(fa for fa, *_ in strata)]
    wanted = sum(n for n in sums.values() if n <= seen) / sum(sums.values())
    assert exact.within(strata) == pytest.approx(wanted, abs=1e-12)
    if len(strata) == 1:
        assert exact.within(strata) == exact.fisher(*strata[0])


def test_what_all_evidence_shares_is_said() -> None:
    """One boot, several boots, one boot of several, no boot on record, one long-lived server."""
    one = blocks.sentences([cell(failed=2), cell("rocm", passed=3)])
    assert one == (
        "all 5 applied trials of backend=vulkan,gpu_layers=2, backend=rocm,gpu_layers=2 were made in one boot of the "
        "machine: what that boot brought with it is in every rate",
    )
    assert blocks.sentences([in_boots(cell(failed=2), *"ab")]) == ()
    mixed = blocks.sentences([in_boots(cell(failed=2), *"ab"), in_boots(cell("rocm", passed=2), *"aa")])
    assert mixed == ("backend=rocm,gpu_layers=2: all 2 applied trials were made in one boot of several",)
    assert "2 of 2 applied trials have no boot on record" in blocks.sentences([in_boots(cell(failed=2), "", "")])[0]
    assert blocks.sentences([cell(failed=1)]) == ()
    served = [replace(t, circumstances=replace(t.circumstances, service="s[7]")) for t in cell(failed=2).trials]
    assert "one server process, s[7]" in blocks.sentences([replace(cell(failed=2), trials=tuple(served))])[1]


def test_a_claim_counts_its_blocks() -> None:
    """Processes, servers and boots by cell; a boot that is not on record is no number."""
    found = claim(*RARE, in_boots(cell(failed=2, passed=1), "a", "b", "a")).blocks[0]
    assert (found.applied, found.processes, found.servers, found.boots) == (3, 3, None, 2)


def test_warm_servers_are_blocks_where_no_boots_are() -> None:
    """Six trials of two attached servers: whole servers are drawn anew."""
    base = cell(failed=3, passed=3)
    trials = [
        replace(t, circumstances=replace(t.circumstances, server="one" if i < 3 else "two"))
        for i, t in enumerate(base.trials)
    ]
    rate = measuring.rate_of(measuring.basis_of("rate", [replace(base, trials=tuple(trials))], frozenset()))
    assert rate is not None
    assert (rate.low, rate.high, rate.method) == (0.0, 1.0, "fixed-n, by block")


POSED = [WORSE, RARE, *((h.predicts, h.refuted_if) for h in library())]
COUNTS = st.tuples(st.integers(0, 8), st.integers(0, 8))
BOOTS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=16, max_size=16)
OPPOSITE = {ClaimVerdict.SUPPORTED: ClaimVerdict.REFUTED, ClaimVerdict.REFUTED: ClaimVerdict.SUPPORTED}


def sides(a: tuple[int, int], b: tuple[int, int], boots: list[str]) -> list[ObservedCell]:
    """Two backends with these numbers of failures and passes, over several boots; times of death are known."""
    cells = [cell(failed=a[0], passed=a[1]), cell("rocm", failed=b[0], passed=b[1])]
    made = []
    for one in cells:
        dealt = in_boots(one, *boots[: len(one.trials)])
        timed = tuple(replace(t, lived=1.0 + i / 50) if t.crashed else t for i, t in enumerate(dealt.trials))
        made.append(replace(dealt, trials=timed))
    return made


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(POSED), COUNTS, COUNTS, BOOTS, st.randoms(use_true_random=False))
def test_order_changes_nothing(
    posed: tuple[str, str], a: tuple[int, int], b: tuple[int, int], boots: list[str], shuffler: random.Random
) -> None:
    """Permuting the trials of a cell changes no verdict, interval, test or block, whatever boots they come from."""
    cells, other = sides(a, b, boots), []
    for one in cells:
        trials = list(one.trials)
        shuffler.shuffle(trials)
        other.append(replace(one, trials=tuple(trials)))
    first, second = claim(*posed, *cells), claim(*posed, *other)
    assert replace(first, evidence=()) == replace(second, evidence=())


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(POSED), COUNTS, COUNTS, BOOTS, st.integers(1, 4))
def test_void_trials_change_no_rate(
    posed: tuple[str, str], a: tuple[int, int], b: tuple[int, int], boots: list[str], more: int
) -> None:
    """Void trials, in boots of their own too, enter no rate, no interval, no block and no verdict."""
    cells = sides(a, b, boots)
    void = [
        replace(VOID, trial=f"v{i}", circumstances=replace(VOID.circumstances, boot=f"v{i}")) for i in range(more)
    ]
    other = [replace(c, trials=(*c.trials, *void)) if c.applied else c for c in cells]
    first, second = claim(*posed, *cells), claim(*posed, *other)
    assert (first.verdict, first.tests, first.blocks, first.shared) == (
        second.verdict, second.tests, second.blocks, second.shared,
    )  # fmt: skip
    assert [c.rate for c in first.counts] == [c.rate for c in second.counts]


@settings(deadline=None, max_examples=40)
@given(st.sampled_from([WORSE, RARE]), COUNTS, COUNTS, BOOTS, st.integers(1, 8), st.sampled_from(["a", "b", "d"]))
def test_agreeing_trials_never_flip(
    posed: tuple[str, str], a: tuple[int, int], b: tuple[int, int], boots: list[str], more: int, boot: str
) -> None:
    """More trials that agree with a verdict, in an old boot or a new one, never turn it into its opposite."""
    cells = sides(a, b, boots)
    before = claim(*posed, *cells)
    if before.verdict not in OPPOSITE:
        return
    supports_failures = posed is WORSE
    fails = (before.verdict is ClaimVerdict.SUPPORTED) is supports_failures
    added = cell(failed=more) if fails else cell(passed=more)
    grown = in_boots(added, *[boot] * more).trials
    numbered = tuple(replace(t, trial=f"more{i}") for i, t in enumerate(grown))
    after = claim(*posed, replace(cells[0], trials=(*cells[0].trials, *numbered)), *cells[1:])
    assert after.verdict is not OPPOSITE[before.verdict]
