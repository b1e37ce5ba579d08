"""The promise: what a worklog's conditions were is said where its files show it, and nothing is said where not."""

from __future__ import annotations

from typing import Any

from stillruns.judge.studies import conditions as study_conditions
from stillruns.judge.studies import findings as study_findings
from stillruns.judge.studies.conditions import Conditions
from stillruns.lab.studies import noted_names
from stillruns.model.backend import Backend
from stillruns.model.outcome import OutcomeKind
from stillruns.model.server_log import VersionRange
from stillruns.model.worklog import ClientRecord, Finding, Noted, StudyRequest, Unread

CPU, ROCM, VULKAN = ((Backend.CPU, "s3:L5"), (Backend.ROCM, "s3:L4"), (Backend.VULKAN, "s3:L6"))


def request(
    run: str = "a", asked: int = 0, server: str = "one[7]", side: Backend = Backend.ROCM, **changes: Any
) -> StudyRequest:
    """A request that was answered, on a server of release 0.17.6 to 0.17.7."""
    known: dict[str, Any] = {
        "run": run,
        "record": ClientRecord(1, asked, "ok", "2026-05-02T11:00:00", 1.0, tokens=8),
        "model": "m",
        "label": "",
        "server": server,
        "side": side,
        "version": VersionRange("0.17.6", "0.17.7", "call sites"),
        "applied_layers": asked,
        "total_layers": 25,
        "access_ref": "s3:L9",
    }
    return StudyRequest(**{**known, **changes})


def kinds(seen: Conditions) -> dict[str, Finding]:
    """What was found, by kind."""
    return {f.kind: f for f in study_conditions.findings(seen)}


def test_baselines_that_differ() -> None:
    """One server loads the GPU's library for no layer, the other does not; where all do alike, nothing is said."""
    rocm = request(libraries=(ROCM, CPU))
    plain = request("b", server="two[8]", side=Backend.VULKAN, libraries=(CPU,))
    found = kinds(Conditions([rocm, plain]))["baseline"]
    assert "1 request on rocm (one[7]) loaded rocm, cpu: the GPU's library without a layer" in found.text
    assert "1 request on vulkan (two[8]) loaded cpu: a pure CPU run" in found.text
    assert found.places == (("a", "s3:L4"), ("a", "s3:L5"), ("b", "s3:L5"))
    assert "baseline" not in kinds(Conditions([rocm]))
    assert "baseline" not in kinds(Conditions([request(asked=2, libraries=(VULKAN, CPU))]))
    assert "baseline" not in kinds(Conditions([request()]))


def test_derived_layers() -> None:
    """A count that rests on the layout of the load alone is named with its line."""
    found = kinds(Conditions([request(layout="s3:L12"), request("b")]))["derived layers"]
    assert found.places == (("a", "s3:L12"),)
    assert "0/25 is derived" in found.text


def test_days_of_one_process() -> None:
    """The same process id on two days is one process; a server without a process id may be several."""
    late = ClientRecord(1, 0, "ok", "2026-05-03T11:00:00", 1.0, tokens=8)
    found = kinds(Conditions([request(), request("b", record=late)]))["one process"]
    assert "one[7] served on 2026-05-02, 2026-05-03" in found.text
    assert "one process" not in kinds(Conditions([request(), request("b", server="two[8]", record=late)]))
    assert "one process" not in kinds(Conditions([request(server="one"), request("b", server="one", record=late)]))


def test_a_release_of_another_server() -> None:
    """Noted as 0.17.4, answered by 0.17.6 or 0.17.7: another server's; one within the range may be right."""
    noted = Noted("a", True, version="0.17.4", version_ref="s9:L1")
    found = kinds(Conditions([request()], [noted]))["version noted"]
    assert "noted release 0.17.4" in found.text
    assert "0.17.6 to 0.17.7 (one[7])" in found.text
    assert found.places == (("a", "s9:L1"),)
    right = Noted("a", True, version="0.17.7", version_ref="s9:L1")
    assert "version noted" not in kinds(Conditions([request()], [right]))
    unknown = request(version=VersionRange())
    assert "version noted" not in kinds(Conditions([unknown], [noted]))


def test_variables_and_environments() -> None:
    """A variable that nothing reads is named with its lines; an environment that the server prints is not unknown."""
    noted = Noted("a", True, environment=(("OLLAMA_NUM_GPU", "s1:L7"), ("OLLAMA_HOST", "s1:L8")))
    unread = noted_names.unread([noted])
    assert [(u.name, u.verdict) for u in unread] == [("OLLAMA_NUM_GPU", "never existed")]
    found = kinds(Conditions([request()], [noted], unread))
    assert found["not read"].places == (("a", "s1:L7"),)
    assert "OLLAMA_HOST, OLLAMA_NUM_GPU" in found["environment"].text
    printed = Noted("a", True, environment=noted.environment, server_environment="s3:L1")
    assert "environment" not in kinds(Conditions([request()], [printed]))
    assert noted_names.unread([Noted("a", True)]) == ()
    assert "not read" not in kinds(Conditions([request()], [noted], [Unread("OTHER", "never existed", "", "")]))


def test_missing_logs() -> None:
    """Runs without a log, and runs whose log is another server's, are told apart; failures there are counted."""
    gone = {"server": "", "side": Backend.UNKNOWN, "access_ref": None, "version": VersionRange()}
    seen = Conditions(
        [request("a", **gone), request("b", **gone, outcome=OutcomeKind.ERROR), request("c")],
        [Noted("a", False), Noted("b", True), Noted("c", True)],
    )
    text = kinds(seen)["unknown backend"].text
    assert "there is no server log in 1 run (a)" in text
    assert "holds no line of the server that answered (b)" in text
    assert "1 of them failed" in text
    assert "unknown backend" not in kinds(Conditions([request("c")], [Noted("c", True)]))


def test_flash_attention_alone_is_a_difference() -> None:
    """Two models on one engine with flash attention set differently are confounded with it."""
    one = request(engine="ollama engine", flash_attention="Enabled", runner_ref="s3:L2")
    two = request("b", model="n", engine="ollama engine", flash_attention="Disabled", runner_ref="s3:L2")
    found = {f.kind: f.text for f in study_findings.findings([one, two], [])}
    assert "on different settings of flash attention" in found["engines"]
    same = request("b", model="n", engine="ollama engine", flash_attention="Enabled")
    assert "engines" not in {f.kind for f in study_findings.findings([one, same], [])}


def test_an_order_that_was_never_varied() -> None:
    """The same order in several runs is said, with `once` only where it is; a run that went back varied it."""

    def tried(run: str, *values: int) -> list[StudyRequest]:
        return [request(run, value, record=ClientRecord(i, value, "ok", "", 1.0)) for i, value in enumerate(values)]

    def order(*runs: list[StudyRequest]) -> list[str]:
        found = study_findings.findings([r for run in runs for r in run], [])
        return [f.text for f in found if f.kind == "order"]

    (text,) = order(tried("a", 0, 1, 2), tried("b", 0, 1, 2))
    assert "in the order 0, 1, 2, each value once, in each of 2 runs" in text
    (text,) = order(tried("a", 0, 0, 1, 2), tried("b", 0, 1, 2, 2))
    assert "in the order 0, 1, 2, in each of 2 runs" in text
    assert order(tried("a", 0, 1, 2), tried("b", 2, 1, 0)) == []
    assert order(tried("a", 0, 1, 0, 2), tried("b", 0, 1, 0, 2)) == []
    assert order(tried("a", 0, 1, 2)) == []


def test_releases_rest_on_the_start_of_a_runner() -> None:
    """A difference of releases names a line on each side, not the request whose runner was there before."""
    early = request("a", runner_ref=None)
    ours = request("a", runner_ref="s3:L20")
    older = VersionRange("0.17.0", "0.17.4")
    theirs = request("b", server="two[8]", side=Backend.VULKAN, version=older, runner_ref="s3:L30")
    found = {f.kind: f for f in study_findings.findings([early, ours, theirs], [])}
    assert found["versions"].places == (("a", "s3:L20"), ("b", "s3:L30"))
