"""`stillruns workarounds`: what the ids in advice mean."""

from __future__ import annotations

from pathlib import Path

import click

from stillruns.cli.options import common
from stillruns.cli.output import emit_json, emit_text, page
from stillruns.lab import workarounds
from stillruns.report import workarounds_text


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--target", default="", help="Only those that fit this GPU target (gfx906, sm_61).")
@common
def command(ids: tuple[str, ...], target: str, as_json: bool, store_dir: Path | None) -> None:
    """What to change, how to see that it took effect, how to undo it, its risk and its source.

    Without an ID: the list of all. The smallest change comes first; where several are for the same obstacle, one of
    them is enough.
    """
    del store_dir
    found = workarounds.find(ids, target)
    if as_json:
        emit_json(workarounds_text.document(found))
    elif ids:
        emit_text(workarounds_text.full(found, page()))
    else:
        emit_text(workarounds_text.listing(found, page()))
