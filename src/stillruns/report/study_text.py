"""An imported study as a text table: what its authors counted beside what the logs show, and what they could not "
"see."""

from __future__ import annotations

from collections.abc import Sequence

from stillruns.model.backend import Backend
from stillruns.model.hint import hint
from stillruns.model.server_log import Layers
from stillruns.model.worklog import Finding, Study, StudyCell, StudyRequest
from stillruns.report.columns import PLAIN, Page, visible
from stillruns.report.run_text import rate

HEADINGS = (
    "backend",
    "server",
    "num_gpu",
    "counted ok",
    "applied",
    "void",
    "unknown",
    "layers",
    "failed",
    "failure rate (95 %)",
    "tok/s",
    "no text",
)
REQUEST_HEADINGS = ("request", "backend", "asked", "layers", "applied", "outcome", "seconds", "tok/s", "why")
PLACES = 12
"""So many places of a finding are printed."""


def text(study: Study, *, trials: bool = False, page: Page = PLAIN) -> str:
    """The tables (one a model), the findings with their places, and with `trials` one line a request."""
    alone = not any(request.client for request in study.requests)
    lines = [part for line in (_head_of_logs if alone else _head)(study) for part in page.wrapped(line, "", "")]
    for model in dict.fromkeys(cell.model for cell in study.cells):
        own = [cell for cell in study.cells if cell.model == model]
        lines += ["", f"{visible(model)}", *page.table(log_rows(own) if alone else rows_of(own))]
    lines += ["", "What this leaves open:" if alone else "What the worklog's own tables cannot show:"]
    for number, finding in enumerate(study.findings, 1):
        lines += finding_lines(number, finding, page)
    if not study.findings:
        lines.append("nothing found")
    if trials:
        lines += ["", *page.table(request_rows(study.requests))]
    lines += ["", *_evidence(study, "log" if alone else "run folder", page)]
    return "\n".join(lines) + "\n"


def _head(study: Study) -> list[str]:
    journals = sum(has for _, _, has in study.runs)
    return [
        f"study {visible(study.name)}: {len(study.requests)} requests in {len(study.runs)} runs, "
        f"{journals} of them with a server log",
        "The backend is what the server's own lines say it loaded, not its port. `counted ok` is the worklog's own "
        "count; void requests ran under another condition than they asked and enter no rate; unknown ones neither. "
        "tok/s is tokens over evaluation time (median), of void requests too; it never holds the time of a load.",
    ]


def _head_of_logs(study: Study) -> list[str]:
    return [
        f"study {visible(study.name)}: {len(study.requests)} trials in {len(study.runs)} logs that came alone",
        "Each condition is what the log's own lines show; a file's name plays no part. `layers` went to the device; "
        "void trials ran under another condition than the log shows as asked, of unknown ones no line tells; neither "
        "enters a rate. tok/s is the server's own figure for its evaluation time (median).",
    ]


def log_rows(cells: Sequence[StudyCell]) -> list[list[str]]:
    """One line a cell of logs that came alone: nobody else counted, and what was asked is seldom shown."""
    rows = [["backend", "server", "layers", "applied", "void", "unknown", "failed", HEADINGS[9], "tok/s"]]
    for cell in cells:
        rows.append(
            [
                cell.side.value,
                cell.server,
                ", ".join(cell.layers) or "unknown",
                f"{cell.applied}/{cell.requests}",
                f"{cell.void} VOID" if cell.void else "-",
                str(cell.unknown) if cell.unknown else "-",
                f"{cell.failed}/{cell.applied}" if cell.applied else "-",
                rate(cell.rate),
                speed(cell),
            ]
        )
    return rows


def rows_of(cells: Sequence[StudyCell]) -> list[list[str]]:
    """One line a cell; a void count is marked."""
    rows = [list(HEADINGS)]
    for cell in cells:
        rows.append(
            [
                cell.side.value,
                cell.server or "no server log",
                asked(cell.asked),
                "-" if cell.counted_ok is None else f"{cell.counted_ok}/{cell.requests}",
                f"{cell.applied}/{cell.requests}",
                f"{cell.void} VOID" if cell.void else "-",
                str(cell.unknown) if cell.unknown else "-",
                ", ".join(cell.layers) or "-",
                f"{cell.failed}/{cell.applied}" if cell.applied else "-",
                rate(cell.rate),
                speed(cell),
                str(cell.empty) if cell.empty else "-",
            ]
        )
    return rows


def asked(value: Layers) -> str:
    """num_gpu as it was asked: `-1` leaves it to the server."""
    return "-1" if value == "auto" else "not set" if value is None else str(value)


def speed(cell: StudyCell) -> str:
    """The median; of void requests too, since it is what the client saw."""
    return f"{cell.speed[0]:.1f}" if cell.speed else "-"


def finding_lines(number: int, finding: Finding, page: Page = PLAIN) -> list[str]:
    """The sentence, and its places below."""
    lines = page.wrapped(f"{number:2}. {finding.kind}: {finding.text}.", later="    ")
    if finding.places:
        runs: dict[str, list[str]] = {}
        for run, ref in finding.places[:PLACES]:
            runs.setdefault(run, []).append(ref)
        shown = "; ".join(f"{run} {' '.join(refs)}" for run, refs in runs.items())
        more = f"; and {len(finding.places) - PLACES} more" if len(finding.places) > PLACES else ""
        lines += page.wrapped(f"    at {shown}{more}", later="       ")
    return lines


def request_rows(requests: Sequence[StudyRequest]) -> list[list[str]]:
    """One line a request."""
    rows = [list(REQUEST_HEADINGS)]
    for request in requests:
        record = request.record
        layers = f"{request.applied_layers}/{request.total_layers}" if request.applied_layers is not None else "-"
        rows.append(
            [
                f"{request.run}/{record.epoch}",
                request.backend.value if request.backend is not Backend.UNKNOWN else "unknown",
                asked(record.asked) if request.client or record.asked is not None else "not shown",
                layers,
                "VOID" if request.void else request.applied.value,
                outcome(request),
                "-" if record.seconds is None else f"{record.seconds:.3f}",
                "-" if record.rate is None else f"{record.rate:.2f}",
                request.why,
            ]
        )
    return rows


def outcome(request: StudyRequest) -> str:
    """`crash SIGSEGV in prompt`, or the outcome alone."""
    if request.death is None:
        return request.outcome.value + (" (no text)" if request.empty else "")
    return f"{request.outcome.value} {request.death.signal or ''} in {request.death.phase.value}".replace("  ", " ")


def _evidence(study: Study, what: str, page: Page) -> list[str]:
    """What a place means, and the commands that show more: a line each, to be copied."""
    held = {request.run for request in study.requests}
    first = next((run for folder, run, _ in study.runs if folder in held), "")
    files = [f"and the files of the first {what}: {hint('show', f'{first}.0001')}"] if first else []
    return [
        *page.wrapped(f"Places are a {what}, a file of its evidence and a line in it."),
        f"evidence of each request: {hint('report', study.name, options=('--trials',))}",
        *files,
    ]
