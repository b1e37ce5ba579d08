"""A run as a text table, and what the table does not say."""

from __future__ import annotations

from collections.abc import Sequence

from stillruns.model.agreement import OutputVerdict
from stillruns.model.cell import Cell, Speed
from stillruns.model.divergence import Path
from stillruns.model.hint import hint
from stillruns.model.outcome import OutcomeKind
from stillruns.model.rate import Rate
from stillruns.model.run_result import RunResult
from stillruns.model.wording import significant
from stillruns.report import claims_text
from stillruns.report.columns import PLAIN, Page, visible

HEADINGS = ("backend", "layers", "applied", "pass", "failure rate (95 %)", "tok/s", "output", "note")


def text(result: RunResult, *, trials: bool = False, page: Page = PLAIN) -> str:
    """The table of one run, its warnings, and (with `trials`) one line a trial."""
    lines = page.line(f"run {result.run}  {result.name}")
    if result.question:
        lines += page.line(result.question)
    lines += ["", *table(result.cells, page)]
    lines += [part for line in survival(result) for part in page.line(line)]
    for model in dict.fromkeys(check.model for check in result.checks):
        lines += ["", *page.line(f"distributions of {model} against the reference's, token by token:")]
        for c in (check for check in result.checks if check.model == model):
            lines += page.line(f"{c.verdict.value:<10} {c.cell}: {c.why}", "  ", " " * 13)
    lines += [part for line in floors(result) for part in page.line(line, "  ", "    ")]
    lines += ["", *claims_text.short(result.claims, page)] if result.claims else []
    if trials:
        lines += ["", *trial_lines(result, page)]
    lines.append("")
    lines += [part for w in (*result.warnings, *result.shared) for part in page.line(f"{w.kind}: {w.text}", "", "  ")]
    if not result.complete:
        lines.append("incomplete: run the same spec again to go on where it stopped")
    return "\n".join((*lines, *evidence(result))) + "\n"


def evidence(result: RunResult) -> list[str]:
    """The commands that show more: a failed trial sooner than one that passed, and none that left nothing to show. A
    line each, to be copied."""
    lines = [f"evidence of each trial: {hint('report', result.run, options=('--trials',))}"]
    own = [v for v in result.verdicts if v.trial.startswith(result.run)]
    ended = [v for v in own if v.outcome.kind is not OutcomeKind.INTERRUPTED]
    telling = [v for v in ended if not v.passed] or ended
    return [*lines, f"and of one: {hint('show', telling[-1].trial)}"] if telling else lines


def floors(result: RunResult) -> list[str]:
    """What the checks measured, a line a device, in nats: for later runs where it is a floor."""
    found: dict[str, list[str]] = {}
    for floor in result.floors:
        name = f"{floor.architecture} {floor.quantisation}, {floor.pair.value} {visible(floor.device)}"
        how = "as a batch" if floor.path is Path.PROMPT else "one token at a time"
        no_floor = "" if floor.trusted else " (no floor for others)"
        found.setdefault(name, []).append(f"{floor.seen.kl_mean:.2g} {how}{no_floor}")
    return [f"measured {name}: {', '.join(parts)}" for name, parts in found.items()]


def survival(result: RunResult) -> list[str]:
    """How long runs lived, where some died after their first token; of a single run its row says it."""
    lines = []
    for found in (curve for curve in result.survival if curve.runs > 1):
        steps = ", ".join(f"{s.survival:.2f} after {s.at:g} ({s.died} of {s.at_risk})" for s in found.curve[:6])
        more = f", {len(found.curve) - 6} more" if len(found.curve) > 6 else ""
        healthy = f"{found.censored} of {found.runs} ended healthy by {found.longest:g} {found.unit}"
        lines.append(f"survival {found.cell}: {steps + more + '; ' if steps else ''}{healthy}")
    lines += [
        f"log-rank in {test.unit} {test.left} against {test.right}: p = {test.p:.2g} on {test.deaths} deaths"
        for test in result.log_rank
    ]
    return ["", *lines] if lines else []


def table(cells: Sequence[Cell], page: Page = PLAIN) -> list[str]:
    """One line a cell; further axes get a column each when there are any."""
    axes = sorted({name for cell in cells for name in cell.axes})
    rows: list[list[str]] = [[*HEADINGS[:2], *axes, *HEADINGS[2:]]]
    for cell in cells:
        rows.append(
            [
                cell.backend,
                layers(cell),
                *(str(cell.axes.get(name, "-")) for name in axes),
                f"{cell.applied}/{cell.trials}",
                passes(cell),
                rate(cell.rate),
                speed(cell.tokens_per_second),
                output(cell.output),
                note(cell),
            ]
        )
    return page.table(rows)


def layers(cell: Cell) -> str:
    """`-` for the cpu, which offloads nothing."""
    return "-" if cell.gpu_layers == "none" else str(cell.gpu_layers)


def passes(cell: Cell) -> str:
    """`passed/applied`; an attached server without a log shows what answered, unverified."""
    if cell.unverified:
        return f"unverified {cell.unverified.get('passed', 0)}/{sum(cell.unverified.values())}"
    return f"{cell.passed}/{cell.applied}" if cell.applied else "-"


def rate(value: Rate | None) -> str:
    """`0 to 46 %`, rounded outwards so that the interval never looks narrower than it is."""
    if value is None:
        return "-"
    low, high = int(value.low * 100), -int(-value.high * 100 // 1)
    return f"{low} to {high} %"


def speed(value: Speed | None) -> str:
    """The median, three significant digits."""
    return "-" if value is None else significant(value.median)


def output(value: OutputVerdict | None) -> str:
    """`-` where no answer came."""
    return "-" if value is None else value.value


def note(cell: Cell) -> str:
    """The cell's own note, and the counts that every table must print."""
    parts = [text for text in (cell.shown, cell.note) if text]
    if cell.failed_unknown:
        parts.append(f"{cell.failed_unknown} failed, unknown whether applied")
    if cell.interrupted:
        parts.append(f"{cell.interrupted} interrupted")
    return "; ".join(parts)


def trial_lines(result: RunResult, page: Page = PLAIN) -> list[str]:
    """One line a trial: its id, cell, applied, how it ended."""
    rows = [["trial", "cell", "applied", "outcome", "detail"]]
    for verdict in result.verdicts:
        ended = verdict.outcome.kind.value
        why = verdict.outcome.detail or ("" if verdict.applied.status.value == "yes" else verdict.applied.why)
        rows.append([verdict.trial, verdict.cell, verdict.applied.status.value, ended, why])
    return page.table(rows)
