"""The promise: `stillruns show` quotes the lines that a verdict rests on, and reads a log once to find them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stillruns.lab import showing
from stillruns.lab.runs import reading
from stillruns.store.opening import open_store
from stillruns.store.view import decode_trial

TESTS = Path(__file__).parents[1]

COUNTED = """
import sys

opened = []

def watch(event, arguments):
    if event == "open" and "/blobs/sha256/" in str(arguments[0]):
        opened.append(str(arguments[0]))

from stillruns.cli.group import run
import atexit
import stillruns.cli.show
atexit.register(lambda: print(*opened, sep="\\n", file=sys.stderr))
sys.addaudithook(watch)
sys.argv = ["stillruns", "show", sys.argv[2], "--json", "--store", sys.argv[1]]
run()
"""


@pytest.fixture()
def golden(tmp_path: Path) -> Path:
    """A copy of the golden store that holds every form of run: reading writes an index beside it."""
    place = tmp_path / "store"
    shutil.copytree(TESTS / "stores" / "replay-v1-forms", place)
    return place


def supervised(store: Path) -> str:
    """The trial of its supervised command."""
    opened = open_store(store, create=False)
    run = next(r.run for r in opened.records(kind="run_started") if r.body.get("form") == "once")
    return next(str(r.body["trial"]) for r in opened.records(run=run, kind="trial_ended"))


def shown(store: Path, trial: str) -> tuple[dict[str, Any], list[str]]:
    """The document of `stillruns show`, and each blob that was opened for it, as often as it was."""
    env = {"PATH": os.defpath, "PYTHONPATH": str(TESTS.parent / "src")}
    ended = subprocess.run(
        [sys.executable, "-c", COUNTED, str(store), trial], capture_output=True, text=True, env=env, check=True
    )
    return json.loads(ended.stdout), ended.stderr.splitlines()


def test_a_supervised_command_is_read_once(golden: Path) -> None:
    """Each source of its evidence is opened at most once, the log exactly once."""
    trial = supervised(golden)
    document, opened = shown(golden, trial)
    record = decode_trial(document["record"])
    log = reading.log_of(record)
    assert log is not None and opened.count(document["files"][log.id]) == 1
    assert len(opened) == len(set(opened))


def test_lines_are_those_of_the_evidence(golden: Path) -> None:
    """What is quoted for a supervised command is what a look into its evidence gives, in the order of the verdict."""
    store = open_store(golden, create=False)
    found = showing.find(store, supervised(golden))
    refs = [ref for ref in (found.verdict.outcome.key_line, *found.verdict.outcome.refs) if ref]
    refs += [ref for factor in found.verdict.applied.factors.values() for ref in factor.refs]
    assert found.excerpts and list(found.excerpts) == list(dict.fromkeys(refs))
    assert found.excerpts == reading.excerpts(store, found.record, found.excerpts)
