"""What `stillruns run` does once its arguments are read; loaded late, so that `--help` costs little."""

from __future__ import annotations

from pathlib import Path

from stillruns.cli.output import emit_json, emit_text, page, tell
from stillruns.cli.progress import progress
from stillruns.errors import ExitCode
from stillruns.lab import once, running
from stillruns.lab.runs import preparing
from stillruns.lab.specs import spec_file
from stillruns.model.claim import ClaimVerdict
from stillruns.model.run_result import RunResult
from stillruns.report import once_text, run_json, run_text
from stillruns.store.opening import open_store

CRASHES = {"crash", "abort", "oom", "device_lost", "hang", "error", "not_ready"}
"""What `--fail-on crash` means: every end but a clean one and a wrong output."""


def command_once(
    argv: tuple[str, ...], wanted: set[str], *, keep_running: bool, as_is: bool, as_json: bool, store_dir: Path | None
) -> ExitCode:
    """`stillruns run -- COMMAND`: 0 whatever it shows, 1 when it shows what `wanted` names."""
    with open_store(store_dir) as store:
        result = once.run(argv, store, tell, keep_running=keep_running, as_is=as_is)
    emit_json(once_text.document(result)) if as_json else emit_text(once_text.markdown(result))
    if once_text.evidence(result) != once_text.evidence(result, public=True):
        tell(f"the command that shows the evidence, with the names that were taken out: {once_text.evidence(result)}")
    return ExitCode.NO if wanted & once_text.marks(result) else ExitCode.COMPLETE


def matrix(spec: Path, wanted: set[str], *, new: bool, as_json: bool, store_dir: Path | None) -> ExitCode:
    """`stillruns run SPEC.toml`."""
    asked = spec_file.load(spec)
    with open_store(store_dir) as store:
        with progress() as shown:
            result = running.run(preparing.prepare(asked, store, shown), store, shown, new=new)
        emit_json(run_json.document(result)) if as_json else emit_text(run_text.text(result, page=page()))
    tell_undecided(result)
    return exit_code(result, wanted)


def tell_undecided(result: RunResult) -> None:
    """The sentence under a table that is not all decided."""
    cells = _undecided(result)
    if cells:
        were = "1 cell was" if cells == 1 else f"{cells} cells were"
        why = "no trial is known to have run under the condition; the note in the table says why"
        tell(f"exit 1: {were} not decided, since {why}")


def _undecided(result: RunResult) -> int:
    """Cells without a trial that is known to be of the condition. An attached server without a log shows nothing of
    itself: what it answered is all there is to decide."""
    return sum(not c.applied and not (c.unverified and c.gpu_layers == "server") for c in result.cells)


def exit_code(result: RunResult, wanted: set[str]) -> ExitCode:
    """0 when every cell is decided; 1 when one is void or undecided, or shows what `--fail-on` names."""
    undecided = bool(result.undecided) or _undecided(result) > 0
    if undecided or not result.complete or any(w.kind == "not tested" for w in result.warnings):
        return ExitCode.NO
    return ExitCode.NO if wanted & marks(result) else ExitCode.COMPLETE


def marks(result: RunResult) -> set[str]:
    """Which of `--fail-on`'s words a run earns."""
    earned = set()
    for cell in result.cells:
        if CRASHES & set(cell.outcomes):
            earned.add("crash")
        if cell.void:
            earned.add("void")
        if "wrong_output" in cell.outcomes:
            earned.add("wrong")
    if any(claim.verdict is ClaimVerdict.REFUTED for claim in result.claims):
        earned.add("refuted")
    return earned
