"""One trial with its evidence, for `stillruns show`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from stillruns.model.absence import Absence
from stillruns.model.applied import FactorApplied
from stillruns.model.outcome import OutcomeKind
from stillruns.model.served import Served
from stillruns.model.trial import TrialRecord
from stillruns.model.verdict import TrialVerdict
from stillruns.model.wording import significant
from stillruns.report.columns import PLAIN, Page, visible

SAME = 16
"""Characters up to which a value is printed as asked and as seen even where both are equal."""


def text(
    record: TrialRecord,
    verdict: TrialVerdict,
    excerpts: Mapping[str, str],
    paths: Mapping[str, str],
    page: Page = PLAIN,
) -> str:
    """`excerpts` maps refs to the lines they name, `paths` evidence ids to files in the store. What is quoted, and
    what is to be copied, stays on one line whatever the page."""

    def labelled(label: str, value: str) -> list[str]:
        return page.line(value, f"{label:<8} ", " " * 9)

    outcome = verdict.outcome
    lines = [
        f"trial    {record.trial}",
        f"run      {record.run}",
        f"cell     {record.cell}, trial {record.index + 1}",
        *_fault(record),
        f"started  {record.started}, ran {verdict.seconds:.2f} s",
        f"command  {visible(shlex.join(record.argv))}",
        "",
        *labelled(
            "outcome",
            outcome.kind.value
            + ("" if outcome.kind is OutcomeKind.OK else f" in {outcome.phase.value}")
            + (f" ({outcome.detail})" if outcome.detail else ""),
        ),
    ]
    if outcome.components:
        several = "one of: " if len(outcome.components) > 1 else ""
        lines += labelled("at fault", f"{several}{', '.join(c.value for c in outcome.components)}")
    lines += labelled("applied", f"{verdict.applied.status.value}: {verdict.applied.why}")
    rows = [["", "applied", "seen", "where", "asked"]]
    rows += [
        [name, factor.status.value, _seen(factor), " ".join(factor.refs) or "-", factor.asked]
        for name, factor in verdict.applied.factors.items()
    ]
    lines += page.table(rows, "  ") if len(rows) > 1 else []
    if verdict.agreement is not None:
        lines += labelled("output", f"{verdict.agreement.verdict.value}: {verdict.agreement.why}")
    lines += _served(verdict.served) if verdict.served else []
    if isinstance(record.core, Absence):
        lines += labelled("core", f"none: {record.core.detail or record.core.reason.value}")
    else:
        place = f"{record.core.module}+{record.core.offset:#x}" if record.core.module else "in no mapped file"
        lines += labelled("core", f"{record.core.signal} at {place}")
    lines += ["", "lines that tell:"]
    lines += [f"  {ref:<8} {visible(line)}" for ref, line in excerpts.items()] or ["  none"]
    lines += ["", "evidence:"]
    kept = [[e.id, e.kind, f"{e.bytes} bytes", paths.get(e.id, e.sha256)] for e in record.evidence]
    lines += page.table(kept, "  ", heading=False) or ["  none"]
    lines += [part for note in record.notes for part in labelled("note", note)]
    return "\n".join(lines) + "\n"


def _fault(record: TrialRecord) -> list[str]:
    """That its server was made to fail: a trial of a selftest says nothing about the machine."""
    phase, colon, kind = record.env.get("STILLRUNS_FAULT", "").partition(":")
    return [f"fault    {visible(kind)}, injected by the selftest in {visible(phase)}"] if colon else []


def _served(seen: Served) -> list[str]:
    """What the server was asked in all, and each slot where there were several."""
    unkept = f", {seen.unkept} answers not kept" if seen.unkept else ""
    lines = [
        f"asked    {seen.requests} requests, {seen.answered} answered, {seen.tokens} tokens in {seen.seconds:.1f} s, "
        f"{seen.at_once} at once{unkept}"
    ]
    if len(seen.slots) > 1:
        lines += [
            f"  slot {slot.slot}: {slot.requests} requests, {slot.tokens} tokens"
            + ("" if slot.tokens_per_second is None else f", {significant(slot.tokens_per_second)} tokens/s each")
            for slot in seen.slots
        ]
    return lines


def _seen(factor: FactorApplied) -> str:
    """What the evidence shows, short enough for a column: a long value that is the asked one is not said twice."""
    if factor.got is None:
        return "-"
    if factor.got == factor.asked and len(factor.got) > SAME:
        return "as asked"
    return factor.got[:19] + "..." if factor.got.startswith("sha256:") else factor.got
