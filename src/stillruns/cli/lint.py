"""`stillruns lint [FILE...] [-- COMMAND...]`: does anything read these flags and variables, and the values given?"""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from stillruns.cli.options import common
from stillruns.cli.output import emit_text, page
from stillruns.errors import ExitCode, UsageError
from stillruns.lab.linting import Request, lint
from stillruns.model.recipe import RecipeForm
from stillruns.report.lint_json import document
from stillruns.report.lint_text import exit_is_no, text


class _Parted(click.Command):
    """Keeps what follows `--` apart from the files before it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Split at the first `--`; click would join both sides."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta["stillruns.command"] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])


@click.command(cls=_Parted, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", nargs=-1, metavar="[FILE]... [-- COMMAND...]")
@click.option(
    "--binary",
    "binaries",
    multiple=True,
    metavar="[NAME=]PATH",
    help="The program that you really run, such as llama-server=/opt/llama/bin/llama-server.",
)
@click.option(
    "--source", "sources", multiple=True, metavar="NAME=DIR[@REV]", help="A source tree to look into as well."
)
@click.option(
    "--form",
    type=click.Choice([form.value for form in RecipeForm if form is not RecipeForm.COMMAND]),
    help="How FILE is written, when its name and text do not tell.",
)
@click.option("--no-path", is_flag=True, help="Judge by the catalogue; do not ask programs that PATH has.")
@click.option("--no-config", is_flag=True, help="Leave out the config.ini files that llama.cpp reads by itself.")
@click.option("--all", "everything", is_flag=True, help="Show what is fine in full, too.")
@common
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[str, ...],
    binaries: tuple[str, ...],
    sources: tuple[str, ...],
    form: str | None,
    no_path: bool,
    no_config: bool,
    everything: bool,
    as_json: bool,
    store_dir: Path | None,
) -> int:
    """Say for each flag, variable, CMake option and program of a recipe who reads it and whether its value is taken.

    FILE is a shell script, systemd unit, Dockerfile, compose file, config.ini or Markdown page (`-`: standard input);
    COMMAND is a command line. Nothing of it is run. Of the programs named in it, those on PATH (or given with
    --binary) are asked for `--help` and `--version`.

    Exit code 0: everything is read and every value taken; 1: not so; 2: usage.
    """
    words = ctx.meta["stillruns.command"]
    if not files and not words:
        raise UsageError("nothing to lint: name a FILE, `-` for standard input, or a command after `--`")
    if files.count("-") > 1:
        raise UsageError("standard input can be read once: give `-` once")
    results = lint(
        Request(
            files=files,
            command=words,
            text=sys.stdin.buffer.read().decode("utf-8", "replace") if "-" in files else "",
            form=RecipeForm(form) if form else None,
            binaries=dict(_binary(given) for given in binaries),
            sources=tuple(_source(given) for given in sources),
            look_on_path=not no_path,
            configuration=not no_config,
        )
    )
    if as_json:
        emit_text(msgspec.json.format(msgspec.json.encode(document(results))).decode())
    else:
        emit_text(text(results, everything=everything, page=page()))
    return ExitCode.NO if exit_is_no(results) else ExitCode.COMPLETE


def _binary(given: str) -> tuple[str, Path]:
    name, equals, path = given.partition("=")
    return (name, Path(path)) if equals else (Path(given).name, Path(given))


def _source(given: str) -> tuple[str, Path, str]:
    name, equals, place = given.partition("=")
    if not equals or not name or not place:
        raise UsageError(f"--source {given}: write NAME=DIR or NAME=DIR@REV, such as llama.cpp=src/llama.cpp@b11434")
    if Path(place).is_dir() or "@" not in place:
        return name, Path(place), ""
    folder, _, rev = place.rpartition("@")
    if rev.startswith("-"):
        raise UsageError(f"--source {given}: {rev} is no revision")
    return name, Path(folder), rev
