"""The promise: a verdict says what the applied trials show about one factor, and names what is open, and why."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from claim_samples import VOID, cell, claim, trial
from stillruns.judge.claims import hypotheses, quoting
from stillruns.model.claim import ClaimVerdict, Frozen
from stillruns.model.observed import Circumstances, ObservedCell
from stillruns.model.spec import HypothesisSpec
from stillruns.model.workaround import KnownIssue

UNUSABLE = (
    "all(c.rate.low > 0.5 for c in cells if c.gpu_layers != 0)",
    "any(c.passed > 0 for c in cells if c.gpu_layers != 0)",
)
VULKAN = "pool(c for c in cells if c.backend == 'vulkan' and c.layers != 0).crash_rate"
ROCM = VULKAN.replace("vulkan", "rocm")
WORSE = (f"{VULKAN} > {ROCM}", f"{VULKAN} <= {ROCM}")


def test_refuted_by_one_pass() -> None:
    """One pass on the device refutes that it is unusable, whatever else fails."""
    found = claim(*UNUSABLE, cell(failed=10), cell("rocm", passed=1))
    assert found.verdict is ClaimVerdict.REFUTED
    assert found.evidence[0].ref.endswith("s1:L7")
    assert {c.cell: c.applied for c in found.counts} == {
        "backend=vulkan,gpu_layers=2": 10,
        "backend=rocm,gpu_layers=2": 1,
    }


def test_supported_needs_every_cell() -> None:
    """All cells fail beyond doubt."""
    assert claim(*UNUSABLE, cell(failed=10), cell("rocm", failed=10)).verdict is ClaimVerdict.SUPPORTED


def test_too_few_trials_are_inconclusive_and_say_how_many() -> None:
    """Three failures of three do not show a rate above one half; six would."""
    found = claim(*UNUSABLE, cell(failed=3))
    assert found.verdict is ClaimVerdict.INCONCLUSIVE
    assert found.would_decide == (
        "a run with 6 trials of backend=vulkan,gpu_layers=2, fixed beforehand, if it goes on failing 3 of 3",
    )
    looked = claim(*UNUSABLE, cell(failed=3, fixed=False))
    assert looked.would_decide[0].startswith("4 more trials")


def test_void_names_the_cells() -> None:
    """A cell whose condition was never applied is neither support nor refutation."""
    found = claim(*UNUSABLE, cell(void=3))
    assert found.verdict is ClaimVerdict.VOID
    assert found.untested == ("backend=vulkan,gpu_layers=2: no trial was applied (ran on the CPU)",)
    assert claim(*UNUSABLE, cell(layers=0, passed=3)).verdict is ClaimVerdict.VOID


def test_a_contrast_of_two_factors_is_confounded() -> None:
    """Backend and version differ together: the numbers decide, the cause they do not."""
    found = claim(*WORSE, cell(failed=7), cell("rocm", passed=6, version="0.17.6"))
    assert found.verdict is ClaimVerdict.CONFOUNDED
    assert found.contrasts[0].differs_in == ("backend: vulkan against rocm", "version: 0.17.4 against 0.17.6")
    assert "2 trials with backend vulkan and version 0.17.6" in found.would_decide[0]


def test_more_of_the_same_would_not_separate() -> None:
    """While the numbers are open, two factors confound as well; one factor leaves it to more trials."""
    few = cell(failed=1, passed=2), cell("rocm", passed=3, version="0.17.6")
    found = claim(*WORSE, *few)
    assert found.verdict is ClaimVerdict.CONFOUNDED and "leave it open" in found.why
    assert any("leaves backend as the only difference" in text for text in found.would_decide)
    assert claim(*WORSE, few[0], cell("rocm", passed=3)).verdict is ClaimVerdict.INCONCLUSIVE
    number = "any(c.rate.low > 0.5 for c in cells if c.backend == 'vulkan')"
    both = claim(f"{WORSE[0]} and {number}", f"{WORSE[1]} and {number}", *few)
    assert both.verdict is ClaimVerdict.INCONCLUSIVE, "the rate alone is a matter of more trials"


def test_equal_versions_make_it_clean() -> None:
    """The same numbers with one version are about the backend."""
    found = claim(*WORSE, cell(failed=7), cell("rocm", passed=6))
    assert found.verdict is ClaimVerdict.SUPPORTED
    assert found.contrasts[0].status == "clean"
    assert found.tests[0].fisher == pytest.approx(1 / 1716)


def test_unknown_versions_decide_nothing() -> None:
    """A factor that nobody recorded may differ."""
    found = claim(*WORSE, cell(failed=7), cell("rocm", passed=6, version=None))
    assert found.verdict is ClaimVerdict.INCONCLUSIVE
    assert found.would_decide == ("record version: it is not known (0.17.4 against unknown)",)


def test_layers_that_one_side_lacks_are_left_out() -> None:
    """Vulkan was also tried with all layers, ROCm never: compared is what both were tried with."""
    cells = [cell(failed=7), cell(layers="all", failed=3), cell("rocm", passed=6), cell("rocm", "all", void=3)]
    found = claim(*WORSE, *cells)
    assert found.verdict is ClaimVerdict.SUPPORTED
    assert found.contrasts[0].on == "layers 2"
    assert [(t.left_n, t.right_n) for t in found.tests] == [(10, 6), (7, 6)]
    assert found.tests[0].fisher == pytest.approx(1 / 8008)
    assert found.tests[0].adjusted is None


def test_nested_factors_do_not_count() -> None:
    """A device and a variable that only one backend reads come with the backend; else they count."""
    other = {"device": "ROCm0", "env.HSA_ENABLE_SDMA": "0"}
    assert (
        claim(*WORSE, cell(failed=7, device="Vulkan0"), cell("rocm", passed=6, **other)).contrasts[0].status
        == "clean"
    )
    same = cell("vulkan", "all", passed=6, device="Vulkan1")
    pair = ("any(a.rate > b.rate for a in cells for b in cells if a.layers == 2 and b.layers == 'all')", WORSE[1])
    found = claim(*pair, cell(failed=7, device="Vulkan0"), same)
    assert found.contrasts[0].differs_in == ("layers: 2 against all", "device: Vulkan0 against Vulkan1")


def test_nuisances_count_only_when_the_sides_lie_apart() -> None:
    """Warmer trials on one side are a second difference; overlapping temperatures are not."""

    def warm(base: ObservedCell, degrees: list[float]) -> ObservedCell:
        trials = [
            replace(t, circumstances=replace(t.circumstances, measured={"temperature": d}))
            for t, d in zip(base.trials, degrees, strict=True)
        ]
        return replace(base, trials=tuple(trials))

    hot, cool = [60.0, 61, 62, 63], [40.0, 41, 42, 43]
    apart = claim(*WORSE, warm(cell(failed=4), hot), warm(cell("rocm", passed=4), cool))
    assert apart.verdict is ClaimVerdict.CONFOUNDED
    assert apart.contrasts[0].differs_in[1] == "temperature: 60 to 63 against 40 to 43"
    mixed = claim(*WORSE, warm(cell(failed=4), hot), warm(cell("rocm", passed=4), [40.0, 41, 42, 60]))
    assert mixed.verdict is ClaimVerdict.SUPPORTED


def test_order_counts_when_it_was_not_drawn() -> None:
    """One side before the other, by no chance, is a difference."""

    def at(base: ObservedCell, first: int) -> ObservedCell:
        trials = [replace(t, circumstances=Circumstances(order=float(first + i))) for i, t in enumerate(base.trials)]
        return replace(base, trials=tuple(trials), randomised=False)

    assert claim(*WORSE, at(cell(failed=4), 0), at(cell("rocm", passed=4), 4)).verdict is ClaimVerdict.CONFOUNDED
    found = claim(*WORSE, at(cell(failed=4), 0), at(cell("rocm", passed=4), 2))
    assert found.verdict is ClaimVerdict.SUPPORTED
    assert "not drawn at random" in found.warnings[0]


def test_rates_with_open_numbers_use_confidence_sequences() -> None:
    """No exact test between cells that a sequential rule stopped."""
    found = claim(*WORSE, cell(failed=12, fixed=False), cell("rocm", passed=12, fixed=False))
    assert found.verdict is ClaimVerdict.SUPPORTED
    assert (found.tests[0].method, found.tests[0].p) == ("confidence sequences", None)
    few = claim(*WORSE, cell(failed=3, fixed=False), cell("rocm", passed=3, fixed=False))
    assert few.verdict is ClaimVerdict.INCONCLUSIVE


def test_one_family() -> None:
    """Two hypotheses with a test each are corrected together: 3 of 3 against 0 of 3 is no evidence twice."""
    cells = [cell(failed=3), cell("rocm", passed=3), cell("cuda", passed=3)]
    alone = claim(*WORSE, *cells)
    assert alone.verdict is ClaimVerdict.SUPPORTED
    other = tuple(text.replace("rocm", "cuda") for text in WORSE)
    both = hypotheses.judge(
        [
            hypotheses.Posed(HypothesisSpec("A", "", *WORSE), Frozen.BEFORE),
            hypotheses.Posed(HypothesisSpec("B", "", *other), Frozen.BEFORE),
        ],
        cells,
    )
    assert [c.verdict for c in both] == [ClaimVerdict.INCONCLUSIVE] * 2
    assert both[0].tests[0].adjusted == pytest.approx(0.0625, abs=1e-3)
    assert "trials a side" in both[0].would_decide[0]


def test_speeds_need_more_than_one_trial() -> None:
    """A single speed has no floor; the ratio of two spreads is an interval."""
    slower = (
        "all(0.6 <= v.throughput / r.throughput <= 0.8 for v in cells for r in cells "
        "if v.backend == 'vulkan' and r.backend == 'rocm')",
        "any(v.throughput / r.throughput > 0.8 for v in cells for r in cells "
        "if v.backend == 'vulkan' and r.backend == 'rocm')",
    )
    assert claim(*slower, cell(passed=4, speed=7.0), cell("rocm", passed=4)).verdict is ClaimVerdict.SUPPORTED
    assert claim(*slower, cell(passed=4, speed=9.9), cell("rocm", passed=4)).verdict is ClaimVerdict.REFUTED
    assert claim(*slower, cell(passed=1, speed=7.0), cell("rocm", passed=1)).verdict is ClaimVerdict.INCONCLUSIVE


def test_no_faster_than_the_cpu_is_flagged() -> None:
    """An offloaded cell within the floor of the 0-layer cell did not show that the device computes faster."""
    found = claim(*UNUSABLE, cell(layers=0, passed=4), cell(passed=4, speed=10.01))
    assert not any("no faster" in w for w in found.warnings)  # only cells that the hypothesis looks at
    all_cells = ("all(c.rate.low > 0.5 for c in cells)", "any(c.passed > 0 for c in cells)")
    found = claim(*all_cells, cell(layers=0, passed=4), cell(passed=4, speed=10.01))
    assert any("no faster than the CPU" in w for w in found.warnings)
    cpu = cell("cpu", layers="none", passed=4)
    assert "no faster than the CPU" in quoting.against_cpu([cpu, cell(passed=4, speed=10.01)])[0]
    assert quoting.against_cpu([cpu, cell(passed=4, speed=20)]) == ()
    assert quoting.against_cpu([cpu, cell(layers=0, passed=4), cell(passed=4, speed=10.01)]) == ()
    seen = [cell(layers=n, passed=4, placement=f"{n} repeating of 5", speed=10 + n / 100) for n in (0, 2)]
    assert "backend=vulkan,gpu_layers=2: 10 tokens/s against 10 with no layer" in quoting.against_cpu(seen)[0]
    found = claim(*all_cells, cell(layers=0, passed=4), cell(passed=4, speed=20))
    assert not any("no faster" in w for w in found.warnings)


def test_a_difference_in_speed_is_beyond_the_floor() -> None:
    """Medians may lie apart with certainty and still by less than halves of one condition's trials do; how far its
    single trials lie apart does not matter, since that grows with their number."""
    pairs = "for v in cells for r in cells if v.backend == 'vulkan' and r.backend == 'rocm'"
    faster = (f"all(v.throughput > r.throughput {pairs})", f"any(v.throughput < r.throughput {pairs})")
    noisy = tuple(trial(tokens_per_second=rate) for rate in (*[8.0] * 5, *[10.0] * 7))
    close = tuple(trial(tokens_per_second=rate) for rate in (10.4, *[10.5] * 10, 10.6))
    found = claim(*faster, cell(trials=close), cell("rocm", trials=noisy))
    assert found.verdict is ClaimVerdict.INCONCLUSIVE
    assert "A/A floor" in found.why
    far = tuple(trial(tokens_per_second=rate) for rate in (14.4, *[14.5] * 10, 14.6))
    assert claim(*faster, cell(trials=far), cell("rocm", trials=noisy)).verdict is ClaimVerdict.SUPPORTED
    outlier = tuple(trial(tokens_per_second=rate) for rate in (*[10.0] * 11, 20.0))
    assert claim(*faster, cell(trials=close), cell("rocm", trials=outlier)).verdict is ClaimVerdict.SUPPORTED


def test_one_server_is_one_block() -> None:
    """Trials of one warm server are correlated, and the claim says so."""
    shared = replace(
        cell(passed=3),
        trials=tuple(replace(t, circumstances=Circumstances(server="4711")) for t in cell(passed=3).trials),
    )
    assert "come from one server process" in claim(*UNUSABLE, shared).warnings[0]


def test_scope_and_what_was_not_varied() -> None:
    """A claim is as wide as its cells."""
    found = claim(*UNUSABLE, cell(failed=10, device="Vulkan0"), cell(layers=1, failed=10, device="Vulkan0"))
    assert found.scope == "model qwen, runtime ollama, version 0.17.4, device Vulkan0"
    assert "version = 0.17.4" in found.not_varied
    assert not any(text.startswith("layers") for text in found.not_varied)
    assert "boot: all trials were made in one" in found.not_varied


ISSUE = KnownIssue(
    "fixed",
    "crashes on Vulkan",
    ("ollama",),
    ("vulkan",),
    (),
    None,
    "0.17.4",
    "0.17.5",
    (),
    ("x",),
    "2026-11-30",
    "t",
)


def test_known_issues_fit_by_runtime_backend_and_version() -> None:
    """A crash before the fix is what upstream knows; the fix between the sides is said."""
    specs = [hypotheses.Posed(HypothesisSpec("A", "", *WORSE), Frozen.BEFORE)]
    found = hypotheses.judge(specs, [cell(failed=7), cell("rocm", passed=6, version="0.17.6")], [ISSUE])[0]
    assert "fits backend=vulkan,gpu_layers=2" in found.known_issues[0]
    assert "lies between the versions" in found.known_issues[1]
    later = hypotheses.judge(specs, [cell(failed=7, version="0.17.5"), cell("rocm", passed=6)], [ISSUE])[0]
    assert not any("fits" in text for text in later.known_issues)


@pytest.mark.parametrize(
    "change",
    [{"lines": ("a line",)}, {"models": ("gemma4",)}, {"backends": ("cuda",)}, {"targets": ("gfx1030",)}],
)
def test_known_issues_of_something_else_are_left_out(change: dict[str, Any]) -> None:
    """Signs that only a log shows, another model, backend or target: neither the crash nor the fix is about these."""
    specs = [hypotheses.Posed(HypothesisSpec("A", "", *WORSE), Frozen.BEFORE)]
    cells = [cell(failed=7, target="gfx900"), cell("rocm", passed=6, version="0.17.6", target="gfx900")]
    other = msgspec.structs.replace(ISSUE, **change)
    texts = hypotheses.judge(specs, cells, [other])[0].known_issues
    assert not any("fits" in text for text in texts)
    assert "lines" in change or not texts
    same = msgspec.structs.replace(ISSUE, models=("qwen35",), targets=("gfx900",))
    named = [replace(c, factors={**c.factors, "model": "Qwen3.5-2B-Q4_K_M.gguf"}) for c in cells]
    assert any("fits" in text for text in hypotheses.judge(specs, named, [same])[0].known_issues)


def test_badly_posed() -> None:
    """What both predicts and refutes decides nothing."""
    found = claim("any(c.failed > 0 for c in cells)", "any(c.failed > 0 for c in cells)", cell(failed=1))
    assert found.verdict is ClaimVerdict.INCONCLUSIVE
    assert "badly posed" in found.why


@pytest.mark.parametrize(
    "pairs",
    ["any(a.failed > 0 and b.failed > 0 and a.passed > b.passed for a in cells for b in cells)",
     "any(a.failed > 0 and any(a.passed > b.passed for b in cells) for a in cells)"],
    ids=["at once", "on the way"],
)  # fmt: skip
def test_work_is_bounded(pairs: str) -> None:
    """A quadratic expression over many cells ends, undecided."""
    found = claim(pairs, pairs, *[cell(failed=1, layers=i) for i in range(400)])
    assert found.verdict is ClaimVerdict.INCONCLUSIVE
    assert "too many cells" in found.why


COUNTS = st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 3))
POSED = st.sampled_from([UNUSABLE, WORSE])


@settings(deadline=None, max_examples=30)
@given(POSED, COUNTS, COUNTS, st.randoms(use_true_random=False))
def test_order_of_trials_changes_no_verdict(
    posed: tuple[str, str], a: tuple[int, ...], b: tuple[int, ...], shuffler: random.Random
) -> None:
    """Permuting trials changes nothing of a claim but which lines are quoted."""
    cells = [cell(failed=a[0], passed=a[1], void=a[2]), cell("rocm", failed=b[0], passed=b[1], void=b[2])]
    other = []
    for one in cells:
        trials = list(one.trials)
        shuffler.shuffle(trials)
        other.append(replace(one, trials=tuple(trials)))
    first, second = claim(*posed, *cells), claim(*posed, *other)
    assert replace(first, evidence=()) == replace(second, evidence=())


@settings(deadline=None, max_examples=30)
@given(POSED, COUNTS, COUNTS, st.integers(1, 3))
def test_void_trials_change_no_verdict(
    posed: tuple[str, str], a: tuple[int, ...], b: tuple[int, ...], more: int
) -> None:
    """Adding void trials to a tested cell changes neither verdict nor rates."""
    cells = [cell(failed=a[0], passed=a[1]), cell("rocm", failed=b[0], passed=b[1])]
    other = [replace(c, trials=(*c.trials, *[VOID] * more)) if c.applied else c for c in cells]
    first, second = claim(*posed, *cells), claim(*posed, *other)
    assert first.verdict is second.verdict
    assert [c.rate for c in first.counts] == [c.rate for c in second.counts]


@settings(deadline=None, max_examples=30)
@given(POSED, COUNTS, COUNTS, st.integers(1, 12), st.booleans())
def test_agreeing_trials_never_flip_a_verdict(
    posed: tuple[str, str], a: tuple[int, ...], b: tuple[int, ...], more: int, fixed: bool
) -> None:
    """More trials like those that decided it do not turn supported into refuted, nor back."""
    before = claim(
        *posed, cell(failed=a[0], passed=a[1], fixed=fixed), cell("rocm", failed=b[0], passed=b[1], fixed=fixed)
    )
    if before.verdict is ClaimVerdict.SUPPORTED:
        grown = cell(failed=a[0] + more, passed=a[1], fixed=fixed)
        opposite = ClaimVerdict.REFUTED
    elif before.verdict is ClaimVerdict.REFUTED:
        grown = cell(failed=a[0], passed=a[1] + more, fixed=fixed)
        opposite = ClaimVerdict.SUPPORTED
    else:
        return
    after = claim(*posed, grown, cell("rocm", failed=b[0], passed=b[1], fixed=fixed))
    assert after.verdict is not opposite


def test_crash_and_failure_are_different_rates() -> None:
    """A server that refuses is a failure and no crash."""
    found = claim(
        "all(c.rate > 0.5 for c in cells)",
        "all(c.crash_rate > 0.5 for c in cells)",
        cell(trials=(trial("error"),) * 8),
    )
    assert (found.predicted, found.refuted) == (True, False)


def test_equal_numbers_with_other_placements_are_a_difference() -> None:
    """One layer is the output layer in one program and a repeating layer in another: that is a second factor."""
    ours, theirs = {"placement": "0 repeating and output of 5"}, {"placement": "1 repeating of 5"}
    found = claim(*WORSE, cell(layers=1, failed=7, **ours), cell("rocm", 1, passed=6, **theirs))
    assert found.verdict is ClaimVerdict.CONFOUNDED
    assert "placement" in found.contrasts[0].differs_in[1]
    assert (
        claim(*WORSE, cell(layers=1, failed=7), cell("rocm", 1, passed=6, **theirs)).verdict is ClaimVerdict.SUPPORTED
    )
