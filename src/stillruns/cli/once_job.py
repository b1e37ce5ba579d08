"""What `stillruns run -- COMMAND` does once its arguments are read: apart from `run_job`, since supervising a command
needs a half of what an experiment needs, and a good part of a short command's time goes into its imports."""

from __future__ import annotations

from pathlib import Path

from stillruns.cli.output import emit_json, emit_text, tell
from stillruns.errors import ExitCode
from stillruns.lab import once
from stillruns.report import once_text
from stillruns.store.opening import open_store


def run(
    argv: tuple[str, ...], wanted: set[str], *, keep_running: bool, as_is: bool, as_json: bool, store_dir: Path | None
) -> ExitCode:
    """`stillruns run -- COMMAND`: 0 whatever it shows, 1 when it shows what `wanted` names."""
    with open_store(store_dir) as store:
        result = once.run(argv, store, tell, keep_running=keep_running, as_is=as_is)
    emit_json(once_text.document(result)) if as_json else emit_text(once_text.markdown(result))
    if once_text.evidence(result) != once_text.evidence(result, public=True):
        tell(f"the command that shows the evidence, with the names that were taken out: {once_text.evidence(result)}")
    return ExitCode.NO if wanted & once_text.marks(result) else ExitCode.COMPLETE
