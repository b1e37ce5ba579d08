"""`stillruns trace OPTION --source NAME=PATH[@REV]...`: follow an option through source trees, stage by stage."""

from __future__ import annotations

import json
from pathlib import Path

import click

from stillruns.cli.options import common
from stillruns.cli.output import emit_text
from stillruns.errors import ExitCode
from stillruns.lab import tracing
from stillruns.report import trace_text


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
    given = [tracing.parse_source(s) for s in sources or (".",)]
    if revisions:
        old, new = tracing.diff(option, given, *revisions, store_dir)
        if as_json:
            emit_text(json.dumps(trace_text.compare(old, new), indent=1))
        else:
            emit_text(trace_text.compare_text(old, new))
        ctx.exit(ExitCode.COMPLETE if old.found or new.found else ExitCode.NO)
    found = tracing.trace(option, given, store_dir)
    if as_json:
        emit_text(json.dumps(trace_text.document(found), indent=1))
    else:
        emit_text(trace_text.text(found))
    ctx.exit(ExitCode.COMPLETE if found.found else ExitCode.NO)
