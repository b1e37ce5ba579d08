"""The promise: hypotheses are in the journal before the first trial, and a sequential run stops when it can."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments import Table, small, vulkan
from program import run_document, stillruns
from stillruns.store.opening import open_store


def posed(place: Path, low: float = 0.9, **stop: object) -> Path:
    """A sequential experiment on the CPU with one hypothesis; `low` is the rate below which it is refuted."""
    hypothesis = {
        "id": "H1",
        "text": "It fails more often than not",
        "predicts": "all(c.rate > 0.5 for c in cells)",
        "refuted_if": f"all(c.rate.high < {low} for c in cells)",
    }
    decide = {"fail_below": 0.05, "fail_above": 0.5, "error": 0.05}
    return small(place, stop={"decide": decide, **stop}, hypotheses=[hypothesis], reference="none")


@pytest.mark.engine
@pytest.mark.slow()
def test_a_sequential_run(tmp_path: Path) -> None:
    """Five passes decide it; the claim is judged; what changed later is said; the verdicts replay."""
    spec, store = posed(tmp_path / "s.toml"), tmp_path / "store"
    ended = stillruns("run", spec, "--json", "--store", store)
    assert ended.returncode == 0, ended.stderr
    document = run_document(ended)
    cell = document["cells"][0]
    assert (cell["applied"], cell["rate"]["method"]) == (5, "sequential")
    assert "does not fail 50 %" in cell["shown"]
    assert document["claims"][0]["verdict"] == "refuted"
    with open_store(store) as opened:
        kinds = [record.kind for record in opened.records(run=document["run"])]
    assert kinds.index("hypotheses_frozen") < kinds.index("trial_started")

    posed(spec, low=0.5)
    again = stillruns("run", spec, "--json", "--store", store)
    assert again.returncode == 0, again.stderr
    warnings = [w["text"] for w in json.loads(again.stdout)["warnings"] if w["kind"] == "hypotheses"]
    assert warnings == [f"H1 says something else than when run {document['run']} of the same design froze it"]

    replayed = stillruns("replay", "--json", "--store", store)
    assert replayed.returncode == 0, replayed.stdout
    assert [run["verdict"] for run in json.loads(replayed.stdout)["runs"]] == ["same", "same"]


@pytest.mark.engine
def test_an_undecided_cell_is_no_complete_job(tmp_path: Path) -> None:
    """Trials that cannot decide the cell end it as undecided, with exit code 1."""
    spec = posed(tmp_path / "s.toml", min_trials=2, max_trials=3)
    ended = stillruns("run", spec, "--json", "--store", tmp_path / "store")
    assert ended.returncode == 1
    document = json.loads(ended.stdout)
    assert document["undecided"] == ["backend=cpu,gpu_layers=none"]
    assert document["cells"][0]["applied"] < 3


@pytest.mark.engine
def test_epochs_share_a_server(tmp_path: Path) -> None:
    """One server is asked three times; the trial counts once, with the tokens of all three."""
    spec, store = small(tmp_path / "s.toml", reference="none", epochs=3), tmp_path / "store"
    ended = stillruns("run", spec, "--json", "--store", store)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["cells"][0]["applied"] == 1
    with open_store(store) as opened:
        record = next(r.body["record"] for r in opened.records(kind="trial_ended"))
    assert isinstance(record, dict)
    assert [e["tokens_seen"] for e in (*record["more"], record["exchange"])] == [4, 4, 4]


@pytest.mark.engine
@pytest.mark.vulkan
@pytest.mark.slow
def test_distributions_are_checked_on_the_twin(tmp_path: Path) -> None:
    """Teacher forcing on the F16 twin: a healthy Vulkan is within the floor's rounding, and enters no rate."""
    model = "synth:llama?layers=2&type=Q8_0"
    layers: Table = {"gpu_layers": [1]}
    spec = small(tmp_path / "s.toml", vulkan(), matrix=layers, model=model, predict=6, check=True, warm=False)
    ended = stillruns("run", spec, "--json", "--store", tmp_path / "store")
    assert ended.returncode == 0, ended.stderr
    document = run_document(ended)
    check = document["checks"][0]
    assert check["verdict"] in ("same", "floor ok"), check["why"]
    assert "type=F16" in check["model"]
    assert check["seen"]["positions"] == check["decode"]["positions"] == 6
    assert check["decode"]["log_ppl_ratio"] is not None
    assert document["cells"][-1]["trials"] == 1


@pytest.mark.engine
@pytest.mark.slow
def test_floors_are_kept(tmp_path: Path) -> None:
    """What a run's checks measure is in the store; the next run of such a model is judged by it and says so; a third
    party's replay gives the same bytes."""
    spec, store = tmp_path / "s.toml", tmp_path / "store"
    asked = {"predict": 6, "check": True, "check_positions": 8, "warm": False}
    asked["check_texts"] = ["The harbour was quiet, and nobody spoke of the storm."]
    small(spec, name="a", model="synth:llama?layers=2&type=F16&seed=0", **asked)
    first = stillruns("run", spec, "--json", "--store", store)
    assert first.returncode == 0, first.stderr
    measured = run_document(first)
    paths = [f["path"] for f in measured["floors"] if f["pair"] == "cpu path"]
    assert paths == ["prompt", "decode"]
    assert {(f["architecture"], f["quantisation"]) for f in measured["floors"]} == {("llama", "F16")}
    assert measured["checks"][0]["text"]["positions"] == 8
    assert measured["checks"][0]["verdict"] == "same"
    with open_store(store) as opened:
        kept = next(r.body["floors"] for r in opened.records(kind="floors_measured"))
        assert isinstance(kept, list)
        assert [f["trial"] for f in kept] == [f["trial"] for f in measured["floors"]]
    small(spec, name="b", model="synth:llama?layers=2&type=F16&seed=1", **asked)
    second = stillruns("run", spec, "--json", "--store", store)
    assert second.returncode == 0, second.stderr
    with open_store(store) as opened:
        started = [r.body["floors"] for r in opened.records(kind="run_started")]
    assert isinstance(started[1], list)
    assert started[0] == []
    assert [f["run"] for f in started[1]] == [measured["run"]] * 2
    replayed = stillruns("replay", "--json", "--store", store)
    assert replayed.returncode == 0, replayed.stdout


@pytest.mark.engine
@pytest.mark.slow()
def test_checks_with_a_model_axis(tmp_path: Path) -> None:
    """Each check names the model that it was made on, checks are numbered as trials are, and a hypothesis may name a
    model as the spec does; a check's verdict is part of `divergence`. Each kind of model has its floors. Every
    position is kept on both paths, however many requests that takes."""
    names = ["synth:llama?layers=2&type=Q8_0", "synth:qwen3?layers=2&type=F16"]
    passes = f"any(c.passed == 2 and c.divergence in ('same', 'floor ok') for c in cells if c.model == '{names[1]}')"
    named = {
        "id": "named",
        "text": "One of the models passes",
        "predicts": passes,
        "refuted_if": f"any(c.failed > 0 for c in cells if c.model == '{names[1]}')",
    }
    asked = {"model": names[0], "predict": 20, "check": True}
    spec = small(tmp_path / "s.toml", matrix={"model": names}, stop={"trials": 2}, hypotheses=[named], **asked)
    ended = stillruns("run", spec, "--json", "--store", tmp_path / "store")
    document = json.loads(ended.stdout)
    assert [check["model"] for check in document["checks"]] == names, ended.stderr
    assert document["claims"][0]["verdict"] == "supported", document["claims"]
    assert all(check["trial"].rpartition(".")[2].isdigit() for check in document["checks"])
    assert len({check["trial"] for check in document["checks"]}) == 2
    floors = {(f["model"], f["architecture"], f["quantisation"], f["path"]) for f in document["floors"]}
    kinds = [(names[0], "llama", "Q8_0"), (names[1], "qwen3", "F16")]
    assert floors == {(*kind, path) for kind in kinds for path in ("prompt", "decode")}
    assert {(c["seen"]["positions"], c["decode"]["positions"]) for c in document["checks"]} == {(20, 20)}
    assert {c["again"]["kl_max"] for c in document["checks"]} == {0}


@pytest.mark.engine
@pytest.mark.vulkan
@pytest.mark.slow
def test_answers_that_depend_on_earlier_requests(tmp_path: Path, shader_cache: Path) -> None:
    """llama.cpp b10068 on Vulkan lets a request see what an earlier one left in qwen35's state, and not in llama's; a
    trial that asks once never shows it (llama.cpp issue 27805)."""
    names = ["synth:llama?layers=4&type=F16", "synth:qwen35?layers=4&type=F16"]
    spec = small(
        tmp_path / "s.toml",
        vulkan(MESA_SHADER_CACHE_DIR=shader_cache),
        matrix={"gpu_layers": ["all"], "model": names},
        model=names[0],
        predict=6,
        check=True,
    )
    document = run_document(stillruns("run", spec, "--json", "--store", tmp_path / "store"))
    llama, qwen35 = document["checks"]
    assert llama["verdict"] == "floor ok" and llama["again"]["kl_max"] == 0, llama["why"]
    assert qwen35["verdict"] in ("suspicious", "wrong")
    assert "what is computed depends on earlier requests" in qwen35["why"]
    assert [c["output"] for c in document["cells"] if c["note"] != "reference"] == ["floor ok", "floor ok"]
