"""Counts the trials of a cell as DESIGN's `run --json` says.

trials = applied + void + unknown; interrupted trials apart; the rate is over applied trials, and so are outcomes and
phases; a suspicious output passes, flagged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from stillruns.judge.statistics import blocks, sequential
from stillruns.judge.statistics.binomial import clopper_pearson, upper_one_sided
from stillruns.model.agreement import WORST_FIRST, OutputVerdict
from stillruns.model.applied import Answer
from stillruns.model.cell import Cell, Speed
from stillruns.model.cell_plan import CellPlan
from stillruns.model.condition import Condition
from stillruns.model.outcome import OutcomeKind
from stillruns.model.placement import Placement
from stillruns.model.rate import Rate
from stillruns.model.spec import StopRule
from stillruns.model.verdict import TrialVerdict
from stillruns.model.wording import significant

_LIBRARY = re.compile(r"\blib([\w.-]+?)\.so[\d.]*")
_ADDRESS = re.compile(r"\+?0x[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class _Split:
    """A cell's trials by what they count as."""

    applied: list[TrialVerdict]
    void: list[TrialVerdict]
    unknown: list[TrialVerdict]
    interrupted: int


def count(plan: CellPlan, verdicts: Iterable[TrialVerdict], interrupted: int = 0) -> Cell:
    """One cell's row; verdicts of other cells are ignored.

    `interrupted` counts trials that started and left no verdict at all; verdicts with the outcome `interrupted` are
    added to it.
    """
    return _row(plan, [v for v in verdicts if v.cell == plan.id], interrupted)


def table(
    plans: Sequence[CellPlan],
    verdicts: Sequence[TrialVerdict],
    interrupted: dict[str, int] | None = None,
    boots: Mapping[str, str] | None = None,
) -> tuple[Cell, ...]:
    """All rows, in the order of the plans. A floor path has no row: its trial is counted in its reference's.

    `interrupted` is the number of trials without a verdict by cell id; `boots` the boot in which each trial was made,
    where that is on record.
    """
    missing = interrupted or {}
    rows = []
    for plan in plans:
        if plan.is_floor:
            continue
        ids = {plan.id} | {p.id for p in plans if p.is_floor and p.reference == plan.id}
        rows.append(_row(plan, [v for v in verdicts if v.cell in ids], sum(missing.get(i, 0) for i in ids), boots))
    return tuple(rows)


def _row(
    plan: CellPlan, verdicts: list[TrialVerdict], interrupted: int, boots: Mapping[str, str] | None = None
) -> Cell:
    condition: Condition = plan.condition
    split = _split(verdicts, interrupted)
    failed = [v for v in split.applied if not v.passed]
    passed = [v for v in split.applied if v.passed]
    unverified = {}
    if split.unknown:
        good = sum(v.outcome.kind is OutcomeKind.OK for v in split.unknown)
        unverified = {"passed": good, "failed": len(split.unknown) - good}
    return Cell(
        backend=condition.backend_id,
        gpu_layers=condition.gpu_layers,
        placement=_placement(split.applied),
        axes=dict(condition.axes),
        trials=len(split.applied) + len(split.void) + len(split.unknown),
        applied=len(split.applied),
        void=len(split.void),
        unknown=len(split.unknown),
        failed_unknown=unverified.get("failed", 0),
        interrupted=split.interrupted,
        passed=len(passed),
        outcomes=_counts(v.outcome.kind.value for v in split.applied),
        phases=_counts(v.outcome.phase.value for v in failed),
        rate=None if plan.is_reference else _rate(plan, split.applied, boots or {}),
        tokens_per_second=_speed([v for v in passed if v.cell == plan.id]),
        output=_output(split.applied),
        note=_note(plan, split, failed),
        unverified=unverified,
        shown=_shown(plan, len(failed), len(split.applied)),
    )


def _rate(plan: CellPlan, applied: Sequence[TrialVerdict], boots: Mapping[str, str]) -> Rate | None:
    """The cell's interval, no narrower than its boots allow where there were several."""
    found = [(boots.get(v.trial, ""), not v.passed) for v in applied]
    by_boot = blocks.counts(found) if len({boot for boot, _ in found}) > 1 else ()
    return blocks.widened(rate(plan, sum(failed for _, failed in found), len(found)), by_boot)


def rate(plan: CellPlan, failures: int, applied: int) -> Rate | None:
    """The failure rate with the interval that its stopping allows: Clopper-Pearson only when the number of applied
    trials is the one that was fixed beforehand, else the confidence sequence. None without applied trials."""
    if fixed(plan, applied):
        return clopper_pearson(failures, applied)
    return sequential.confidence_sequence(failures, applied)


def without_failure(cells: Iterable[Cell]) -> Iterator[str]:
    """What "all passed" shows where the number of trials was fixed beforehand: a sentence for each such number."""
    clean = Counter(
        cell.rate.n for cell in cells if cell.rate and not cell.rate.failures and cell.rate.method == "fixed-n"
    )
    for n, count in sorted(clean.items()):
        below = upper_one_sided(0, n)
        assert below is not None, n
        where = f"in each of {count} cells" if count > 1 else "in one cell"
        yield (
            f"{n} of {n} passed {where}: that shows a failure rate below {significant(100 * below)} % (one-sided "
            "95 %), and no less"
        )


def fixed(plan: CellPlan, applied: int) -> bool:
    """Whether a cell has exactly the trials that were fixed beforehand: no fewer, whatever stopped it."""
    return plan.stop.decide is None and applied == plan.stop.trials


def _split(verdicts: list[TrialVerdict], interrupted: int) -> _Split:
    whole = [v for v in verdicts if v.outcome.kind is not OutcomeKind.INTERRUPTED]
    return _Split(
        applied=[v for v in whole if v.counts],
        void=[v for v in whole if v.void],
        unknown=[v for v in whole if v.applied.status is Answer.UNKNOWN],
        interrupted=interrupted + len(verdicts) - len(whole),
    )


def _counts(names: Iterable[str]) -> dict[str, int]:
    """Most frequent first, then by name: the same trials give the same JSON."""
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))


def _placement(applied: list[TrialVerdict]) -> Placement | None:
    """The placement that the applied trials agree on; None when none shows it, or when they differ."""
    seen = {v.placement for v in applied if v.placement is not None}
    return seen.pop() if len(seen) == 1 else None


def _speed(passed: list[TrialVerdict]) -> Speed | None:
    rates = [v.tokens_per_second for v in passed if v.tokens_per_second is not None]
    return Speed(median(rates), min(rates), max(rates)) if rates else None


def _output(applied: list[TrialVerdict]) -> OutputVerdict | None:
    """The worst that any applied trial's output was; None when no trial gave any."""
    seen = {v.agreement.verdict for v in applied if v.agreement is not None}
    return next((verdict for verdict in WORST_FIRST if verdict in seen), None)


def _note(plan: CellPlan, split: _Split, failed: list[TrialVerdict]) -> str:
    """One line, the most telling first: how it fails, then what was void or unknown, and why."""
    parts = _grouped([short_failure(v) for v in failed], always_counted=len(failed) < len(split.applied))
    for word, trials in (("void", split.void), ("unknown", split.unknown)):
        for reason, number in Counter(short_reason(v.applied.why) for v in trials).most_common(2):
            parts.append(f"{number} {word}: {reason}" if reason else f"{number} {word}")
    bad = sum(v.agreement is not None and v.agreement.verdict is OutputVerdict.SUSPICIOUS for v in split.applied)
    if bad:
        parts.append(f"{bad} with suspicious output")
    if plan.is_reference:
        parts.insert(0, "reference")
    return "; ".join(parts)


def _shown(plan: CellPlan, failures: int, applied: int) -> str:
    """What the sequential test has shown, or nothing where the number of trials was fixed."""
    if plan.stop.decide is None or plan.is_reference or not applied:
        return ""
    result = sequential.stands(plan.stop, failures, applied)
    text = sequential.sentence(plan.stop.decide, result)
    if result is sequential.Shown.UNDECIDED and sequential.futile(plan.stop, failures, applied):
        text += _futility(plan.stop, failures, applied)
    return text


def _futility(stop: StopRule, failures: int, applied: int) -> str:
    """Why a cell was given up, and that no answer became likelier by it."""
    chance = sequential.chance_to_decide(stop, failures, applied)
    if chance == 0.0:
        return f", and the rest of its {stop.max_trials} trials cannot decide it"
    return (
        f", and the rest of its {stop.max_trials} trials would decide it with a probability of {100 * chance:.1g} % "
        f"(given up below {100 * stop.futility:g} %; that makes no wrong answer likelier)"
    )


def _grouped(texts: list[str], *, always_counted: bool) -> list[str]:
    """At most two different texts, each with its number when it does not go without saying."""
    groups = Counter(texts).most_common()
    if len(groups) == 1 and not always_counted:
        return [groups[0][0]]
    shown = [f"{number} x {text}" for text, number in groups[:2]]
    rest = sum(number for _, number in groups[2:])
    return [*shown, f"{rest} more"] if rest else shown


def short_failure(verdict: TrialVerdict) -> str:
    """A failure without what differs from trial to trial: `SIGSEGV in prompt, ggml-vulkan`."""
    return _ADDRESS.sub("", _LIBRARY.sub(r"\1", verdict.outcome.text))


def short_reason(why: str) -> str:
    """The part of a sentence before its colon: `ran on the CPU: no device line ...` -> `ran on the CPU`."""
    return why.split(": ", 1)[0]
