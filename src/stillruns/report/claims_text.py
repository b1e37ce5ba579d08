"""Claims as text: the verdict, why, on what it rests, how wide it is, and what would decide it."""

from __future__ import annotations

from collections.abc import Sequence

from stillruns.model.claim import CellCounts, Claim, ContrastView, Frozen, RateTest
from stillruns.model.worklog import Finding
from stillruns.report.columns import columns, visible

MOST = 8
"""Entries of a list that are printed; the JSON has all."""


def text(claims: Sequence[tuple[str, Claim]]) -> str:
    """All claims, under what they are about."""
    lines: list[str] = []
    last = ""
    for about, claim in claims:
        if about != last:
            lines += [f"claims of {visible(about)}", ""]
            last = about
        lines += [*claim_lines(claim), ""]
    return "\n".join(lines) + ("" if lines else "no hypothesis: write [[hypothesis]] tables (docs/hypotheses.md)\n")


def findings(found: Sequence[tuple[str, Finding]]) -> str:
    """What threatens the readings of imported studies, one entry a finding; nothing for none."""
    lines: list[str] = []
    for about, finding in found:
        if not lines:
            lines += [f"what the tables of {visible(about)} could not show", ""]
        places = ", ".join(f"{visible(run)} {ref}" for run, ref in finding.places[:4])
        lines.append(f"  {finding.kind}: {visible(finding.text)}" + (f" [{places}]" if places else ""))
    return "\n".join(lines) + "\n" if lines else ""


def claim_lines(claim: Claim) -> list[str]:
    """One claim, indented under its first line."""
    mark = {Frozen.CHANGED: "  (changed after the trials)", Frozen.AFTER: "  (posed after the trials)"}
    lines = [f"{claim.verdict.value.upper()}  {claim.id}: {visible(claim.text)}{mark.get(claim.frozen, '')}"]
    lines.append(f"  why        {visible(claim.why)}")
    lines.append(f"  only for   {visible(scope(claim))}")
    lines += _section("not varied", claim.not_varied)
    lines += ["  cells"] if claim.counts else []
    lines += [f"    {row}" for row in _table(claim.counts)]
    lines += _section("sides", claim.sides)
    lines += _section("test", [_test(t) for t in claim.tests])
    lines += _section("contrast", list(dict.fromkeys(_contrast(c) for c in claim.contrasts)))
    lines += _section("untested", claim.untested)
    lines += _section("decide by", claim.would_decide)
    lines += _section("known", claim.known_issues)
    lines += _section("careful", (*claim.warnings, *claim.shared))
    lines += _section("evidence", [f"{line.ref}  {line.text}" for line in claim.evidence])
    lines.append(f"  runs       {', '.join(claim.runs) or 'none'}")
    return lines


def scope(claim: Claim) -> str:
    """What its cells are; where no evidence names a driver, that too."""
    if not claim.driver_unknown:
        return claim.scope
    where = f" on {', '.join(claim.driver_unknown)}" if claim.driver else ""
    return f"{claim.scope}, driver not recorded{where}"


def short(claims: Sequence[Claim]) -> list[str]:
    """One line a claim, for a run's report."""
    return [f"{c.verdict.value:<12} {c.id}: {visible(c.text)} ({visible(c.why)})" for c in claims]


def _section(name: str, entries: Sequence[str]) -> list[str]:
    shown = [visible(entry) for entry in entries[:MOST]]
    if len(entries) > MOST:
        shown.append(f"... and {len(entries) - MOST} more (--json has all)")
    return [f"  {name if place == 0 else '':<10} {entry}" for place, entry in enumerate(shown)]


def _table(counts: Sequence[CellCounts]) -> list[str]:
    rows = [["cell", "applied", "crashed", "failed", "passed", "output unknown", "void", "failure rate (95 %)"]]
    for c in counts:
        rate = "-"
        if c.rate is not None:
            method = "exact" if c.rate.method.startswith("fixed-n") else "any look"
            method += ", by block" if c.rate.method.endswith("by block") else ""
            rate = f"{int(c.rate.low * 100)} to {-int(-c.rate.high * 100 // 1)} % ({method})"
        numbers = (c.crashed, c.failed, c.passed, c.output_unknown, c.void)
        rows.append([c.cell, f"{c.applied}/{c.trials}", *map(str, numbers), rate])
    return columns(rows)


def _test(test: RateTest) -> str:
    seen = f"{test.left_failed} of {test.left_n} against {test.right_failed} of {test.right_n}"
    head = f"{test.what}: {test.left} {seen} {test.right}"
    if test.p is None:
        return f"{head}; {test.method} at 97.5 %"
    adjusted = "" if test.adjusted is None else f", Holm {test.adjusted:.2g}"
    return f"{head}; {test.method} p = {test.p:.2g}{adjusted}; Fisher p = {test.fisher:.2g}"


def _contrast(contrast: ContrastView) -> str:
    parts = [*contrast.differs_in, *(f"unknown {text}" for text in contrast.unknown)]
    on = f" (on {contrast.on})" if contrast.on else ""
    return f"{contrast.status}{on}: {'; '.join(parts) or 'nothing differs'}"
