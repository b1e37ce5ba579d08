"""Trials of a real llama-server: what it says about itself, one good run, and real ways to die."""

from __future__ import annotations

import importlib
import os
import re
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from act_helpers import PATIENT, Shelf, carriers, wait_until

from real_parts import need_loopback
from stillruns import proc
from stillruns.act import trial
from stillruns.act.launcher import children
from stillruns.act.runtimes import llama_cpp, openai
from stillruns.act.runtimes.adapter import FoundRuntime, Occasion, ProbeOutput
from stillruns.act.runtimes.digests import identity
from stillruns.errors import EnvironmentLacks
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.backend import Backend, Runtime
from stillruns.model.condition import Condition
from stillruns.model.engine import Device, Engine
from stillruns.model.process import CoreNotes
from stillruns.model.spec import Timeouts
from stillruns.model.trial import TrialPlan, TrialRecord

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def found() -> FoundRuntime:
    need_loopback()  # before the autouse skip, since a module's fixtures come first
    try:
        return llama_cpp.ADAPTER.find("", os.environ)
    except EnvironmentLacks as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def probed(found: FoundRuntime) -> ProbeOutput:
    return llama_cpp.ADAPTER.probe(found, env={"GGML_VK_VISIBLE_DEVICES": "0"})


@pytest.fixture(scope="module")
def engine(found: FoundRuntime, probed: ProbeOutput) -> Engine:
    text = probed.help.stdout.decode()
    names = re.findall(r"^ *(Vulkan\d+):", probed.devices.stdout.decode(), re.MULTILINE)
    values = {"-fa": ("on", "off", "auto")} if "[on|off|auto]" in text else {}
    flags = frozenset(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", text))
    devices = tuple(Device(name, "") for name in names) or Absence(AbsenceReason.NOT_INSTALLED)
    return Engine(found.binary, "sha256:0", {}, "", flags, values, devices, env=found.env)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        synthetic = importlib.import_module("stillruns.act.models.synthetic")
    except ModuleNotFoundError:
        pytest.skip("this tree has no synthetic models")
    path: Path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    synthetic.write(synthetic.parse("synth:llama?layers=2"), path)
    return path


def planned(engine: Engine, model: Path, **changes: object) -> TrialPlan:
    condition = Condition(
        backend_id="cpu", backend=Backend.CPU, runtime=Runtime.LLAMA_CPP, gpu_layers="none", model=str(model),
        prompt="The quick brown fox", seed=1, predict=8, context=256, batch=64, ubatch=64, threads=1,
        flash_attention="off",
    )  # fmt: skip
    patient = Timeouts(load=120.0, first_token=60.0, token=60.0)
    return llama_cpp.ADAPTER.plan(
        replace(condition, **changes),  # type: ignore[arg-type]
        engine,
        Occasion(f"real-{os.getpid()}", "", "", 0, patient, os.environ),
    )


def test_it_says_who_it_is(probed: ProbeOutput) -> None:
    """Each probe ends by itself and holds what it was asked for."""
    assert probed.help.status == 0 and b"--ctx-size" in probed.help.stdout
    assert b"version" in probed.version.stdout + probed.version.stderr
    assert b"Available devices" in probed.devices.stdout
    assert re.search(rb"system_info: .*(AVX|NEON|SSE)", probed.system.stdout + probed.system.stderr)
    assert not any(p.timed_out for p in (probed.help, probed.version, probed.devices, probed.system))


def test_identity_of_the_real_binary(found: FoundRuntime, tmp_path: Path) -> None:
    """The backends beside it are part of who it is."""
    digest, libraries = identity(Path(found.binary), found.env, tmp_path)
    assert digest.startswith("sha256:") and any(name.startswith("libggml") for name in libraries)


def test_a_good_trial(engine: Engine, model: Path, tmp_path: Path, shelf: Shelf) -> None:
    """All tokens, the final event, exit status 0 after our SIGTERM, and the load lines in the log."""
    record = trial.execute(planned(engine, model), tmp_path / "spool", shelf.put)
    assert record.exchange is not None and record.end is not None
    assert (record.exchange.status, record.exchange.error, record.exchange.tokens_seen) == (200, "", 8)
    assert (record.end.exit_status, record.end.stopped_by_us, record.end.orphans_killed) == (0, "SIGTERM", 0)
    assert record.end.cpu_seconds > 0 and record.end.max_rss_kib > 20_000
    log = shelf.read(record, "stderr") + shelf.read(record, "stdout")
    assert b"load_tensors" in log
    assert any("libggml" in path for path in record.sighting.mapped_libraries)
    again = trial.execute(planned(engine, model), tmp_path / "again", shelf.put)
    answers = [re.findall(rb'"tokens":\[(\d+)\]', shelf.read(r, "response")) for r in (record, again)]
    assert answers[0] == answers[1] and len(answers[0]) == 8


@pytest.mark.vulkan
def test_a_trial_on_vulkan(engine: Engine, model: Path, tmp_path: Path, shelf: Shelf) -> None:
    """The same on a Vulkan device, which a software driver is enough for."""
    if isinstance(engine.devices, Absence):
        pytest.skip("no Vulkan driver: install mesa-vulkan-drivers")
    env = {"GGML_VK_VISIBLE_DEVICES": "0", "MESA_SHADER_CACHE_DIR": str(tmp_path)}
    plan = planned(engine, model, backend=Backend.VULKAN, gpu_layers=1, predict=2, env=env)
    record = trial.execute(plan, tmp_path / "spool", shelf.put)
    assert record.exchange is not None and record.exchange.error == "", record.exchange
    assert b"using device Vulkan0" in shelf.read(record, "stderr")


def test_a_model_that_is_none(engine: Engine, tmp_path: Path, shelf: Shelf) -> None:
    """It ends by itself with an error, before it was ready."""
    (tmp_path / "bad.gguf").write_bytes(b"GGUF but not really")
    record = trial.execute(planned(engine, tmp_path / "bad.gguf"), tmp_path / "spool", shelf.put)
    assert record.exchange is None and record.end is not None
    assert record.end.exit_status not in (0, None) and record.end.stopped_by_us is None


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.slow()
def test_it_dies_or_stops_while_loading(number: signal.Signals, engine: Engine, tmp_path: Path, shelf: Shelf) -> None:
    """A signal out of the blue: its name is in the record, a core where there is one, a hang where it is stopped.

    The model is a pipe that nobody opens for writing: the server waits for it when the signal comes, however late."""
    os.mkfifo(tmp_path / "pipe.gguf")
    plan = planned(engine, tmp_path / "pipe.gguf")
    stopped = number == signal.SIGSTOP
    plan = replace(plan, timeouts=replace(PATIENT, load=5.0, teardown=1.0) if stopped else PATIENT)
    log = tmp_path / "spool/start0/stderr"

    def strike() -> None:
        assert wait_until(lambda: log.exists() and b"loading model" in log.read_bytes())
        (server,) = _servers(plan.trial)
        os.kill(server, number)

    striker = threading.Thread(target=strike)
    striker.start()
    record = trial.execute(plan, tmp_path / "spool", shelf.put)
    striker.join()
    assert record.end is not None
    if stopped:
        assert (record.sighting.timed_out, record.end.stopped_by_us) == ("load", "SIGKILL")
    else:
        assert (record.end.signal, record.end.stopped_by_us) == (number.name, None)
    if number == signal.SIGSEGV and isinstance(record.core, CoreNotes):
        assert record.core.signal == "SIGSEGV" and any("libggml" in path for path in record.core.modules)
    assert carriers(plan.trial) == []


def _servers(name: str) -> list[int]:
    """The server below the launcher."""
    launchers = [pid for pid in children(os.getpid()) if pid in carriers(name)]
    below = [pid for launcher in launchers for pid in children(launcher)]
    return [pid for pid in below if b"llama-server" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]]


@pytest.fixture
def running(engine: Engine, model: Path) -> Iterator[str]:
    """A llama-server that somebody else runs: its address."""
    plan = planned(engine, model)
    port = str(llama_cpp.free_port())
    child = proc.start([word.replace("{port}", port) for word in plan.argv], env=plan.env)
    yield f"http://127.0.0.1:{port}"
    child.signal_group(signal.SIGKILL)
    assert child.reap(60.0) is not None


def test_an_attached_server(running: str, model: Path, tmp_path: Path, shelf: Shelf) -> None:
    """No child and no log, but its answer with log-probabilities and its own name."""
    adapter = openai.ADAPTER
    assert wait_until(lambda: openai.Peer(running).get("/health", 5.0).status == 200)
    found = adapter.find(running + "/v1", {})
    output = adapter.probe(found)
    engine = adapter.engine(found, output)
    assert engine.flags == {"/v1/completions", "logprobs"} and engine.version == "llama.cpp"
    condition = Condition(
        backend_id="other", backend=Backend.UNKNOWN, runtime=Runtime.OPENAI, gpu_layers="all", model=str(model),
        prompt="The quick brown fox", seed=1, predict=4, context=256, batch=64, ubatch=64, threads=1,
        flash_attention="off", url=running,
    )  # fmt: skip
    plan = adapter.plan(condition, engine, Occasion("attached", "", "", 0, Timeouts(load=20.0), {}))
    record: TrialRecord = trial.execute(plan, tmp_path / "spool", shelf.put)
    assert record.end is None and isinstance(record.core, Absence) and record.argv == ()
    assert record.exchange is not None
    assert (record.exchange.status, record.exchange.error, record.exchange.tokens_seen) == (200, "", 4)
    body = shelf.read(record, "response")
    assert b"logprobs" in body and body.endswith(b"data: [DONE]\n\n")
