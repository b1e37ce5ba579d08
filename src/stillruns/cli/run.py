"""`stillruns run SPEC.toml` and `stillruns run -- COMMAND...`: the arguments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from stillruns.cli.late import load
from stillruns.cli.options import common
from stillruns.errors import UsageError
from stillruns.model.hint import hint

FAIL_ON = {"crash", "void", "wrong", "refuted"}


class RunCommand(click.Command):
    """Remembers whether `--` was given: after it comes the user's own command, untouched."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Cut the user's command off before click sees its options."""
        if "--" in args:
            place = args.index("--")
            ctx.meta["stillruns.command"] = tuple(args[place + 1 :])
            args = args[:place]
        try:
            return super().parse_args(ctx, list(args))
        except click.UsageError as error:
            if args and not args[0].startswith("-") and not args[0].endswith(".toml"):
                raise UsageError(forgotten(args)) from error
            raise


def forgotten(words: Sequence[str]) -> str:
    """One sentence for a command of the user's own that was given without `--`."""
    return f"put -- before a command of your own: {hint('run', '--', *words)}"


@click.command(cls=RunCommand)
@click.argument("spec", required=False, type=click.Path(path_type=Path))
@click.option("--new", is_flag=True, help="Start a new run even where an unfinished one could go on.")
@click.option(
    "--fail-on", default="", help="Exit 1 on any of: crash, void, wrong, refuted (comma-separated), for CI."
)
@click.option("--plan", "plan_only", is_flag=True, help="Print what SPEC would run and could show; start nothing.")
@click.option(
    "--trials-for", metavar="LOW,HIGH", help="How many trials tell two failure rates apart: 5%,50% or 5%,50%,1%."
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
    plan_only: bool,
    trials_for: str | None,
    keep_running: bool,
    as_is: bool,
    as_json: bool,
    store_dir: Path | None,
) -> None:
    """Run your own command once under supervision, or the experiment that SPEC.toml describes.

    \b
    stillruns run -- llama-server -m model.gguf -ngl 99
    stillruns run spec.toml
    stillruns run spec.toml --plan

    A spec's run that was interrupted goes on when the same command is given again; docs/spec.md has every field.

    Exit 0 when the command was run, or every cell of the spec was decided, whatever it shows; 1 when a cell was not
    decided, or on what --fail-on names.
    """
    wanted = {word.strip() for word in fail_on.split(",") if word.strip()}
    if wanted - FAIL_ON:
        raise UsageError(f"--fail-on knows {', '.join(sorted(FAIL_ON))}; not {', '.join(sorted(wanted - FAIL_ON))}")
    argv: tuple[str, ...] | None = ctx.meta.get("stillruns.command")
    if trials_for is not None:
        if spec is not None or argv is not None:
            raise UsageError("--trials-for stands alone; a spec's own question is printed by --plan")
        load("plan_job").trials_for(trials_for, as_json=as_json)
        return
    if plan_only and spec is None:
        raise UsageError("--plan needs a spec: stillruns run spec.toml --plan")
    if argv is None and spec is None:
        raise UsageError("give a spec (stillruns run spec.toml) or a command (stillruns run -- llama-server ...)")
    if argv is not None and spec is not None:
        raise UsageError("give either a spec, or -- and a command; not both")
    if spec is not None and not spec.exists() and spec.suffix != ".toml":
        raise UsageError(f"there is no spec {spec}; {forgotten([str(spec)])} ...")
    if argv is not None and not argv:
        raise UsageError("no command after --; for example: stillruns run -- llama-server -m model.gguf -ngl 99")
    if plan_only:
        load("plan_job").plan(spec, as_json=as_json)
        return
    job = load("run_job")
    if argv is None:
        ctx.exit(job.matrix(spec, wanted, new=new, as_json=as_json, store_dir=store_dir))
    ctx.exit(
        job.command_once(argv, wanted, keep_running=keep_running, as_is=as_is, as_json=as_json, store_dir=store_dir)
    )
