"""`stillruns trace OPTION --source NAME=PATH[@REV]...`: follow an option through source trees, stage by stage."""

from __future__ import annotations

from pathlib import Path

import click

from stillruns.cli.late import load
from stillruns.cli.options import common


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("option")
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="NAME=PATH[@REV]",
    help="A source tree, or a revision of a git repository; several make one program. Default: the current folder.",
)
@click.option(
    "--diff",
    "revisions",
    nargs=2,
    default=None,
    metavar="OLD NEW",
    help="Compare two revisions of the sources that are given without @REV.",
)
@common
@click.pass_context
def command(
    ctx: click.Context,
    option: str,
    sources: tuple[str, ...],
    revisions: tuple[str, str] | None,
    as_json: bool,
    store_dir: Path | None,
) -> None:
    """Follow OPTION (a JSON key, flag, environment variable, CMake option or C field) to where it takes effect.

    Exit code 0 when the option is found, 1 when no tree knows it.
    """
    ctx.exit(load("trace_job").trace(option, sources or (".",), revisions, as_json=as_json, store_dir=store_dir))
