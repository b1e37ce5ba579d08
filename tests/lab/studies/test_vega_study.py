"""The promise: the public study is read again as a person read it by hand, request by request.

`facts/vega_requests.csv` is a hand-checked table of its 122 requests; both lie beside the repository, where present.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from stillruns.cli import import_, report
from stillruns.lab import importing
from stillruns.lab.studies import studying
from stillruns.model.applied import Answer
from stillruns.model.backend import Backend
from stillruns.model.component import Component
from stillruns.model.phase import Phase
from stillruns.model.worklog import Finding, Study, StudyRequest
from stillruns.report import study_text
from stillruns.store.opening import open_store

SHARED = next(
    (folder / "shared" for folder in Path(__file__).parents if (folder / "shared" / "facts").is_dir()), Path("shared")
)
STUDY = SHARED / "data" / "vega-hbmx"
TABLE = SHARED / "facts" / "vega_requests.csv"
pytestmark = pytest.mark.skipif(
    not (STUDY.is_dir() and TABLE.is_file()), reason="no ../shared/data/vega-hbmx with ../shared/facts here"
)
ROWS = list(csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines())) if TABLE.is_file() else []


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """The study, imported into a store of its own and judged from it."""
    with open_store(tmp_path_factory.mktemp("study") / "store") as store:
        importing.run(STUDY, store)
        yield studying.judge(store, "vega-hbmx", studying.names(store)["vega-hbmx"])


def request_of(study: Study, run: str, epoch: int) -> StudyRequest:
    """The one request of that run and epoch."""
    found = [r for r in study.requests if r.run == run and r.record.epoch == epoch]
    assert len(found) == 1, f"{run}/{epoch}: {len(found)} requests"
    return found[0]


def asked(text: str) -> int | str | None:
    """The table's num_gpu as this program has it."""
    return None if not text else "auto" if text.startswith("-") else int(text)


def line(ref: str | None) -> int | None:
    """The line number of a ref."""
    return int(ref.rpartition("L")[2]) if ref else None


def test_every_request_is_there(study: Study) -> None:
    """122 requests in 17 runs, none twice."""
    assert len(ROWS) == 122 == len(study.requests)
    assert Counter((r["run"], int(r["epoch"])) for r in ROWS) == Counter(
        (r.run, r.record.epoch) for r in study.requests
    )
    assert len(study.runs) == 17


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['run'][4:]}-{row['epoch']}")
def test_request(study: Study, row: dict[str, str]) -> None:
    """One row of the hand-checked table: what was asked, what was applied, by whom, where it is written."""
    found = request_of(study, row["run"], int(row["epoch"]))
    record = found.record
    assert (record.asked, record.status) == (asked(row["num_gpu_asked"]), row["client_status"])
    assert record.tokens == (int(row["eval_count"]) if row["eval_count"] else None)
    for mine, theirs in ((record.rate, row["tok_s"]), (record.prompt_rate, row["prompt_tok_s"])):
        assert (mine is None) == (not theirs)
        assert mine is None or abs(mine - float(theirs)) <= 0.051
    assert record.characters == (int(row["response_chars"]) if row["response_chars"] else None)
    if not row["server"]:
        assert (found.server, found.backend, found.side) == ("", Backend.UNKNOWN, Backend.UNKNOWN)
        assert found.applied is Answer.UNKNOWN and found.access_ref is None
        return
    assert (found.server, line(found.access_ref)) == (row["server"], int(row["gin_line"]))
    assert found.reused == row["new_load"].startswith("NO")
    assert found.logged == asked(row["logged_requested"])
    layers = re.match(r"(?:reused )?(\d+)/(\d+)", row["applied"])
    assert (found.applied_layers, found.total_layers) == (
        (int(layers[1]), int(layers[2])) if layers else (None, None)
    )
    lines = {line(ref) for ref in found.refs}
    for column in ("req_line", "applied_line"):
        assert not row[column] or int(row[column]) in lines, f"{column} is not among the places"
    if row["engine"]:
        assert found.engine.replace(" ", "-") == row["engine"]
    crash = re.match(r"(SIG\w+): .* @L(\d+)", row["crash"])
    assert (found.death is not None) == (crash is not None)
    if found.death is not None and crash is not None:
        assert (found.death.signal, line(found.death.ref)) == (crash[1], int(crash[2]))
        assert found.death.after_load is not None
        assert abs(found.death.after_load - float(row["load_to_crash_s"])) <= 0.011


def test_backend_comes_from_the_journal(study: Study) -> None:
    """The side is what the server loads, the backend where the layers went; the label in meta.json is nothing."""
    for row in ROWS:
        found = request_of(study, row["run"], int(row["epoch"]))
        unit = row["server"].split("[")[0]
        sides = {"ollama-rocm-serve": Backend.ROCM, "ollama-vega-vulkan": Backend.VULKAN, "": Backend.UNKNOWN}
        assert found.side is sides[unit]
        if found.applied_layers:
            assert found.backend is found.side
        elif found.applied_layers == 0:
            assert found.backend is Backend.CPU


def test_versions_hold_the_hand_made_ones(study: Study) -> None:
    """The two servers' releases do not overlap, and hold what `ollama --version` said."""
    ranges = {r.side: (r.version.low, r.version.high) for r in study.requests if r.version.low}
    assert ranges[Backend.ROCM] == ("0.17.6", "0.17.7")
    assert ranges[Backend.VULKAN][1] == "0.17.4"


def test_void_cells(study: Study) -> None:
    """num_gpu=-1 on ROCm was never tested; on Vulkan the runner had died before, so it really loaded 25 of 25."""
    void = {(r.run, r.record.epoch) for r in study.requests if r.void}
    assert void == {(f"run_{run}", 4) for run in ("20260307_012538", "20260307_012643", "20260308_201305")}
    for request in study.requests:
        if request.side is Backend.VULKAN and request.record.asked == "auto":
            assert (request.applied, request.applied_layers, request.total_layers) == (Answer.YES, 25, 25)
    cell = next(c for c in study.cells if c.side is Backend.ROCM and c.asked == "auto")
    assert (cell.counted_ok, cell.applied, cell.void, cell.rate) == (3, 0, 3, None)


def test_the_three_vulkan_crashes(study: Study) -> None:
    """Prompt phase, backend or driver (the log cannot tell which), one signature for all, also across runs."""
    deaths = [r.death for r in study.requests if r.run == "run_20260307_013050" and r.death]
    assert len(deaths) == 3
    for death in deaths:
        assert (death.signal, death.phase) == ("SIGSEGV", Phase.PROMPT)
        assert set(death.components) == {Component.GGML_BACKEND, Component.VULKAN_DRIVER}
    assert len({r.death.signature for r in study.requests if r.death}) == 1


def test_what_the_tables_could_not_show(study: Study) -> None:
    """Each known threat to the study is found, with its places."""
    found = {finding.kind: finding for finding in study.findings}
    assert set(found) == {
        "void", "crash", "timing", "versions", "no text", "speed", "shared GPU", "order", "engines", "label",
        "unknown backend", "unknown load", "wrong server", "one process", "baseline", "derived layers",
        "version noted", "not read", "environment",
    }  # fmt: skip
    assert found["no text"].text.startswith("11 requests")
    assert found["crash"].text.startswith(
        "10 runners died of SIGSEGV in the prompt phase (batch 0 of 33 inputs) on vulkan"
    )
    assert found["unknown backend"].text.startswith("95 requests in 9 runs")
    assert {run for run, _ in found["shared GPU"].places} == {"run_20260307_013050", "run_20260308_201641"}
    assert sum(r.empty for r in study.requests) == sum(row["response_chars"] == "0" for row in ROWS)


def test_threats_by_their_number(study: Study) -> None:
    """The threats of the hand-made list that the raw files show, each with its runs and lines."""

    def finding(kind: str, word: str = "") -> Finding:
        (one,) = [f for f in study.findings if f.kind == kind and word in f.text]
        return one

    def runs(one: Finding) -> set[str]:
        return {run.removeprefix("run_2026030") for run, _ in one.places}

    timing = finding("timing")  # T3
    assert "5.28 to 5.33 s by its probes" in timing.text
    baseline = finding("baseline")  # T6
    assert "on rocm (ollama-rocm-serve[1415]) loaded rocm, cpu: the GPU's library without a layer" in baseline.text
    assert "on vulkan (ollama-vega-vulkan[1416]) loaded cpu: a pure CPU run" in baseline.text
    assert {("run_20260307_013050", 16), ("run_20260307_012643", 23)} <= {(r, line(p)) for r, p in baseline.places}
    assert runs(finding("version noted")) == {"7_012538", "7_012643"}  # T7: only 201305 asked the right server
    assert {"2026-03-07", "2026-03-08"} <= set(re.findall(r"2026-\d\d-\d\d", finding("one process").text))  # T8
    engines = finding("engines").text  # T12
    assert "qwen3.5:2b on the ollama engine, flash attention Enabled" in engines
    assert "phi4-mini:latest on the llama runner, flash attention Auto, then enabled" in engines
    derived = finding("derived layers")  # T13
    assert [(r, line(p)) for r, p in derived.places] == [("run_20260308_212345", 87)] and "0/33" in derived.text
    assert len(runs(finding("not read", "OLLAMA_NUM_GPU"))) == 17  # T15
    assert len(runs(finding("environment"))) == 17  # half of T14: that the server's own was never noted
    logs = finding("unknown backend").text  # T16
    assert "no server log in 8 runs" in logs and "of 1 run holds no line of the server that answered" in logs
    assert "43 of them failed" in logs


def test_case_study_is_the_tools_own_output(study: Study) -> None:
    """docs/case-studies/vega56.md quotes the report word for word."""
    page = (Path(__file__).parents[3] / "docs" / "case-studies" / "vega56.md").read_text(encoding="utf-8")
    quoted = re.search(r"<!-- report -->\n```\n(.*?)```\n", page, re.DOTALL)
    assert quoted, "the page has no block after <!-- report -->"
    assert quoted[1] == study_text.text(study), "write the page's block again with scripts/case_study.py"


def test_import_and_report_commands(tmp_path: Path) -> None:
    """`stillruns import DIR` twice adds nothing the second time; `stillruns report --text` prints the study."""
    runner, store = CliRunner(), str(tmp_path / "store")
    first = runner.invoke(import_.command, [str(STUDY), "--store", store], standalone_mode=False)
    again = runner.invoke(import_.command, [str(STUDY), "--store", store], standalone_mode=False)
    assert "17 runs imported, 0 were there already; 122 requests" in first.output
    assert "0 runs imported, 17 were there already; 122 requests" in again.output
    shown = runner.invoke(report.command, ["--text", "--store", store], standalone_mode=False)
    assert shown.exception is None and "3 VOID" in shown.output
    one = runner.invoke(report.command, ["run_20260307_012643", "--trials", "--store", store], standalone_mode=False)
    assert one.exception is None and one.output.count("run_20260307_012643/") == 4
