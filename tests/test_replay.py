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


MACHINES = {
    "tokyo": {"TZ": "Asia/Tokyo", "HOME": "/", "LANG": "ja_JP.eucJP", "PYTHONHASHSEED": "1"},
    "istanbul": {"TZ": "Europe/Istanbul", "HOME": "/nonexistent", "LC_ALL": "tr_TR.UTF-8", "PYTHONHASHSEED": "2"},
    "plain": {"PYTHONHASHSEED": "random", "LC_ALL": "C", "PYTHONUTF8": "0", "COLUMNS": "40"},
}
"""Environments with nothing of ours but these: other zones, homes, languages (a dotless i among them), hash seeds."""


def replay(
    store: Path, *words: str, machine: str = "plain", pure: bool = False, program: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    """`stillruns replay --json` with a clean environment, in a folder that is not the checkout."""
    env = {"PATH": os.defpath, "PYTHONPATH": str(ROOT / "src"), **MACHINES[machine]}
    words = (str(store), *words)
    begin = [program, *(("-c", PURE) if pure else ("-m", "stillruns", "replay", "--json", "--store"))]
    return subprocess.run(
        [*begin, *words], capture_output=True, text=True, env=env, check=False, cwd=store.parent, encoding="utf-8"
    )


NEEDED = ("sys", "click", "msgspec", "msgpack", "rich", "urllib3", "backports.zstd")


def other_pythons() -> list[str]:
    """Other interpreters of this machine, 3.10 or newer, that have what the program needs."""
    found = []
    for name in ("python3.10", "python3.12", "python3.13", "python3.14"):
        path = shutil.which(name)
        asked = [path, "-c", f"import {', '.join(NEEDED)}; sys.version_info >= (3, 11) or __import__('tomli')"]
        if path and subprocess.run(asked, capture_output=True, check=False).returncode == 0:
            found.append(path)
    return found


@pytest.fixture()
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy: reading writes an index beside the store."""
    place = tmp_path / "store"
    shutil.copytree(request.param, place)
    return place


def test_the_golden_stores_stay_as_they_are() -> None:
    """No index lies in a checkout, of this commit's or by a test's hand: each test reads a copy."""
    assert list(STORES.glob("*/index.sqlite")) == []


@pytest.mark.parametrize("golden", GOLDEN, indirect=True, ids=lambda p: p.name)
def test_golden_store(golden: Path, request: pytest.FixtureRequest) -> None:
    """Every verdict of the store is what it was where it was written, byte for byte."""
    expected = (STORES / f"{request.node.callspec.params['golden'].name}.expect.json").read_text(encoding="utf-8")
    differs = any(run["verdict"] == "differs" for run in json.loads(expected)["runs"])
    for machine in MACHINES:
        ended = replay(golden, "--verdicts", machine=machine)
        assert ended.returncode == int(differs), ended.stderr
        assert ended.stdout == expected, machine
    schema = json.loads((ROOT / "docs/schemas/replay.json").read_text())
    jsonschema.validate(json.loads(expected), schema)


@pytest.mark.parametrize("golden", GOLDEN, indirect=True, ids=lambda p: p.name)
def test_judging_touches_nothing(golden: Path) -> None:
    """No file, process or socket is opened by code of judge, normalise, formats or redact."""
    ended = replay(golden, pure=True)
    assert ended.returncode in (0, 1), ended.stderr
    assert json.loads(ended.stdout)["runs"]


@pytest.mark.parametrize("golden", GOLDEN, indirect=True, ids=lambda p: p.name)
def test_another_python(golden: Path, request: pytest.FixtureRequest) -> None:
    """The same bytes from every other interpreter that is here."""
    others = other_pythons()
    if not others:
        pytest.skip("no other Python from 3.10 on with what the program needs is on PATH")
    expected = (STORES / f"{request.node.callspec.params['golden'].name}.expect.json").read_text(encoding="utf-8")
    for program in others:
        ended = replay(golden, "--verdicts", program=program)
        assert ended.stdout == expected, program


def test_every_form_of_run_is_there() -> None:
    """The golden stores hold experiments with checks, survival and claims of each kind, void cells and crashes; an
    import, a selftest and a supervised command; and each has a digest on record."""
    runs = [
        run
        for store in GOLDEN
        for run in json.loads((STORES / f"{store.name}.expect.json").read_text(encoding="utf-8"))["runs"]
    ]
    assert {run["form"] for run in runs} == {"matrix", "worklog", "selftest", "once"}
    assert all(run["expected"] and not run["failed"] for run in runs)
    matrices = [run["verdicts"] for run in runs if run["form"] == "matrix"]
    assert any(matrix.get("checks") for matrix in matrices)
    assert any(matrix.get("survival") for matrix in matrices)
    assert any(matrix.get("log_rank") for matrix in matrices)
    cells = [cell for matrix in matrices for cell in matrix["cells"]]
    assert any(cell["void"] and not cell["applied"] for cell in cells)
    assert any("crash" in cell["outcomes"] for cell in cells)
    verdicts = {claim["verdict"] for matrix in matrices for claim in matrix["claims"]}
    assert {"refuted", "void", "confounded", "inconclusive"} <= verdicts


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
