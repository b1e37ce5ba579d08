"""The promise: a foreign worklog comes into the store byte for byte, once, and is judged from there.

The worklog is a small one of the same form as the public study, composed for the tests (tests/golden/worklog).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from stillruns.cli import import_, report, show
from stillruns.collect import worklog as folders
from stillruns.errors import UsageError
from stillruns.judge.studies import worklog as judge_worklog
from stillruns.lab import importing
from stillruns.lab.studies import studying, worklog_form
from stillruns.model.absence import Absence
from stillruns.model.applied import Answer
from stillruns.model.backend import Backend
from stillruns.model.outcome import OutcomeKind
from stillruns.model.phase import Phase
from stillruns.model.server_log import LogRequest, Runner, ServerLog
from stillruns.model.worklog import ClientRun, ServerProbe
from stillruns.normalise import worklog
from stillruns.report import import_text, study_json, study_text
from stillruns.store.opening import open_store
from stillruns.store.verify import verify
from stillruns.store.view import trials

WORKLOG = Path(__file__).parents[1] / "golden" / "worklog"
SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


def test_bytes_come_whole_and_once(tmp_path: Path) -> None:
    """Every file is a blob; a second import adds nothing; the store verifies."""
    with open_store(tmp_path / "store") as store:
        first = importing.run(WORKLOG, store)
        again = importing.run(WORKLOG, store)
        assert [(r.folder, r.requests, r.before) for r in first.runs] == [
            ("run_a", 2, False), ("run_b", 2, False), ("run_c", 2, False),
        ]  # fmt: skip
        assert all(r.before for r in again.runs) and [r.run for r in again.runs] == [r.run for r in first.runs]
        assert len(list(store.runs())) == 3
        record = next(iter(store.records(run=first.runs[0].run, kind="run_started")))
        files = record.body["files"]
        assert isinstance(files, list) and len(files) == first.runs[0].files
        for file in files:
            assert store.read_blob(file["sha256"]) == (WORKLOG / file["source"]).read_bytes()
        found = trials(store, first.runs[0].run)
        assert [t.cell for t in found] == ["num_gpu=2", "num_gpu=-1"]
        sources = {e.source for e in found[1].evidence}
        assert "run_a/responses/epoch_002.txt" in sources and "run_a/responses/epoch_001.txt" not in sources
    assert verify(tmp_path / "store").ok


def test_a_changed_folder_is_a_new_run(tmp_path: Path) -> None:
    """One more byte in a journal makes another run, never a mix of two."""
    copy = tmp_path / "worklog"
    shutil.copytree(WORKLOG, copy)
    with open_store(tmp_path / "store") as store:
        importing.run(copy, store)
        with (copy / "run_a" / worklog_form.JOURNAL).open("a") as journal:
            journal.write("one more line\n")
        second = importing.run(copy, store)
        assert [r.before for r in second.runs] == [False, True, True]


def test_the_zone_of_a_run(tmp_path: Path) -> None:
    """Local times become UTC with the offset that the journals show; a run without one takes the others'."""
    with open_store(tmp_path / "store") as store:
        found = importing.run(WORKLOG, store)
        assert [r.run[:16] for r in found.runs] == ["20260502T090000Z", "20260502T090030Z", "20260502T100000Z"]
        bodies = [r.body for r in store.records(kind="run_started")]
        assert [b["zone_from"] for b in bodies] == ["its own files", "its own files", "the worklog's other runs"]


def test_what_is_no_worklog(tmp_path: Path) -> None:
    """A folder without results is an error in one sentence; one that cannot be read is passed over and named."""
    with open_store(tmp_path / "store") as store:
        with pytest.raises(UsageError, match="no folder with a result"):
            importing.run(tmp_path / "store", store)
        with pytest.raises(UsageError, match="is no folder"):
            importing.run(tmp_path / "nothing", store)
        (tmp_path / "bad" / "run_x").mkdir(parents=True)
        (tmp_path / "bad" / "run_x" / "result.json").write_text("[1, 2")
        found = importing.run(tmp_path / "bad", store)
        assert found.runs[0].run == "" and "no JSON object" in found.runs[0].why


def test_links_are_not_followed(tmp_path: Path) -> None:
    """A link out of the worklog is named and left out."""
    copy = tmp_path / "worklog"
    shutil.copytree(WORKLOG, copy)
    (copy / "run_a" / "link.txt").symlink_to("/etc/hostname")
    (found, *_) = folders.find(copy)
    assert found.left_out == ("link.txt: not a plain file",)
    assert all(name != "link.txt" for name, _ in found.files)


def test_the_study(tmp_path: Path) -> None:
    """The re-used runner's request is void, the deaths are where they were, the run without a log is unknown."""
    with open_store(tmp_path / "store") as store:
        importing.run(WORKLOG, store, "small")
        study = studying.judge(store, "small", studying.names(store)["small"])
    by_key = {(r.run, r.record.epoch): r for r in study.requests}
    assert (by_key["run_a", 1].applied, by_key["run_a", 1].side) == (Answer.YES, Backend.ROCM)
    assert by_key["run_a", 2].void and by_key["run_a", 2].empty
    for epoch in (1, 2):
        request = by_key["run_b", epoch]
        assert (request.outcome, request.applied, request.side) == (OutcomeKind.CRASH, Answer.YES, Backend.VULKAN)
        assert request.death is not None and request.death.phase is Phase.PROMPT
        assert request.death.batch == "batch 0 of 33 inputs"
        assert by_key["run_c", epoch].applied is Answer.UNKNOWN
    assert by_key["run_b", 2].applied_layers == 25
    jsonschema.validate(study_json.document(study), json.loads((SCHEMAS / "study.json").read_text()))
    text = study_text.text(study, trials=True)
    assert "1 VOID" in text and "run_a/2" in text


def test_commands(tmp_path: Path) -> None:
    """import, report (by study, by folder, by nothing) and show know the imported runs."""
    runner, store = CliRunner(), ["--store", str(tmp_path / "store")]
    imported = runner.invoke(import_.command, [str(WORKLOG), "--json", *store], standalone_mode=False)
    document = json.loads(imported.output)
    jsonschema.validate(document, json.loads((SCHEMAS / "import.json").read_text()))
    for name in ([], ["worklog"], ["run_a"], [document["runs"][0]["run"]]):
        shown = runner.invoke(report.command, [*name, *store], standalone_mode=False)
        assert shown.exception is None and "1 VOID" in shown.output, name
    trial = document["runs"][0]["run"] + ".0002"
    shown = runner.invoke(show.command, [trial, *store], standalone_mode=False)
    assert shown.exception is None and "no load was started" in shown.output
    assert 'msg="offloaded 2/25 layers to GPU"' in shown.output


def test_text_is_safe() -> None:
    """Names of a foreign worklog cannot move the cursor."""
    evil = importing.Import("a\x1b[2J", (importing.Imported("run\x1b]0;x\x07", "id", 1, 1),))
    assert "\x1b" not in import_text.text(evil) and "\x07" not in import_text.text(evil)


RUN = ClientRun(
    name="r", started="2026-05-02T11:00:00", model="m", records=(), label="rocm", host="http://127.0.0.1:11434"
)


def server(**changes: object) -> ServerLog:
    """A server with one runner of two layers and one request that re-used it."""
    fields: dict[str, object] = {
        "id": "srv0",
        "name": "ollama[1]",
        "runtime": "ollama",
        "runners": (Runner("r1", "ollama engine", "s0:L1", requested_layers=2, applied_layers=2, total_layers=25),),
        "requests": (
            LogRequest(
                "q1", "s0:L9", "s0:L9", ended="2026-05-02T11:00:10", status=200, seconds=9.0, runner="r1",
                applied_layers=2, total_layers=25, reused=True,
            ),
        ),
    }  # fmt: skip
    return ServerLog(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "status"),
    [(2, Answer.YES), ("auto", Answer.NO), (0, Answer.NO), (25, Answer.NO), (None, Answer.UNKNOWN)],
)
def test_a_reused_runner(asked: int | str | None, status: Answer) -> None:
    """Re-use is what was asked when the runner was loaded for the same; else the request is void."""
    record = worklog.ClientRecord(1, asked, "ok", "2026-05-02T11:00:01", 9.01, tokens=5)
    client = ClientRun(**{**{f: getattr(RUN, f) for f in RUN.__slots__}, "records": (record,)})
    (found,) = judge_worklog.requests(client, (server(),), True, {}, ServerProbe())
    assert (found.applied, found.reused) == (status, True)


def test_no_line_fits() -> None:
    """A request that no access line fits in time and length is not forced upon one."""
    for seconds, started in (
        (12.0, "2026-05-02T11:00:01"),
        (9.0, "2026-05-02T11:05:01"),
        (None, "2026-05-02T11:00:01"),
    ):
        record = worklog.ClientRecord(1, 2, "ok", started, seconds, tokens=5)
        client = ClientRun(**{**{f: getattr(RUN, f) for f in RUN.__slots__}, "records": (record,)})
        (found,) = judge_worklog.requests(client, (server(),), True, {}, ServerProbe())
        assert found.access_ref is None and found.applied is Answer.UNKNOWN


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
FIELDS = ["epoch", "num_gpu", "status", "started_at", "elapsed_sec", "eval_count", "eval_duration", "response_chars",
          "error", "http_status", "prompt_eval_count", "prompt_eval_duration", "response_file"]  # fmt: skip


@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), JSON), max_size=4), st.dictionaries(st.text(), JSON))
@settings(max_examples=150, deadline=None)
def test_any_json_is_read(records: list[dict[str, object]], meta: dict[str, object]) -> None:
    """Whatever stands in the fields, the run is read, and a rate is a number or nothing."""
    result = json.dumps({"records": records, "model": 3, "started_at": "soon"}).encode()
    found = worklog.read("x", result, json.dumps(meta).encode())
    assert isinstance(found, ClientRun) and len(found.records) == len(records)
    for record in found.records:
        assert record.rate is None or record.rate == record.rate
    judge_worklog.requests(found, (server(),), True, {}, ServerProbe())


@pytest.mark.parametrize(
    "field",
    [
        {"started_at": "2026-05-02T11:00:01.5"},
        {"started_at": "2026-99-99T99:99:99"}, {"elapsed_sec": 1e300}, {"elapsed_sec": -5}, {"num_gpu": 10**400},
        {"eval_count": 10**400, "eval_duration": 10**400}, {"response_chars": 10**400}, {"epoch": 10**400},
    ],
)  # fmt: skip
def test_absurd_values_are_unknown(field: dict[str, object], tmp_path: Path) -> None:
    """A value that cannot be is no value; the run is still imported and judged."""
    record = {"started_at": "2026-05-02T11:00:01", "elapsed_sec": 9.0, "status": "ok", "num_gpu": 2, **field}
    copy = tmp_path / "worklog" / "run_a"
    shutil.copytree(WORKLOG / "run_a", copy)
    (copy / "result.json").write_text(json.dumps({"records": [record], "model": "m"}))
    with open_store(tmp_path / "store") as store:
        importing.run(copy.parent, store, "w")
        study = studying.judge(store, "w", studying.names(store)["w"])
    assert len(study.requests) == 1 and study_text.text(study, trials=True)


@given(st.binary(max_size=200))
def test_any_bytes_are_read(blob: bytes) -> None:
    """No bytes break the readers of a worklog's files."""
    found = worklog.read("x", blob, blob)
    assert isinstance(found, (ClientRun, Absence))
    worklog.probe(blob, "s1")
    worklog.lists_a_model(blob)
    worklog.zone(blob)
