"""`stillruns demo`: the main job on what is here."""

from __future__ import annotations

from pathlib import Path

import click

from stillruns.cli.options import common
from stillruns.cli.output import emit_json, emit_text, page
from stillruns.cli.progress import progress
from stillruns.cli.run_job import exit_code, tell_undecided
from stillruns.lab import demo, running
from stillruns.lab.runs import preparing
from stillruns.report import run_json, run_text
from stillruns.store.opening import open_store


@click.command()
@click.option(
    "--trials",
    type=click.IntRange(1, 100),
    default=demo.TRIALS,
    show_default=True,
    help="Trials for each row of the table.",
)
@common
def command(trials: int, as_json: bool, store_dir: Path | None) -> None:
    """Run a small synthetic model on every backend that is found here, layer by layer, against the CPU.

    Needs no GPU and no download; under two minutes on two cores. Exit 0 when every row was decided, whatever it
    shows; 1 otherwise.
    """
    store = open_store(store_dir)
    with progress() as shown:
        spec = demo.spec(store, shown, trials=trials)
        result = running.run(preparing.prepare(spec, store, shown), store, shown, new=True)
    emit_json(run_json.document(result)) if as_json else emit_text(run_text.text(result, page=page()))
    tell_undecided(result)
    click.get_current_context().exit(exit_code(result, set()))
