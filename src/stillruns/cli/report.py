"""`stillruns report RUN...`: the tables of runs, judged again from their evidence."""

from __future__ import annotations

from pathlib import Path

import click

from stillruns.cli.options import common
from stillruns.cli.output import emit_json, emit_text, page
from stillruns.errors import UsageError
from stillruns.lab.runs import judging
from stillruns.lab.studies import studying
from stillruns.model.hint import hint
from stillruns.report import run_json, run_text, runs_text, study_json, study_text
from stillruns.store.opening import open_store
from stillruns.store.store import Store


@click.command()
@click.argument("runs", nargs=-1)
@click.option("--text", "as_text", is_flag=True, help="Plain text (the default).")
@click.option("--trials", is_flag=True, help="List the trials too.")
@click.option("--list", "list_runs", is_flag=True, help="List the runs of the store and stop.")
@common
def command(
    runs: tuple[str, ...], as_text: bool, trials: bool, list_runs: bool, as_json: bool, store_dir: Path | None
) -> None:
    """Print the table of each RUN: an id, a unique beginning of one, or the name of an imported study or of one of
    its run folders. Without a RUN: the newest study or experiment; `--list` names all runs, selftests among them."""
    store = open_store(store_dir, create=False)
    known = store.runs()
    if list_runs and as_json:
        raise UsageError("--list prints text; --json prints one run: name it")
    if list_runs:
        emit_text(runs_text.text(known, page()))
        return
    if not known:
        raise UsageError(f"the store {store.path} holds no run; start one with: {hint('demo')}")
    wanted = _wanted(store, runs)
    if as_json and len(wanted) != 1:
        raise UsageError("--json prints one run; name one RUN")
    for name, members in wanted:
        if members:
            study = studying.judge(store, name, members)
            emit_json(study_json.document(study)) if as_json else emit_text(
                study_text.text(study, trials=trials, page=page())
            )
        else:
            result = judging.judge_run(store, name)
            emit_json(run_json.document(result)) if as_json else emit_text(
                run_text.text(result, trials=trials, page=page())
            )


def _wanted(store: Store, runs: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    """(run, no members) of each matrix, (study, its runs) of each imported one."""
    studies = studying.names(store)
    folders = studying.folders(store)
    imported = {run: study for study, members in studies.items() for run in members}
    if not runs:
        newest = studying.newest(store)
        return [(newest, studies[newest])] if newest else [(judging.newest_matrix(store), [])]
    found: list[tuple[str, list[str]]] = []
    for name in runs:
        if name in studies:
            found.append((name, studies[name]))
            continue
        run = folders[name] if name in folders else judging.resolve_run(store, name)
        found.append((imported[run], [run]) if run in imported else (run, []))
    return found
