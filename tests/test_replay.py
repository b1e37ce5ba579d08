"""The promise: verdicts come from the evidence alone, the same bytes everywhere, by code that touches nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).parents[1]
STORES = Path(__file__).parent / "stores"
GOLDEN = sorted(p for p in STORES.glob("replay-v*") if p.is_dir())

PURE = """
import sys
from pathlib import Path

WATCHED = ("open", "socket.connect", "socket.bind", "subprocess.Popen", "os.system", "os.remove", "os.rename")

def watch(event, arguments):
    if event not in WATCHED:
        return
    frame = sys._getframe(1)
    while frame is not None:
        place = frame.f_code.co_filename
        if "/stillruns/" in place:
            if any(f"/stillruns/{part}/" in place for part in ("judge", "normalise", "formats", "redact")):
                print(f"{place}:{frame.f_lineno} {event} {arguments}", file=sys.stderr)
                raise SystemExit(9)
            return
        frame = frame.f_back

from stillruns.cli.group import run
import stillruns.cli.replay
sys.addaudithook(watch)
sys.argv = ["stillruns", "replay", "--json", "--verdicts", "--store", sys.argv[1]]
run()
"""


def replay(store: Path, *words: str, seed: str = "0", pure: bool = False) -> subprocess.CompletedProcess[str]:
    """`stillruns replay --json`, with another order of hashes, another time zone and another home."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo", "HOME": "/"}
    words = (str(store), *words)
    program = [sys.executable, *(("-c", PURE) if pure else ("-m", "stillruns", "replay", "--json", "--store"))]
    return subprocess.run([*program, *words], capture_output=True, text=True, env=env, check=False)


@pytest.fixture()
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy: reading writes an index beside the store."""
    place = tmp_path / "store"
    shutil.copytree(request.param, place)
    return place


@pytest.mark.parametrize("golden", GOLDEN, indirect=True, ids=lambda p: p.name)
def test_golden_store(golden: Path, request: pytest.FixtureRequest) -> None:
    """Every verdict of the store is what it was where it was written, byte for byte."""
    expected = (STORES / f"{request.node.callspec.params['golden'].name}.expect.json").read_text(encoding="utf-8")
    for seed in ("1", "2"):
        ended = replay(golden, "--verdicts", seed=seed)
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout == expected
    schema = json.loads((ROOT / "docs/schemas/replay.json").read_text())
    jsonschema.validate(json.loads(expected), schema)


@pytest.mark.parametrize("golden", GOLDEN, indirect=True, ids=lambda p: p.name)
def test_judging_touches_nothing(golden: Path) -> None:
    """No file, process or socket is opened by code of judge, normalise, formats or redact."""
    ended = replay(golden, pure=True)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["runs"]


@pytest.mark.parametrize("golden", GOLDEN[:1], indirect=True, ids=lambda p: p.name)
def test_a_difference_is_said(golden: Path, tmp_path: Path) -> None:
    """Against a document with another digest the answer is no, with the run named."""
    document = json.loads(replay(golden).stdout)
    document["runs"][0]["sha256"] = "sha256:" + "0" * 64
    other = tmp_path / "other.json"
    other.write_text(json.dumps(document))
    ended = replay(golden, "--against", str(other))
    assert ended.returncode == 1
    assert json.loads(ended.stdout)["runs"][0]["verdict"] == "differs"
    other.write_text("[]")
    assert replay(golden, "--against", str(other)).returncode == 2
