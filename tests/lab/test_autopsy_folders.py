"""The promise: a run folder is read like any log, be it a foreign worklog's or a run in our own store."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path

import pytest

from stillruns.errors import StoreError, UsageError
from stillruns.lab import autopsy, once
from stillruns.lab.runs import stored_logs
from stillruns.model.applied import Answer
from stillruns.model.autopsy import Autopsy
from stillruns.model.backend import Backend, Runtime
from stillruns.model.outcome import OutcomeKind
from stillruns.model.phase import Phase
from stillruns.store.opening import open_store

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("STILLRUNS_SHARED", ROOT.parent / "shared"))
GOLDEN = ROOT / "tests" / "stores" / "replay-v1"
JOURNAL = """\
Mar 07 01:31:30 host ollama[1416]: time=2026-03-07T01:31:30.000+09:00 level=INFO source=server.go:431 \
msg="starting runner" cmd="/bin/ollama runner --ollama-engine --model /m/b --port 40001"
Mar 07 01:31:31 host ollama[1416]: time=2026-03-07T01:31:31.000+09:00 level=INFO source=device.go:240 \
msg="model weights" device=Vulkan0 size="53.1 MiB"
Mar 07 01:31:32 host ollama[1416]: time=2026-03-07T01:31:32.000+09:00 level=INFO source=server.go:1388 \
msg="llama runner started in 1.67 seconds"
Mar 07 01:31:33 host ollama[1416]: SIGSEGV: segmentation violation
Mar 07 01:31:34 host ollama[1416]: time=2026-03-07T01:31:34.000+09:00 level=ERROR source=server.go:1610 \
msg="post predict" error="Post \\"http://127.0.0.1:40001/completion\\": EOF"
"""


def read(path: str, store: Path | None = None) -> Autopsy:
    """As the verb does it."""
    stored = stored_logs.opener(store) if autopsy.names_a_store((path,)) else None
    return autopsy.perform((path,), io.BytesIO(), stored)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A copy of a store: reading writes an index into it."""
    return shutil.copytree(GOLDEN, tmp_path / "stored")


def test_a_store_s_newest_run(stored: Path) -> None:
    """Nine trials of a real run: each log is a server, and the layers that each command asked for are known."""
    found = read(str(stored))
    assert (len(found.servers), found.incidents) == (9, ())
    assert {s.runtime for s in found.servers} == {Runtime.LLAMA_CPP}
    assert [s.id for s in found.servers] == [f"srv{n}" for n in range(9)]
    asked = {s.name.rsplit(".", 1)[1]: s.runners[0].requested_layers for s in found.servers}
    assert (asked["0005"], asked["0006"]) == (1, 0)
    fallen = next(s for s in found.servers if s.name.endswith("0005"))
    assert fallen.runners[0].backend is Backend.CPU
    assert [r.applied for r in fallen.requests] == [Answer.NO]
    logs = [s for s in found.sources if not s.path.endswith(" record")]
    assert len(logs) == len(found.sources) - len(logs) == 9


def test_one_run_and_one_trial_by_id(tmp_path: Path, stored: Path) -> None:
    """A run's or a trial's id names what to read in the store; one that is not there is said to be missing."""
    run = read(str(stored)).servers[0].name.split(".", 1)[0]
    assert len(read(run, stored).servers) == 9
    (one,) = read(f"{run}.0003", stored).servers
    assert one.name == f"{run}.0003"
    with pytest.raises(UsageError, match="no trial of"):
        read(f"{run}.0999", stored)
    with pytest.raises(StoreError, match="no store at"):
        read(run, tmp_path / "nowhere")


@pytest.mark.parametrize(("said", "key"), [("echo loading; ", "loading"), ("", "the harness's record: SIGSEGV")])
def test_a_death_that_only_the_harness_saw(tmp_path: Path, said: str, key: str) -> None:
    """The log says nothing of the signal, or is empty: the trial's record is evidence beside it, phase unknown."""
    with open_store(tmp_path / "store") as store:
        seen = once.run(("sh", "-c", f"{said}kill -SEGV $$"), store, lambda text: None)
    (found,) = read(seen.run, tmp_path / "store").incidents
    assert (found.outcome, found.signal, found.phase) == (OutcomeKind.CRASH, "SIGSEGV", Phase.UNKNOWN)
    assert "phase" in dict(found.why_unknown)
    assert found.key_line is not None and found.key_line.text.startswith(key)
    assert any("the harness's record: SIGSEGV in an unknown phase" in e.text for e in found.evidence)


def test_a_clean_end_is_none(tmp_path: Path) -> None:
    """A command that ends well has no incident."""
    with open_store(tmp_path / "store") as store:
        once.run(("sh", "-c", "echo fine"), store, lambda text: None)
    assert read(str(tmp_path / "store")).incidents == ()


def test_a_foreign_run_folder() -> None:
    """Journals and probes of a worklog are read, its JSON documents are named and passed over."""
    folder = ROOT / "tests" / "golden" / "worklog" / "run_a"
    found = read(str(folder))
    assert not any(s.path.endswith(".json") for s in found.sources)
    assert any("stillruns import" in note.text for note in found.warnings if note.kind == "input")
    assert any(s.runtime is Runtime.OLLAMA and s.requests for s in found.servers)


def test_words_in_json_answers_are_no_incident(tmp_path: Path) -> None:
    """An answer that quotes a crash is a document; a container's log of JSON lines is a log."""
    (tmp_path / "response.json").write_text('{"response": "it said:\\nSegmentation fault (core dumped)\\n"}')
    (tmp_path / "pretty.json").write_text('{\n  "log": "x"\n}\n')
    line = '{"log":"Segmentation fault (core dumped)\\n","stream":"stderr","time":"2026-03-07T01:31:33.000000000Z"}\n'
    (tmp_path / "abc-json.log").write_text(line)
    found = read(str(tmp_path))
    assert [i.signal for i in found.incidents] == ["SIGSEGV"]
    assert [Path(s.path).name for s in found.sources] == ["abc-json.log"]


CRASH = "ggml_vulkan: Found 1 Vulkan devices:\nvk::Queue::submit: ErrorDeviceLost\nSegmentation fault (core dumped)\n"


def test_a_folder_of_sources_and_prose_tells_no_incident(tmp_path: Path) -> None:
    """A test that quotes a crash, a table of patterns, a page that mentions one: none is a log. They are counted and
    named, and one that is named by the user is read."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "test_x.py").write_text(f'LOG = """\\\n{CRASH}"""\n')
    (tmp_path / "src" / "patterns.toml").write_text(f"text = '''{CRASH}'''\n")
    (tmp_path / "run-it").write_text(f"#!/bin/sh\necho '{CRASH}'\n")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "x.log").write_text(CRASH)
    with pytest.raises(UsageError, match="left out, as they are no logs: 3"):
        read(str(tmp_path))
    (tmp_path / "page.md").write_text(f"# Notes\n\nIt said {CRASH}\nand that was `Segmentation fault`.\n")
    found = read(str(tmp_path))
    assert (found.incidents, found.servers) == ((), ())
    assert [Path(source.path).name for source in found.sources] == ["page.md"]
    texts = [note.text for note in found.warnings if note.kind == "input"]
    assert any(text.startswith("3 files in ") and "test_x.py" in text and "name one" in text for text in texts)
    assert any(text.startswith("of 1 pages in Markdown") and "page.md" in text for text in texts)
    (tmp_path / "with-its-script.log").write_text(f"#!/bin/sh\nllama-server -m x.gguf\n{CRASH}")
    assert read(str(tmp_path)).incidents
    assert read(str(tmp_path / "src" / "test_x.py")).incidents and read(str(tmp_path / "page.md")).incidents


def test_an_issue_in_markdown_is_read_at_its_fences(tmp_path: Path) -> None:
    """A saved issue in a folder: the log that it quotes is read, with the line's number in the page; what people say
    of other crashes around it is not."""
    page = f"It was `CUDA error: out of memory` before.\n\n```console\n{CRASH}```\n\nNow `Bus error`.\n"
    (tmp_path / "issue-7.md").write_text(page)
    (incident,) = read(str(tmp_path)).incidents
    assert (incident.outcome, incident.backend) == (OutcomeKind.DEVICE_LOST, Backend.VULKAN)
    assert incident.key_line is not None and incident.key_line.ref == "s0:L5"
    (source,) = read(str(tmp_path)).sources
    assert source.bytes == len(page) and source.lines == page.count("\n")


def test_the_same_death_in_two_excerpts_is_one(tmp_path: Path) -> None:
    """A probe and the journal quote the same lines: one incident, from the file that tells more."""
    (tmp_path / "a_probe.txt").write_text("".join(JOURNAL.splitlines(True)[3:]))
    (tmp_path / "b_journal.txt").write_text(JOURNAL)
    found = read(str(tmp_path))
    (incident,) = found.incidents
    assert (incident.backend, incident.server) == (Backend.VULKAN, "srv1")
    assert any(note.kind == "twin" for note in found.warnings)
    other = JOURNAL.replace("[1416]", "[1500]")
    (tmp_path / "a_probe.txt").write_text("".join(other.splitlines(True)[3:]))
    assert len(read(str(tmp_path)).incidents) == 2


def test_the_public_study_s_run_folder() -> None:
    """Three crashes of one signature, one known issue."""
    folder = SHARED / "data" / "vega-hbmx" / "run_20260307_013050"
    if not folder.is_dir():
        pytest.skip("../shared/data/vega-hbmx is not there")
    found = read(str(folder))
    assert len(found.incidents) == 3
    assert len({i.signature for i in found.incidents}) == 1
    assert {i.known_issues for i in found.incidents} == {("ollama-qwen35-vulkan-deltanet-set",)}
