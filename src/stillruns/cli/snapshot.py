"""`stillruns snapshot`: pack what `check` reads, to be judged elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from stillruns.cli.options import common
from stillruns.cli.output import emit_json, emit_text, tell
from stillruns.lab import packing
from stillruns.lab.machines import machine
from stillruns.model.hint import hint


@click.command()
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--sysroot", type=click.Path(file_okay=False, path_type=Path), default=None, help="Pack this folder instead."
)
@click.option("--runtime", "runtimes", multiple=True, metavar="DIR", help="A folder with a runtime's libraries.")
@click.option("--no-exec", is_flag=True, help="Read files only: run no tool.")
@common
def command(
    out: Path, sysroot: Path | None, runtimes: tuple[str, ...], no_exec: bool, as_json: bool, store_dir: Path | None
) -> None:
    """Write OUT (a .tar.zst): every answer that this machine's files give to `check`, redacted.

    Judge it anywhere with: stillruns check --sysroot OUT
    """
    del store_dir
    made = packing.make(out, sysroot, machine.CheckRequest(runtimes), run_tools=not no_exec)
    if as_json:
        emit_json(
            {"schema": "stillruns.snapshot/1", "path": str(made.path), "bytes": made.bytes, "paths": made.paths,
             "redacted": made.redacted}
        )  # fmt: skip
    else:
        emit_text(
            f"{made.path}: {made.bytes} bytes, answers for {made.paths} paths, {made.redacted} of them redacted.\n"
            f"Judge it with: {hint('check', options=('--sysroot', str(made.path)))}"
        )
    if made.in_context:
        tell(
            f"names that are words of logs as well ({', '.join(made.in_context)}) were replaced only where the text "
            "shows a name, such as a home path: look for them in the snapshot before you send it"
        )
    for fault in made.faults:
        tell(fault.strip().splitlines()[-1])
