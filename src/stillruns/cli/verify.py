"""`stillruns verify`: re-derive every digest in the store."""

from __future__ import annotations

import json
from pathlib import Path

import click

from stillruns.cli.options import common
from stillruns.cli.output import emit_text, page
from stillruns.errors import ExitCode
from stillruns.report.columns import PLAIN, Page
from stillruns.store.opening import default_path
from stillruns.store.verify import Problem, Verification, verify

SCHEMA = "stillruns.verify/1"


@click.command("verify")
@common
def command(as_json: bool, store_dir: Path | None) -> int:
    """Re-derive every digest in the store and name what does not match.

    Reads only. Exit code 0: everything matches; 1: something does not, each on one line of its own.
    """
    path = store_dir or default_path()
    found = verify(path)
    if as_json:
        emit_text(json.dumps(document(path, found), indent=2))
    else:
        emit_text(text(path, found, page()))
    return ExitCode.COMPLETE if found.ok else ExitCode.NO


def document(path: Path, found: Verification) -> dict[str, object]:
    """The JSON document of `verify --json` (docs/schemas/verify.json)."""
    return {
        "schema": SCHEMA,
        "store": str(path),
        "ok": found.ok,
        "records": found.records,
        "journals": found.journals,
        "blobs": found.blobs,
        "problems": [{"where": p.where, "what": p.what} for p in found.problems],
        "notes": [{"where": p.where, "what": p.what} for p in found.notes],
    }


def _line(label: str, problem: Problem) -> str:
    return f"{label}: {problem.where}: {problem.what}"


def text(path: Path, found: Verification, page: Page = PLAIN) -> str:
    """The same for a person: one line each, the counts at the end."""
    lines = [_line("does not match", problem) for problem in found.problems]
    lines += [_line("note", note) for note in found.notes]
    counts = f"{found.records} records in {found.journals} journal files, {found.blobs} blobs"
    if found.ok:
        lines.append(f"{path}: everything matches: {counts}.")
    else:
        lines.append(f"{path}: {len(found.problems)} do not match; right are {counts}.")
    return "\n".join(part for line in lines for part in page.line(line, "", "  "))
