"""`stillruns import PATH...`: a foreign worklog, or logs that came alone, into the store."""

from __future__ import annotations

from pathlib import Path

import click

from stillruns.cli.options import common
from stillruns.cli.output import emit_json, emit_text, page
from stillruns.errors import ExitCode
from stillruns.lab import importing
from stillruns.report import import_text
from stillruns.store.opening import open_store


@click.command("import")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--name", default="", help="Name of the study in the store (default: the folder's name).")
@common
def command(paths: tuple[Path, ...], name: str, as_json: bool, store_dir: Path | None) -> int:
    """Take someone else's trials over into the store, byte for byte: the run folders at or below PATH (each with a
    result.json), or, where there is none, the logs of model servers there; a PATH may be a log itself.

    Journals, probes and answers beside the results become evidence, as does each log; `stillruns report NAME` prints
    what they show. Exit code 1 when a run folder could not be read.
    """
    with open_store(store_dir) as store:
        result = importing.run(paths, store, name)
    if as_json:
        emit_json(import_text.document(result))
    else:
        emit_text(import_text.text(result, page()))
    return ExitCode.NO if any(entry.why for entry in result.runs) else ExitCode.COMPLETE
