"""`stillruns run SPEC.toml` and `stillruns run -- COMMAND...`."""

from __future__ import annotations

from pathlib import Path

import click

from stillruns.cli.options import common
from stillruns.cli.output import emit_json, emit_text
from stillruns.cli.progress import progress
from stillruns.errors import ExitCode, UsageError
from stillruns.lab import once, preparing, running, spec_file
from stillruns.model.run_result import RunResult
from stillruns.report import once_text, run_json, run_text
from stillruns.store.opening import open_store

FAIL_ON = {"crash", "void", "wrong", "refuted"}
CRASHES = {"crash", "abort", "oom", "device_lost", "hang", "error", "not_ready"}
"""What `--fail-on crash` means: every end but a clean one and a wrong output."""


class RunCommand(click.Command):
    """Remembers whether `--` was given: after it comes the user's own command, untouched."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Cut the user's command off before click sees its options."""
        if "--" in args:
            place = args.index("--")
            ctx.meta["stillruns.command"] = tuple(args[place + 1 :])
            args = args[:place]
        return super().parse_args(ctx, args)


@click.command(cls=RunCommand)
@click.argument("spec", required=False, type=click.Path(path_type=Path))
@click.option("--new", is_flag=True, help="Start a new run even where an unfinished one could go on.")
@click.option(
    "--fail-on", default="", help="Exit 1 on any of: crash, void, wrong, refuted (comma-separated), for CI."
)
@click.option("--keep-running", is_flag=True, help="With a command: let the server serve until Ctrl-C.")
@click.option("--as-is", is_flag=True, help="With a command: add nothing to its environment, send it no request.")
@common
@click.pass_context
def command(
    ctx: click.Context,
    spec: Path | None,
    new: bool,
    fail_on: str,
    keep_running: bool,
    as_is: bool,
    as_json: bool,
    store_dir: Path | None,
) -> None:
    """Run SPEC.toml's matrix of trials, or one command of your own under supervision.

    \b
    stillruns run spec.toml
    stillruns run -- llama-server -m model.gguf -ngl 99
    """
    wanted = {word.strip() for word in fail_on.split(",") if word.strip()}
    if wanted - FAIL_ON:
        raise UsageError(f"--fail-on knows {', '.join(sorted(FAIL_ON))}; not {', '.join(sorted(wanted - FAIL_ON))}")
    argv: tuple[str, ...] | None = ctx.meta.get("stillruns.command")
    if argv is not None:
        if spec is not None:
            raise UsageError("give either a spec, or -- and a command; not both")
        if not argv:
            raise UsageError("no command after --; for example: stillruns run -- llama-server -m model.gguf -ngl 99")
        store = open_store(store_dir)
        result = once.run(argv, store, keep_running=keep_running, as_is=as_is)
        emit_json(once_text.document(result)) if as_json else emit_text(once_text.markdown(result))
        ctx.exit(ExitCode.NO if wanted & once_text.marks(result) else ExitCode.COMPLETE)
    if spec is None:
        raise UsageError("give a spec (stillruns run spec.toml) or a command (stillruns run -- llama-server ...)")
    asked = spec_file.load(spec)
    store = open_store(store_dir)
    with progress() as shown:
        matrix = running.run(preparing.prepare(asked, store, shown), store, shown, new=new)
    emit_json(run_json.document(matrix)) if as_json else emit_text(run_text.text(matrix))
    ctx.exit(exit_code(matrix, wanted))


def exit_code(result: RunResult, wanted: set[str]) -> ExitCode:
    """0 when every cell is decided; 1 when one is void or undecided, or shows what `--fail-on` names."""
    undecided = any(not c.applied and not c.unverified for c in result.cells)
    if undecided or not result.complete or any(w.kind == "not tested" for w in result.warnings):
        return ExitCode.NO
    return ExitCode.NO if wanted & marks(result) else ExitCode.COMPLETE


def marks(result: RunResult) -> set[str]:
    """Which of `--fail-on`'s words a run earns."""
    earned = set()
    for cell in result.cells:
        if CRASHES & set(cell.outcomes):
            earned.add("crash")
        if cell.void:
            earned.add("void")
        if "wrong_output" in cell.outcomes:
            earned.add("wrong")
    return earned
