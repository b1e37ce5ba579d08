"""`stillruns replay`: every verdict again, from the evidence."""

from __future__ import annotations

import json
from pathlib import Path

import click

from stillruns.cli.options import common
from stillruns.cli.output import emit_json, emit_text, page
from stillruns.errors import ExitCode, UsageError
from stillruns.lab import replaying
from stillruns.lab.runs import judging
from stillruns.report import replay_text
from stillruns.store.opening import open_store


@click.command()
@click.argument("runs", nargs=-1)
@click.option("--verdicts", is_flag=True, help="With --json: the verdicts themselves, not only their digests.")
@click.option(
    "--against",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="A document that replay --json printed, here or on another machine: compare with it.",
)
@common
@click.pass_context
def command(
    ctx: click.Context,
    runs: tuple[str, ...],
    verdicts: bool,
    against: Path | None,
    as_json: bool,
    store_dir: Path | None,
) -> None:
    """Judge every run of the store (or each RUN) again and compare with what was recorded when it ended.

    Exit code 1 when a verdict differs, or when a run cannot be judged.
    """
    with open_store(store_dir, create=False) as store:
        wanted = tuple(judging.resolve_run(store, name) for name in runs)
        found = replaying.replay(store, wanted)
    other = _read(against) if against else {}
    document = replay_text.document(found, other, verdicts=verdicts)
    emit_json(document) if as_json else emit_text(replay_text.text(document, page()))
    bad = any(entry["verdict"] in ("differs", "failed") for entry in document["runs"])
    ctx.exit(ExitCode.NO if bad else ExitCode.COMPLETE)


def _read(path: Path) -> dict[str, str]:
    """Run -> digest of its verdicts, from another replay's document."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {str(entry["run"]): str(entry["sha256"]) for entry in document["runs"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is no document of stillruns replay --json: {error}") from error
