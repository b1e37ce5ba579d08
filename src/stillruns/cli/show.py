"""`stillruns show TRIAL`: one trial with its evidence."""

from __future__ import annotations

from pathlib import Path

import click

from stillruns.cli.options import common
from stillruns.cli.output import emit_json, emit_text, page
from stillruns.errors import UsageError
from stillruns.lab import showing
from stillruns.report import trial_json, trial_text
from stillruns.store.opening import open_store


@click.command()
@click.argument("trial")
@click.option(
    "--log", "whole_log", is_flag=True, help="Print the trial's whole log, control characters made visible."
)
@common
def command(trial: str, whole_log: bool, as_json: bool, store_dir: Path | None) -> None:
    """What was asked, what was applied, how it ended, and where each statement comes from.

    TRIAL is a trial's id as `stillruns report RUN --trials` lists it, an ending of one (`0007`; where several runs
    have it, that of the run which `stillruns report` prints), or `last`, the newest of any run.
    """
    if whole_log and as_json:
        raise UsageError("--log prints text and --json one document; give one of them")
    store = open_store(store_dir, create=False)
    shown = showing.find(store, trial)
    if whole_log:
        emit_text(showing.log_text(store, shown))
    elif as_json:
        emit_json(trial_json.document(shown.record, shown.verdict, shown.excerpts, shown.paths))
    else:
        emit_text(trial_text.text(shown.record, shown.verdict, shown.excerpts, shown.paths, page()))
