"""Claims as text: the verdict, why, on what it rests, how wide it is, and what would decide it."""

from __future__ import annotations

from collections.abc import Sequence

from stillruns.model.claim import CellCounts, Claim, ContrastView, Frozen, RateTest
from stillruns.model.worklog import Finding
from stillruns.report.columns import PLAIN, Page, visible

MOST = 8
"""Entries of a list that are printed; the JSON has all."""
PLACES = 4
"""The same of the places of a finding."""


def text(claims: Sequence[tuple[str, Claim]], page: Page = PLAIN) -> str:
    """All claims, under what they are about."""
    lines: list[str] = []
    last = ""
    for about, claim in claims:
        if about != last:
            lines += [f"claims of {visible(about)}", ""]
            last = about
        lines += [*claim_lines(claim, page), ""]
    return "\n".join(lines) + ("" if lines else "no hypothesis: write [[hypothesis]] tables (docs/hypotheses.md)\n")


def findings(found: Sequence[tuple[str, Finding]], page: Page = PLAIN) -> str:
    """What threatens the readings of imported studies, one entry a finding; nothing for none."""
    lines: list[str] = []
    for about, finding in found:
        if not lines:
            lines += [f"what the tables of {visible(about)} could not show", ""]
        places = ", ".join(f"{run} {ref}" for run, ref in finding.places[:PLACES])
        places += f" and {len(finding.places) - PLACES} more" if len(finding.places) > PLACES else ""
        lines += page.line(f"{finding.kind}: {finding.text}" + (f" [{places}]" if places else ""), "  ")
    return "\n".join(lines) + "\n" if lines else ""


def claim_lines(claim: Claim, page: Page = PLAIN) -> list[str]:
    """One claim, indented under its first line."""
    mark = {Frozen.CHANGED: "  (changed after the trials)", Frozen.AFTER: "  (posed after the trials)"}
    lines = page.line(
        f"{claim.verdict.value.upper()}  {claim.id}: {claim.text}{mark.get(claim.frozen, '')}", "", "  "
    )
    sections = (
        ("not varied", claim.not_varied),
        ("sides", claim.sides),
        ("test", [_test(t) for t in claim.tests]),
        ("contrast", list(dict.fromkeys(_contrast(c) for c in claim.contrasts))),
        ("untested", claim.untested),
        ("decide by", claim.would_decide),
        ("known", claim.known_issues),
        ("careful", (*claim.warnings, *claim.shared)),
        ("evidence", [f"{line.ref}  {line.text}" for line in claim.evidence]),
    )
    lines += _section("why", [claim.why], page)
    lines += _section("only for", [scope(claim)], page)
    for name, entries in sections:
        lines += _section(name, entries, page)
        if name == "not varied":
            lines += ["  cells"] if claim.counts else []
            lines += page.table(_rows(claim.counts), "    ") if claim.counts else []
    lines += _section("runs", [", ".join(claim.runs) or "none"], page)
    return lines


def scope(claim: Claim) -> str:
    """What its cells are; where no evidence names a driver, that too."""
    if not claim.driver_unknown:
        return claim.scope
    where = f" on {', '.join(claim.driver_unknown)}" if claim.driver else ""
    return f"{claim.scope}, driver not recorded{where}"


def short(claims: Sequence[Claim], page: Page = PLAIN) -> list[str]:
    """One line a claim, for a run's report."""
    told = [f"{c.verdict.value:<12} {c.id}: {c.text} ({c.why})" for c in claims]
    return [part for line in told for part in page.line(line, "", " " * 13)]


def _section(name: str, entries: Sequence[str], page: Page) -> list[str]:
    shown = list(entries[:MOST])
    if len(entries) > MOST:
        shown.append(f"... and {len(entries) - MOST} more (--json has all)")
    return [
        part
        for place, entry in enumerate(shown)
        for part in page.line(entry, f"  {name if place == 0 else '':<10} ", " " * 13)
    ]


def _rows(counts: Sequence[CellCounts]) -> list[list[str]]:
    rows = [["cell", "applied", "crashed", "failed", "passed", "output unknown", "void", "failure rate (95 %)"]]
    for c in counts:
        rate = "-"
        if c.rate is not None:
            method = "exact" if c.rate.method.startswith("fixed-n") else "any look"
            method += ", by block" if c.rate.method.endswith("by block") else ""
            rate = f"{int(c.rate.low * 100)} to {-int(-c.rate.high * 100 // 1)} % ({method})"
        numbers = (c.crashed, c.failed, c.passed, c.output_unknown, c.void)
        rows.append([c.cell, f"{c.applied}/{c.trials}", *map(str, numbers), rate])
    return rows


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
