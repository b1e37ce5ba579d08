"""The promise: a store whose trials were made in several boots gives intervals that know it, or says what it lacks.

A golden store's own matrix, written again record by record with other boot ids: all else is what a real server did.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from program import ROOT, stillruns
from stillruns.lab import claiming
from stillruns.lab.runs import judging
from stillruns.report import claims_json, claims_text, run_json, run_text
from stillruns.store.opening import open_store

GOLDEN = ROOT / "tests" / "stores" / "replay-v1-forms"


def rebooted(place: Path, boot: Callable[[int, str], str]) -> tuple[Path, str]:
    """The first matrix of the golden store in a new store, each trial in the boot that `boot(number, cell)` names."""
    old = place / "old"
    shutil.copytree(GOLDEN, old)
    with open_store(old, create=False) as store, open_store(place / "new") as new:
        run = claiming.matrices(store)[0]
        shutil.copytree(old / "blobs", place / "new" / "blobs", dirs_exist_ok=True)
        with new.writer() as writer:
            for number, record in enumerate(store.records(run=run)):
                body: dict[str, Any] = json.loads(json.dumps(record.body))
                if record.kind == "trial_ended":
                    body["record"]["boot_id"] = boot(number, body["record"]["cell"])
                writer.append(record.kind, record.run, body)
    return place / "new", run


def judged(store_dir: Path, run: str) -> tuple[dict[str, Any], str, dict[str, Any], str]:
    """(run --json, run as text, claims --json, claims as text), each of which its schema accepts."""
    with open_store(store_dir, create=False) as store:
        result = judging.judge_run(store, run)
        claims = [(run, claim) for claim in claiming.of_run(store, run).claims]
    documents = [json.loads(json.dumps(d)) for d in (run_json.document(result), claims_json.document(claims))]
    for document, name in zip(documents, ("run", "claims"), strict=True):
        jsonschema.validate(document, json.loads((ROOT / "docs" / "schemas" / f"{name}.json").read_text()))
    return documents[0], run_text.text(result), documents[1], claims_text.text(claims)


def test_one_boot_is_said(tmp_path: Path) -> None:
    """All trials in one boot: a warning in text and JSON, and intervals as they were."""
    run, text, claims, claims_as_text = judged(*rebooted(tmp_path, lambda number, cell: "boot-1"))
    warned = [w["text"] for w in run["warnings"] if w["kind"] == "block"]
    assert any("made in one boot of the machine" in sentence for sentence in warned)
    assert "block: all " in text
    assert any("made in one boot of the machine" in w for claim in claims["claims"] for w in claim["warnings"])
    assert "made in one boot of the machine" in claims_as_text
    assert {c["rate"]["method"] for c in run["cells"] if c["rate"]} == {"fixed-n"}
    blocks = [b for claim in claims["claims"] for b in claim["blocks"]]
    assert blocks
    assert {(b["boots"], b["processes"] == b["applied"]) for b in blocks} == {(1, True)}


def test_several_boots_widen_and_are_counted(tmp_path: Path) -> None:
    """Trials in turn over three boots: no such warning, the method names the blocks, no interval is narrower."""
    before, *_ = judged(*rebooted(tmp_path / "one", lambda number, cell: "boot-1"))
    run, text, claims, _ = judged(*rebooted(tmp_path / "three", lambda number, cell: f"boot-{number % 3}"))
    assert "made in one boot of the machine" not in text
    rates = [c["rate"] for c in run["cells"] if c["rate"]]
    assert any(rate["method"] == "fixed-n, by block" for rate in rates)
    for old, new in zip((c["rate"] for c in before["cells"] if c["rate"]), rates, strict=True):
        assert (new["failures"], new["n"]) == (old["failures"], old["n"])
        assert new["low"] <= old["low"] <= old["high"] <= new["high"]
    assert max(b["boots"] for claim in claims["claims"] for b in claim["blocks"]) > 1


def test_a_boot_of_its_own_confounds(tmp_path: Path) -> None:
    """The side with the fault in one boot and the other in another: the boot differs too, and the claim says so."""
    _, _, claims, _ = judged(
        *rebooted(tmp_path, lambda number, cell: "boot-1" if "backend=vulkan-dies" in cell else "boot-2")
    )
    found = next(claim for claim in claims["claims"] if claim["id"] == "H1")
    assert any(text.startswith("boot: ") for text in found["differs_in"])
    assert found["verdict"] in ("confounded", "inconclusive")


def test_a_driver_is_that_of_the_boot_it_was_read_in(tmp_path: Path) -> None:
    """In the run's own boot the driver is named; after another boot it may be another, and is not."""
    with open_store(shutil.copytree(GOLDEN, tmp_path / "own"), create=False) as store:
        run = claiming.matrices(store)[0]
        (own,) = [c for c in claiming.of_run(store, run).claims if c.id == "H1"]
    assert own.driver == "llvmpipe"
    _, _, claims, _ = judged(*rebooted(tmp_path, lambda number, cell: f"boot-{number % 2}"))
    (other,) = [c for c in claims["claims"] if c["id"] == "H1"]
    assert other["driver"] is None
    assert other["scope"].endswith("driver not recorded")


def test_boots_that_are_not_on_record(tmp_path: Path) -> None:
    """Without boot ids nothing is claimed of them."""
    _, _, claims, text = judged(*rebooted(tmp_path, lambda number, cell: ""))
    assert "have no boot on record: they may all be of one" in text
    assert {b["boots"] for claim in claims["claims"] for b in claim["blocks"]} == {None}


@pytest.mark.parametrize("words", [["report"], ["claims"]])
def test_the_command_line_says_it(tmp_path: Path, words: list[str]) -> None:
    """`stillruns report` and `claims` print the warning."""
    store, run = rebooted(tmp_path, lambda number, cell: "boot-1")
    done = stillruns(*words, run, "--store", store)
    assert done.returncode == 0, done.stderr
    assert "made in one boot of the machine" in done.stdout
