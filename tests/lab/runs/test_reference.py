"""The promise: a reference is measured once for what it is a reference of, and never taken for that of another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments import small
from program import stillruns
from real_parts import llama_server


@pytest.mark.engine()
@pytest.mark.slow()
def test_the_same_program_in_another_place(tmp_path: Path) -> None:
    """A checkout that was moved, or a second one, brings the same server under another path: its reference is
    measured anew and counts, and on the next run it is taken over."""
    server = llama_server()
    assert server is not None
    spec = small(tmp_path / "spec.toml", name="moved")
    reused = []
    for place in ("here", "there", "there"):
        folder = tmp_path / place
        if not folder.exists():
            folder.symlink_to(Path(server).absolute().parent)
        words = ("run", spec, "--new", "--json", "--store", tmp_path / "store")
        done = stillruns(*words, STILLRUNS_LLAMA_SERVER=str(folder / Path(server).name), LD_LIBRARY_PATH=str(folder))
        assert done.returncode == 0, done.stderr
        cells = json.loads(done.stdout)["cells"]
        assert {(c["note"].split(";")[0], c["passed"], c["void"]) for c in cells} == {("reference", 2, 0), ("", 1, 0)}
        assert [c["output"] for c in cells] == ["reference", "same"]
        journals = (tmp_path / "store" / "journal").glob("*.jsonl")
        reused.append(sum(journal.read_text().count('"reference_reused"') for journal in journals))
    assert reused == [0, 0, 2]
