"""Tests of judge/cells/counting.py: the numbers of the table."""

from __future__ import annotations

import dataclasses

from test_matrix import spec

from judge_samples import verdict
from stillruns.judge.cells.counting import count, short_failure, short_reason, table, without_failure
from stillruns.judge.cells.experiment import cells
from stillruns.model.agreement import OutputVerdict
from stillruns.model.applied import Answer
from stillruns.model.outcome import OutcomeKind
from stillruns.model.phase import Phase
from stillruns.model.spec import StopRule

PLANS = cells(spec(gpu_layers=(2,)))
REFERENCE, FLOOR, PLAN = PLANS
CRASH = verdict(OutcomeKind.CRASH, detail="SIGSEGV in prompt, libggml-vulkan.so.0+0x1f40", output=None)
OTHER_CRASH = verdict(OutcomeKind.CRASH, detail="SIGSEGV in prompt, libggml-vulkan.so.0+0x2f40")
GOOD = verdict(output=OutputVerdict.SAME, speed=100.0)
VOID = verdict(status=Answer.NO, why="ran on the CPU: no line 'using device' in its log")


def test_designs_arithmetic() -> None:
    """trials = applied + void + unknown; interrupted apart; the rate, outcomes and phases over applied trials."""
    mixed = [
        *[GOOD] * 3,
        CRASH,
        *[VOID] * 2,
        verdict(OutcomeKind.CRASH, Answer.UNKNOWN, why="no sign of vulkan: died in init"),
        verdict(status=Answer.UNKNOWN, why="no sign of vulkan: died in init"),
        verdict(OutcomeKind.INTERRUPTED),
        verdict(cell="another"),
    ]
    cell = count(PLAN, mixed, interrupted=1)
    assert (cell.trials, cell.applied, cell.void, cell.unknown) == (8, 4, 2, 2)
    assert (cell.interrupted, cell.passed, cell.failed_unknown) == (2, 3, 1)
    assert cell.outcomes == {"ok": 3, "crash": 1}
    assert cell.phases == {"prompt": 1}
    assert cell.rate is not None and (cell.rate.failures, cell.rate.n) == (1, 4)
    assert cell.unverified == {"passed": 1, "failed": 1}
    assert cell.note == "1 x SIGSEGV in prompt, ggml-vulkan; 2 void: ran on the CPU; 2 unknown: no sign of vulkan"


def test_the_issues_notes() -> None:
    """The notes of the issue's table: how a cell fails, and why a trial was void."""
    assert count(PLAN, [CRASH] * 5 + [OTHER_CRASH]).note == "SIGSEGV in prompt, ggml-vulkan"
    assert count(PLAN, [GOOD] * 5 + [VOID]).note == "1 void: ran on the CPU"
    assert count(PLAN, [GOOD] * 6).note == ""


def test_all_passed_is_told_as_what_it_shows() -> None:
    """20 of 20 is a rate below 13.9 %, one-sided; not where one failed, was void, or the number was not fixed."""
    plan = dataclasses.replace(PLAN, stop=StopRule(trials=20))
    (said,) = without_failure([count(plan, [GOOD] * 20)])
    assert said.startswith("20 of 20 passed in one cell: that shows a failure rate below 13.9 % (one-sided 95 %)")
    (said,) = without_failure(
        [count(plan, [GOOD] * 20), count(plan, [GOOD] * 20), count(plan, [GOOD] * 19 + [CRASH])]
    )
    assert "in each of 2 cells" in said
    assert not list(without_failure([count(plan, [GOOD] * 19), count(plan, [GOOD] * 19 + [VOID])]))


def test_many_failures_stay_one_line() -> None:
    """At most two kinds of failure are named, the rest are counted."""
    hang = verdict(OutcomeKind.HANG, phase=Phase.DECODE)
    error = verdict(OutcomeKind.ERROR, detail="HTTP 500 in prompt")
    note = count(PLAN, [CRASH, CRASH, hang, hang, error]).note
    assert note == "2 x SIGSEGV in prompt, ggml-vulkan; 2 x hang in decode; 1 more"


def test_no_trials() -> None:
    """A cell without trials has no rate, no speed and no output."""
    cell = count(PLAN, [])
    assert (cell.rate, cell.tokens_per_second, cell.output, cell.placement) == (None, None, None, None)


def test_speed_and_output() -> None:
    """Speed over passing trials only; the output is the worst of any, and suspicious passes, flagged."""
    slow = verdict(OutcomeKind.WRONG_OUTPUT, speed=1.0, output=OutputVerdict.WRONG)
    fast = verdict(speed=300.0, output=OutputVerdict.SUSPICIOUS)
    cell = count(PLAN, [GOOD, fast])
    assert cell.tokens_per_second is not None
    assert (cell.tokens_per_second.low, cell.tokens_per_second.median, cell.tokens_per_second.high) == (100, 200, 300)
    assert (cell.output, cell.passed) == (OutputVerdict.SUSPICIOUS, 2)
    assert cell.note == "1 with suspicious output"
    worst = count(PLAN, [GOOD, fast, slow])
    assert worst.output is OutputVerdict.WRONG and worst.passed == 2
    assert worst.tokens_per_second is not None and worst.tokens_per_second.low == 100


def test_the_reference_row() -> None:
    """The reference and its floor path are one row, in no rate."""
    first = verdict(cell=REFERENCE.id, output=OutputVerdict.REFERENCE, speed=1000.0)
    second = verdict(cell=FLOOR.id, output=OutputVerdict.REFERENCE, speed=900.0)
    rows = table(PLANS, [first, second, GOOD], {FLOOR.id: 1})
    assert len(rows) == 2
    reference = rows[0]
    assert (reference.backend, reference.gpu_layers, reference.trials, reference.passed) == ("cpu", "none", 2, 2)
    assert reference.rate is None and reference.output is OutputVerdict.REFERENCE and reference.interrupted == 1
    assert reference.tokens_per_second is not None and reference.tokens_per_second.median == 1000.0
    assert reference.note == "reference"
    assert rows[1].passed == 1


def test_short_forms() -> None:
    """Addresses and file suffixes differ from machine to machine and are left out of notes."""
    assert short_failure(CRASH) == short_failure(OTHER_CRASH) == "SIGSEGV in prompt, ggml-vulkan"
    assert short_reason("ran on the CPU: because") == "ran on the CPU"
    assert short_reason("no colon") == "no colon"
