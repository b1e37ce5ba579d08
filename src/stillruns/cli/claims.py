"""`stillruns claims [RUN...]`: hypotheses after their trials."""

from __future__ import annotations

from pathlib import Path

import click

from stillruns.cli.late import load
from stillruns.cli.options import common


@click.command()
@click.argument("runs", nargs=-1)
@click.option(
    "--hypotheses",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A file with [[hypothesis]] tables, or a spec: judged beside the runs' own; one of the same id replaces it.",
)
@click.option("--library", "names", multiple=True, help="A hypothesis of the library, by name (or `all`).")
@click.option("--list", "list_library", is_flag=True, help="List the library and stop.")
@click.option("--together", is_flag=True, help="Judge the cells of all RUNs as one set.")
@click.option("--fail-on", default="", help="Exit 1 when a claim is any of these verdicts (comma-separated), for CI.")
@common
@click.pass_context
def command(
    ctx: click.Context,
    runs: tuple[str, ...],
    files: tuple[Path, ...],
    names: tuple[str, ...],
    list_library: bool,
    together: bool,
    fail_on: str,
    as_json: bool,
    store_dir: Path | None,
) -> None:
    """Print what the trials say about each hypothesis of RUN (all runs when none is given)."""
    job = load("claims_job")
    if list_library:
        job.print_library(as_json=as_json)
        return
    ctx.exit(job.run(runs, files, names, together=together, fail_on=fail_on, as_json=as_json, store_dir=store_dir))
