"""`stillruns report RUN...`: the tables of runs, judged again from their evidence."""

from __future__ import annotations

from pathlib import Path

import click

from stillruns.cli.options import common
from stillruns.cli.output import emit_json, emit_text
from stillruns.errors import UsageError
from stillruns.lab import judging
from stillruns.report import run_json, run_text, runs_text
from stillruns.store.opening import open_store


@click.command()
@click.argument("runs", nargs=-1)
@click.option("--text", "as_text", is_flag=True, help="Plain text (the default).")
@click.option("--trials", is_flag=True, help="List the trials too.")
@click.option("--list", "list_runs", is_flag=True, help="List the runs of the store and stop.")
@common
def command(
    runs: tuple[str, ...], as_text: bool, trials: bool, list_runs: bool, as_json: bool, store_dir: Path | None
) -> None:
    """Print the table of each RUN (an id, or a unique beginning of one; the newest when none is given)."""
    store = open_store(store_dir, create=False)
    known = store.runs()
    if list_runs and as_json:
        raise UsageError("--list prints text; --json prints one run: name it")
    if list_runs:
        emit_text(runs_text.text(store.runs()))
        return
    if not known:
        raise UsageError(f"the store {store.path} holds no run; start one with: stillruns demo")
    wanted = [judging.resolve_run(store, name) for name in runs] or [judging.newest_matrix(store)]
    results = [judging.judge_run(store, run) for run in wanted]
    if as_json:
        if len(results) != 1:
            raise UsageError("--json prints one run; name one RUN")
        emit_json(run_json.document(results[0]))
        return
    emit_text("\n".join(run_text.text(result, trials=trials) for result in results))
