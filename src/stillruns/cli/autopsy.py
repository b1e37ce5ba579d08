"""`stillruns autopsy PATH...`: what a log shows, without having been there."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from stillruns.cli import late
from stillruns.cli.options import common
from stillruns.cli.output import emit_json, emit_text, page
from stillruns.errors import ExitCode
from stillruns.lab import autopsy
from stillruns.report import autopsy_json, autopsy_text


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@common
def command(paths: tuple[str, ...], as_json: bool, store_dir: Path | None) -> int:
    """Read logs, journals, cores and run folders: requests, applied conditions, timeline, incidents.

    PATH is a file (also .gz, .xz, .zst, .bz2), a folder, a core file, or - for standard input; a store's folder (its
    newest run), or the id of a run or trial in the store. What a folder holds besides logs (source code, prose) is
    left out; a file that is named is read. Exit code 0 whatever the log shows; nothing is written anywhere.
    """
    stored = late.load("autopsy_job").opener(store_dir) if autopsy.names_a_store(paths) else None
    found = autopsy.perform(paths, sys.stdin.buffer, stored)
    if as_json:
        emit_json(autopsy_json.document(found))
    else:
        emit_text(autopsy_text.text(found, page()))
    return int(ExitCode.COMPLETE)
