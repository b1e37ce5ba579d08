"""The promise: logs that came alone are trials whose condition is what their own lines tell, and sides that differ in
more than the backend are not compared as if they did not.

The logs are composed (tests/golden/loose_logs); the matrix on the H200 is real, where it is beside this checkout.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from stillruns.cli import import_, report, show
from stillruns.errors import UsageError
from stillruns.lab import claiming, importing
from stillruns.lab.studies import study_logs, studying
from stillruns.model.applied import Answer
from stillruns.model.backend import Backend
from stillruns.model.claim import Claim, ClaimVerdict
from stillruns.model.outcome import OutcomeKind
from stillruns.model.spec import HypothesisSpec
from stillruns.model.worklog import Study
from stillruns.report import claims_text, import_text, study_json, study_text
from stillruns.store.opening import open_store
from stillruns.store.verify import verify
from stillruns.store.view import trials

LOGS = Path(__file__).parents[2] / "golden" / "loose_logs" / "two-builds"
GOLDEN = Path(__file__).parents[2] / "golden"
SCHEMAS = Path(__file__).parents[3] / "docs" / "schemas"
PAIRS = "for v in cells for c in cells if v.backend == 'vulkan' and c.backend == 'cuda' and v.layers == c.layers"
SLOWER = HypothesisSpec(
    id="slower",
    text="Vulkan is slower than CUDA with all layers",
    predicts=f"all(v.throughput < c.throughput {PAIRS} and v.layers == 'all')",
    refuted_if=f"any(v.throughput >= c.throughput {PAIRS} and v.layers == 'all')",
)
EVERYWHERE = HypothesisSpec(
    id="everywhere",
    text="Vulkan is slower than CUDA at every number of layers",
    predicts=f"all(v.throughput < c.throughput {PAIRS})",
    refuted_if=f"any(v.throughput >= c.throughput {PAIRS})",
)


@pytest.fixture()
def logs(tmp_path: Path) -> Path:
    """A copy of the composed logs that may be changed."""
    place = tmp_path / "logs"
    shutil.copytree(LOGS, place)
    return place


def rewrite(logs: Path, change: Callable[[str], str]) -> None:
    """Change the text of every log."""
    for path in logs.glob("*.log"):
        path.write_text(change(path.read_text()))


def twice(logs: Path) -> None:
    """As many logs again: an empty line more makes each a trial of its own."""
    for path in sorted(logs.glob("*.log")):
        (logs / f"again-{path.name}").write_text(path.read_text() + "\n")


def judged(logs: Path, store_dir: Path, *hypotheses: HypothesisSpec) -> tuple[Study, dict[str, dict[str, Claim]]]:
    """The study, and about -> id -> claim."""
    with open_store(store_dir) as store:
        importing.run(logs, store, "logs")
        runs = studying.names(store)["logs"]
        sets = claiming.of_study(store, "logs", runs, hypotheses or (SLOWER, EVERYWHERE), asked=True)
        return studying.judge(store, "logs", runs), {s.about: {c.id: c for c in s.claims} for s in sets}


def only(claims: dict[str, dict[str, Claim]], name: str = "slower") -> Claim:
    """The claim about the one model of the composed logs."""
    (about,) = claims
    assert about == "logs, sample-7L"
    return claims[about][name]


def test_each_log_is_a_run_once(logs: Path, tmp_path: Path) -> None:
    """Byte for byte, a trial each; what no model server wrote is named; the same bytes under a new name are no new
    trial."""
    with open_store(tmp_path / "store") as store:
        first = importing.run(logs, store)
        assert [(r.folder, r.requests, r.before) for r in first.runs] == [
            (f"log-0{n}.log", 1, False) for n in range(1, 9)
        ]
        assert first.study == "logs" and first.left_out == ("rates.json: no line of a model server",)
        (logs / "log-01.log").rename(logs / "another.log")
        again = importing.run(logs, store)
        assert all(r.before for r in again.runs) and len(list(store.runs())) == 8
        for entry in first.runs:
            (trial,) = trials(store, entry.run)
            assert store.read_blob(trial.evidence[0].sha256) == (LOGS / entry.folder).read_bytes()
    assert verify(tmp_path / "store").ok


def test_what_quotes_a_log_is_none(logs: Path, tmp_path: Path) -> None:
    """A page and a test that hold a log's lines make no run of a folder; what is named is imported."""
    lines = (logs / "log-01.log").read_text()
    shutil.rmtree(logs)
    logs.mkdir()
    (logs / "page.md").write_text(f"We saw\n\n{lines}")
    (logs / "test_it.py").write_text(f'LOG = """{lines}"""\n')
    with open_store(tmp_path / "store") as store:
        with pytest.raises(UsageError, match="nothing to import"):
            importing.run(logs, store)
        assert [r.requests for r in importing.run(logs / "page.md", store).runs] == [1]


def test_single_files_and_compressed_ones(logs: Path, tmp_path: Path) -> None:
    """A log may be named itself, or be compressed; the study is called like its folder."""
    packed = logs / "packed.gz"
    packed.write_bytes(gzip.compress((logs / "log-02.log").read_bytes()))
    with open_store(tmp_path / "store") as store:
        found = importing.run([logs / "log-01.log", packed], store)
        assert found.study == "logs" and [r.folder for r in found.runs] == ["log-01.log", "packed.gz"]
        assert importing.run(logs / "log-02.log", store).runs[0].before


def test_what_is_no_log(tmp_path: Path) -> None:
    """One sentence, whatever is named; no link is followed."""
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "notes.txt").write_text("nothing of a server\n")
    (tmp_path / "texts" / "weights.bin").write_bytes(b"GGUF\0\0\0\1")
    (tmp_path / "texts" / "empty.log").write_bytes(b"")
    with open_store(tmp_path / "store") as store:
        with pytest.raises(UsageError, match=r"no folder with a result\.json and no server's log"):
            importing.run(tmp_path / "texts", store)
        with pytest.raises(UsageError, match="is not there"):
            importing.run([LOGS / "log-01.log", tmp_path / "gone.log"], store)
        (tmp_path / "texts" / "link.log").symlink_to(LOGS / "log-01.log")
        shutil.copy(LOGS / "log-02.log", tmp_path / "texts")
        found = importing.run(tmp_path / "texts", store)
    assert [r.folder for r in found.runs] == ["log-02.log"]
    assert found.left_out == (
        "link.log: not a plain file",
        "empty.log: empty",
        "notes.txt: no line of a model server",
        "weights.bin: no text",
    )


def test_the_condition_is_what_the_lines_tell() -> None:
    """Backend, layers, build, CPU features, model, devices and speed of one log; its name decides nothing."""
    (trial,) = study_logs.trials("vulkan-ngl99.log", (LOGS / "log-07.log").read_bytes(), "s0")
    assert (trial.side, trial.backend, trial.layers, trial.total_layers) == (Backend.CUDA, Backend.CUDA, 3, 8)
    assert (trial.applied, trial.outcome, trial.logged) == (Answer.YES, OutcomeKind.OK, None)
    assert "does not show what was asked" in trial.why
    assert trial.model == "sample-7L-Q4_0" and trial.version.low == "7010 (0a1b2c3)"
    assert trial.record.rate == 125.0, "what the line prints: 41 tokens, of which 40 were evaluated in 320 ms"
    assert dict(trial.told) == {
        "architecture": "llama",
        "batch": "768",
        "compiler": "GNU 13.3.0 for Linux x86_64",
        "context": "768",
        "cpu path": "AVX AVX2 FMA OPENMP",
        "device": "Example GPU 9000",
        "flash_attention": "enabled",
        "host": "Example CPU 64",
        "quantisation": "Q4_0",
        "runtime": "llama.cpp",
        "threads": "8",
        "ubatch": "384",
    }


def test_two_builds_are_confounded(logs: Path, tmp_path: Path) -> None:
    """Where the numbers would decide, the sides do not allow it; where they would not, nor would more of the same."""
    _, few = judged(logs, tmp_path / "few")
    assert only(few).verdict is ClaimVerdict.CONFOUNDED and "more of the same would not decide it" in only(few).why
    single = only(few, "everywhere")
    assert single.verdict is ClaimVerdict.CONFOUNDED and "more of the same would not decide it" in single.why
    twice(logs)
    study, claims = judged(logs, tmp_path / "store")
    claim = only(claims)
    assert claim.verdict is ClaimVerdict.CONFOUNDED and claim.why.startswith("by the numbers supported")
    (contrast,) = claim.contrasts
    assert contrast.status == "confounded" and contrast.unknown == ()
    assert contrast.differs_in == (
        "backend: vulkan against cuda",
        "version: 7004 (4d5e6f7) against 7010 (0a1b2c3)",
        "cpu path: AMX_INT8 AVX AVX2 AVX512 FMA OPENMP against AVX AVX2 FMA OPENMP",
    )
    assert claim.would_decide == (
        "6 trials with backend vulkan and version 7010 (0a1b2c3), cpu path AVX AVX2 FMA OPENMP (or with backend cuda "
        "and version 7004 (4d5e6f7), cpu path AMX_INT8 AVX AVX2 AVX512 FMA OPENMP): one such cell leaves backend as "
        "the only difference",
    )
    (finding,) = study.findings
    assert finding.kind == "sides" and "differ in version" in finding.text and "and cpu path" in finding.text


def test_equal_builds_are_clean(logs: Path, tmp_path: Path) -> None:
    """With one build on both sides the difference is the backend's; three speeds against three, or one, leave it
    open."""
    rewrite(logs, one_build)
    _, few = judged(logs, tmp_path / "few")
    assert only(few).verdict is only(few, "everywhere").verdict is ClaimVerdict.INCONCLUSIVE
    assert "3 and 3 speeds are too few" in only(few).why
    twice(logs)
    study, claims = judged(logs, tmp_path / "store")
    claim = only(claims)
    assert claim.verdict is ClaimVerdict.SUPPORTED
    assert [(c.status, c.differs_in) for c in claim.contrasts] == [("clean", ("backend: vulkan against cuda",))]
    assert study.findings == ()


def one_build(text: str) -> str:
    """The Vulkan side's build made that of the CUDA side."""
    text = text.replace("build 7004 (4d5e6f7) with GNU 11.4.0", "build 7010 (0a1b2c3) with GNU 13.3.0")
    return text.replace("AVX512 = 1 | AMX_INT8 = 1 | ", "")


def test_another_code_path_of_one_build_is_confounded(logs: Path, tmp_path: Path) -> None:
    """One release built for two CPUs is two builds."""
    rewrite(
        logs,
        lambda text: text.replace("build 7004 (4d5e6f7) with GNU 11.4.0", "build 7010 (0a1b2c3) with GNU 13.3.0"),
    )
    claim = only(judged(logs, tmp_path / "store")[1])
    assert claim.verdict is ClaimVerdict.CONFOUNDED
    assert [text.split(":")[0] for text in claim.contrasts[0].differs_in] == ["backend", "cpu path"]


def test_another_compiler_of_one_version_is_confounded(logs: Path, tmp_path: Path) -> None:
    """One version built by two compilers is two builds."""
    rewrite(
        logs,
        lambda text: one_build(text.replace("GNU 11.4.0", "Clang 17.0.1")).replace(
            "7004 (4d5e6f7)", "7010 (0a1b2c3)"
        ),
    )
    claim = only(judged(logs, tmp_path / "store")[1])
    assert claim.verdict is ClaimVerdict.CONFOUNDED
    assert (
        claim.contrasts[0].differs_in[1] == "build: Clang 17.0.1 for Linux x86_64 against GNU 13.3.0 for Linux x86_64"
    )


def test_versions_cut_out(logs: Path, tmp_path: Path) -> None:
    """Without the version line the CPU features still differ, and the version is listed as unknown."""
    rewrite(logs, lambda text: re.sub(r".*common_params_print_info: build .*\n", "", text))
    claim = only(judged(logs, tmp_path / "store")[1])
    assert claim.verdict is ClaimVerdict.CONFOUNDED
    (contrast,) = claim.contrasts
    assert [text.split(":")[0] for text in contrast.differs_in] == ["backend", "cpu path"]
    assert contrast.unknown == ("version: unknown against unknown",)
    assert "version is not known" in claim.why


def test_nothing_told_of_the_build(logs: Path, tmp_path: Path) -> None:
    """Without both lines nobody knows whether the sides are alike: not clean, and what to record is said."""
    rewrite(logs, lambda text: re.sub(r".*(?:print_info: build |system_info: ).*\n", "", one_build(text)))
    study, claims = judged(logs, tmp_path / "store")
    claim = only(claims)
    assert claim.verdict is ClaimVerdict.INCONCLUSIVE and claim.contrasts[0].status == "unknown"
    unknown = {text.split(":")[0] for text in claim.contrasts[0].unknown}
    assert unknown == {"version", "cpu path", "threads"}
    assert any(text.startswith("record version") for text in claim.would_decide)
    assert "do not both show" in study.findings[0].text


def test_a_build_without_a_number_is_unknown(logs: Path, tmp_path: Path) -> None:
    """`build 1 (unknown)` is what any build outside a checkout calls itself: two of them need not be one."""
    rewrite(
        logs,
        lambda text: re.sub(r"build \d+ \(\w+\) with GNU [\d.]+", "build 1 (unknown) with GNU 9", one_build(text)),
    )
    claim = only(judged(logs, tmp_path / "store")[1])
    assert claim.verdict is not ClaimVerdict.SUPPORTED
    assert claim.contrasts[0].unknown == ("version: unknown against unknown",)


def test_hidden_layers_are_unknown(logs: Path, tmp_path: Path) -> None:
    """A log without the load's lines has no known condition; it is in no rate, and not a load of no layers."""
    rewrite(logs, lambda text: re.sub(r".*load_tensors: .*\n", "", text))
    study, claims = judged(logs, tmp_path / "store")
    assert {(r.applied, r.layers) for r in study.requests} == {(Answer.UNKNOWN, None)}
    assert all(cell.applied == 0 and cell.unknown == cell.requests for cell in study.cells)
    assert study.findings[-1].kind == "unknown condition"
    assert {c.verdict for c in claims["logs"].values()} <= {ClaimVerdict.VOID, ClaimVerdict.INCONCLUSIVE}


def test_names_decide_nothing(logs: Path, tmp_path: Path) -> None:
    """Files called like other conditions: the same verdicts, cells and contrasts."""
    before = judged(logs, tmp_path / "before")[1]
    for number, path in enumerate(sorted(logs.glob("*.log"))):
        path.rename(logs / f"rocm-ngl{number}-b1.log")
    after = judged(logs, tmp_path / "after")[1]
    for name in ("slower", "everywhere"):
        one, other = only(before, name), only(after, name)
        assert (one.verdict, one.counts, one.contrasts) == (other.verdict, other.counts, other.contrasts)


def test_what_was_asked_is_not_what_was_applied(logs: Path, tmp_path: Path) -> None:
    """A statement about the number that was asked for stays open where no line shows it."""
    asked = HypothesisSpec(
        id="asked",
        text="what is asked is what is placed",
        predicts="all(c.placed == 3 for c in cells if c.gpu_layers == 3 and c.applied > 0)",
        refuted_if="any(c.placed != 3 for c in cells if c.gpu_layers == 3 and c.applied > 0)",
    )
    (alone,) = judged(logs, tmp_path / "before", asked)[1].values()
    assert alone["asked"].verdict is ClaimVerdict.INCONCLUSIVE and "gpu_layers is not known" in alone["asked"].why
    rewrite(logs, lambda text: "$ llama-server -m sample-7L-Q4_0.gguf -ngl 3 -lv 4\n" + text)
    study, claims = judged(logs, tmp_path / "after", asked)
    assert sorted(r.applied.value for r in study.requests) == ["no"] * 6 + ["yes"] * 2, "six had all eight layers"
    assert only(claims, "asked").verdict is ClaimVerdict.SUPPORTED


@pytest.mark.parametrize(
    ("log", "side", "layers", "applied", "outcome"),
    [
        ("llama_cpp/device-lost-prompt.raw", "vulkan", "all", "yes", "device_lost"),
        ("llama_cpp/oom-load.raw", "vulkan", None, "unknown", "oom"),
        ("llama_cpp/vulkan-ngl0-b10434.raw", "vulkan", 0, "yes", "ok"),
        ("llama_cpp/nodevice-b10434.raw", "cpu", 0, "yes", "ok"),
        ("llama_cpp/device-none-b10434.raw", "unknown", 0, "unknown", "ok"),
        ("llama_cpp/lv3-b10068.raw", "unknown", None, "unknown", "ok"),
        ("llama_cpp/segv-warmup-no-words.raw", "vulkan", "all", "yes", "interrupted"),
        ("llama_cpp/fit-two-loads.raw", "vulkan", 99, "no", "interrupted"),
        ("autopsy/silent-cpu.raw", "cpu", 0, "yes", "ok"),
        ("autopsy/cli-rocblas-missing.raw", "rocm", 20, "yes", "abort"),
        ("autopsy/ollama-engine-vulkan-segv.raw", "vulkan", 1, "yes", "crash"),
    ],
)
def test_other_logs(log: str, side: str, layers: int | str | None, applied: str, outcome: str) -> None:
    """A death is its incident; a log that ends in mid work is no failure; a listed card that no line uses is not
    called the one that computed, and a pretended offload is the CPU."""
    (trial,) = study_logs.trials("x", (GOLDEN / log).read_bytes(), "s0")
    assert (trial.side.value, trial.layers, trial.applied.value, trial.outcome.value) == (
        side,
        layers,
        applied,
        outcome,
    )


def test_llama_cli_has_a_speed() -> None:
    """A program that takes no requests is one trial, with its own timing lines."""
    text = (LOGS / "log-01.log").read_text().split("srv  llama_server: model loaded")[0]
    head = "0.00.060.000 I common_perf_print: "
    text = (
        text.rsplit("\n", 1)[0] + f"\n{head}prompt eval time =      10.00 ms /     5 tokens (    2.00 ms per token)\n"
    )
    text += (
        f"{head}       eval time =     100.00 ms /    20 runs   (    5.00 ms per token,   200.00 tokens per second)\n"
    )
    (trial,) = study_logs.trials("cli.txt", text.encode(), "s0")
    assert (trial.outcome, trial.record.tokens, trial.record.rate) == (OutcomeKind.OK, 20, 200.0)
    assert (trial.side, trial.layers) == (Backend.CUDA, "all")


def test_the_verbs(logs: Path, tmp_path: Path) -> None:
    """`import`, `report` and `show` in text and JSON, held against the schemas."""
    runner, store = CliRunner(), ["--store", str(tmp_path / "store")]
    done = runner.invoke(import_.command, [str(logs), "--json", *store], standalone_mode=False)
    document = json.loads(done.stdout)
    jsonschema.validate(document, json.loads((SCHEMAS / "import.json").read_text()))
    assert done.return_value == 0 and document["left_out"] == ["rates.json: no line of a model server"]
    body = json.loads(runner.invoke(report.command, ["logs", "--json", *store], standalone_mode=False).stdout)
    jsonschema.validate(body, json.loads((SCHEMAS / "study.json").read_text()))
    assert {cell["counted_ok"] for cell in body["cells"]} == {None}
    text = runner.invoke(report.command, ["--trials", *store], standalone_mode=False).stdout
    assert "8 trials in 8 logs that came alone" in text and "num_gpu" not in text and "not shown" in text
    shown = runner.invoke(show.command, [f"{document['runs'][0]['run']}.0001", *store], standalone_mode=False).stdout
    assert "log-01.log" in shown and "not shown in the log" in shown


def test_a_hostile_name_is_shown_as_text(logs: Path, tmp_path: Path) -> None:
    """A name may hold anything that a file system lets through; no control character reaches the terminal."""
    (logs / "log-01.log").rename(logs / "a\x1b[31mb\nc.log")
    runner, store = CliRunner(), ["--store", str(tmp_path / "store")]
    for command, arguments in (
        (import_.command, [str(logs)]),
        (report.command, ["--trials"]),
        (show.command, ["last"]),
    ):
        printed = runner.invoke(command, [*arguments, *store], standalone_mode=False).stdout
        assert printed and "\x1b" not in printed
    with open_store(tmp_path / "store") as opened:
        found = [("logs", f) for f in claiming.findings(opened, "logs", studying.names(opened)["logs"])]
    assert found and "\x1b" not in claims_text.findings(found)


def test_the_documents_need_no_store(logs: Path, tmp_path: Path) -> None:
    """Text and JSON come from the nouns alone."""
    with open_store(tmp_path / "store") as store:
        result = importing.run(logs, store)
        study = studying.judge(store, "logs", studying.names(store)["logs"])
    assert "left out: rates.json" in import_text.text(result)
    assert "cpu path" in study_text.text(study)
    assert study_json.document(study)["requests"][0]["client"] is False


def test_the_first_matrix_on_the_h200(shared: Path, tmp_path: Path) -> None:
    """24 raw logs whose two sides were different builds: the tool refuses, from the logs alone."""
    folder = shared / "data" / "h200"
    if not folder.is_dir():
        pytest.skip("../shared/data/h200 is not there")
    study, claims = judged(folder, tmp_path / "store")
    assert len(study.requests) == 24 and all(r.applied is Answer.YES for r in study.requests)
    assert len(claims) == 3
    for found in claims.values():
        for claim in found.values():
            assert claim.verdict is ClaimVerdict.CONFOUNDED
            for contrast in claim.contrasts:
                assert [text.split(":")[0] for text in contrast.differs_in] == ["backend", "version", "cpu path"]
                assert "10435 (unknown)" in contrast.differs_in[1] and "AVX512" in contrast.differs_in[2]
            assert any("leaves backend as the only difference" in text for text in claim.would_decide)
    rates = {row["tag"]: row["tg"] for row in json.loads((folder / "rows.json").read_text())}
    for request in study.requests:
        assert request.record.rate == pytest.approx(rates[request.run.removesuffix(".log")], abs=0.051)
