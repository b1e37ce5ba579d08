"""`stillruns check`: which layer stops this GPU."""

from __future__ import annotations

from pathlib import Path

import click

from stillruns.cli.options import common
from stillruns.cli.output import emit_json, emit_text, page, tell
from stillruns.errors import ExitCode, UsageError
from stillruns.lab import checking
from stillruns.lab.machines import machine
from stillruns.model.gate import GateMatrix, PathStatus
from stillruns.report import builds_text, gates_json, gates_text
from stillruns.store.opening import default_path, open_store
from stillruns.store.store import Store


@click.command()
@click.option("--target", default="", help="Judge this GPU target, in the machine or not (gfx906, sm_61).")
@click.option(
    "--sysroot", type=click.Path(path_type=Path), default=None, help="A folder or snapshot to judge instead."
)
@click.option("--source", "sources", multiple=True, metavar="NAME=PATH[@REV]", help="A runtime's source tree.")
@click.option("--runtime", "runtimes", multiple=True, metavar="DIR", help="A folder with a runtime's libraries.")
@click.option(
    "--model", type=click.Path(path_type=Path), default=None, help="A GGUF file: does it need what is missing?"
)
@click.option("--no-exec", is_flag=True, help="Read files only: run no tool and no backend.")
@click.option("--builds", is_flag=True, help="List released runtimes and packages that still carry the target.")
@click.option("--evidence", is_flag=True, help="Show the place of every fact.")
@common
def command(
    target: str, sysroot: Path | None, sources: tuple[str, ...], runtimes: tuple[str, ...], model: Path | None,
    no_exec: bool, builds: bool, evidence: bool, as_json: bool, store_dir: Path | None,
) -> None:  # fmt: skip
    """Print the gate matrix: a row a layer, a column a path; then what stops each path, and advice.

    Read it from its end: `why was my GPU skipped?` and `advice`. Needs no root and no GPU. Exit code 0: at least one
    path is open; 1: none is.
    """
    if builds:
        _builds(target, as_json)
        return
    asked = machine.CheckRequest(runtimes, machine.parse_sources(sources, Path.is_dir), model)
    found = checking.start(sysroot, target, asked, run_tools=not no_exec, store=_store(store_dir))
    live = found.machine.live and not no_exec
    matrix = found.matrix
    if not as_json:
        emit_text(gates_text.text(matrix, evidence=evidence, page=page()))
    if live:
        before = matrix
        matrix = found.execute(checking.environ())
        if not as_json:
            _news(before, matrix)
    if as_json:
        emit_json(gates_json.document(matrix))
    for fault in found.faults:
        tell(fault.strip().splitlines()[-1])
    opened = any(path.status is PathStatus.OPEN for path in matrix.paths)
    click.get_current_context().exit(ExitCode.COMPLETE if opened else ExitCode.NO)


def _store(store_dir: Path | None) -> Store | None:
    """The store for what runs showed; a missing one is none, and none is made. An empty folder is none either, unless
    it was named: then somebody believes that there is something in it."""
    path = store_dir or default_path()
    if not path.exists() or (store_dir is None and path.is_dir() and not any(path.iterdir())):
        return None
    return open_store(store_dir, create=False)


def _news(before: GateMatrix, after: GateMatrix) -> None:
    """What running the backends added to the matrix that was printed."""
    here = page()
    lines = ["", "after running the backends' own listings"]
    known = {(g.layer, g.path, g.target, g.device): (g.status, g.reason) for g in before.gates}
    for gate in after.gates:
        if known.get((gate.layer, gate.path, gate.target, gate.device)) != (gate.status, gate.reason):
            where = f"{gate.path} {gate.device or ''}".strip()
            lines += here.line(f"{gate.layer.value} [{where}] {gate.status.value}: {gate.reason}", "  ")
    for path, old in zip(after.paths, before.paths, strict=True):
        if path.status is not old.status:
            why = "" if path.reason == path.status.value else f" ({path.reason})"
            name = " ".join(dict.fromkeys((path.path, path.target)))
            lines += here.line(f"{name}: {path.status.value}{why}", "  ")
    lines += [part for note in after.notes if note not in before.notes for part in here.line(f"note: {note}", "  ")]
    if len(lines) > 2:
        emit_text("\n".join(lines) + "\n")


def _builds(target: str, as_json: bool) -> None:
    tables = checking.catalogue()
    if target and not checking.is_amd(target):
        raise UsageError(f"--builds knows AMD's targets, such as gfx906; {target!r} is none.")
    targets = [target.partition(":")[0]] if target else checking.targets_here()
    if not targets:
        raise UsageError("there is no AMD card here whose target is known; name one: --builds --target gfx906")
    if as_json:
        emit_json(builds_text.document(tables.runtimes, tables.packages, targets))
    else:
        emit_text(builds_text.text(tables.runtimes, tables.packages, targets, page()))
