"""`stillruns selftest`: the fault matrix on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from stillruns.cli.options import common
from stillruns.cli.output import emit_json, emit_text, page
from stillruns.cli.progress import progress
from stillruns.errors import ExitCode, Interrupted
from stillruns.lab import selftest
from stillruns.model.backend import Backend
from stillruns.report import selftest_text
from stillruns.store.opening import open_store


@click.command()
@click.option(
    "--backend",
    type=click.Choice(["cpu", "vulkan", "cuda", "rocm"]),
    default="cpu",
    show_default=True,
    help="Where the model runs while the fault strikes.",
)
@click.option("--kind", "kinds", multiple=True, help="Only faults of this kind (segv, hang, oom, ...); repeatable.")
@click.option("--phase", "phases", multiple=True, help="Only faults in this phase (load, decode, ...); repeatable.")
@click.option("--markdown", is_flag=True, help="The table of docs/fault-matrix.md.")
@common
def command(
    backend: str,
    kinds: tuple[str, ...],
    phases: tuple[str, ...],
    markdown: bool,
    as_json: bool,
    store_dir: Path | None,
) -> None:
    """Make a real llama-server die in every way and phase, and check that each is recognised for what it is.

    Needs a C compiler (apt-get install gcc libc6-dev). All faults take a few minutes, --kind segv takes seconds. Exit
    0 when all are recognised, 1 otherwise.
    """
    store = open_store(store_dir)
    with progress() as shown:
        result = selftest.run(store, shown, backend=Backend(backend), kinds=kinds, phases=phases)
    if as_json:
        emit_json(selftest_text.document(result))
    else:
        emit_text(selftest_text.markdown(result) if markdown else selftest_text.text(result, page()))
    if result.stopped:
        raise Interrupted(result.stopped)
    click.get_current_context().exit(ExitCode.COMPLETE if all(r.right for r in result.results) else ExitCode.NO)
