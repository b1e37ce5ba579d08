"""The promise: a reference is measured once for what it is a reference of, and never taken for that of another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from real_parts import llama_server

ROOT = Path(__file__).parents[3]
SPEC = """
[experiment]
name = "moved"
model = "synth:llama?layers=4"
predict = 8
context = 256
[[backend]]
id = "cpu"
[matrix]
gpu_layers = [0]
[stop]
trials = 1
"""


@pytest.mark.engine()
def test_the_same_program_in_another_place(tmp_path: Path) -> None:
    """A checkout that was moved, or a second one, brings the same server under another path: its reference is
    measured anew and counts, and on the next run it is taken over."""
    server = llama_server()
    assert server is not None
    (tmp_path / "spec.toml").write_text(SPEC)
    reused = []
    for place in ("here", "there", "there"):
        folder = tmp_path / place
        if not folder.exists():
            folder.symlink_to(Path(server).absolute().parent)
        argv = [sys.executable, "-m", "stillruns", "run", "--new", "--json", "--store", str(tmp_path / "store")]
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        env |= {"STILLRUNS_LLAMA_SERVER": str(folder / Path(server).name), "LD_LIBRARY_PATH": str(folder)}
        done = subprocess.run(
            [*argv, str(tmp_path / "spec.toml")], env=env, capture_output=True, text=True, timeout=200, check=False
        )
        assert done.returncode == 0, done.stderr
        cells = json.loads(done.stdout)["cells"]
        assert {(c["note"].split(";")[0], c["passed"], c["void"]) for c in cells} == {("reference", 2, 0), ("", 1, 0)}
        assert [c["output"] for c in cells] == ["reference", "same"]
        journals = (tmp_path / "store" / "journal").glob("*.jsonl")
        reused.append(sum(journal.read_text().count('"reference_reused"') for journal in journals))
    assert reused == [0, 0, 2]
