"""The promise: each fault in the table is really done to a real server, strikes in its phase, and ends as told."""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from pathlib import Path

import natural_crashes
import pytest
from dying_server import Life, live, marked

from judge_samples import died, exchange, record
from real_parts import need_room
from stillruns.act.models import synthetic
from stillruns.act.shim import faults
from stillruns.act.shim.faults import FAULTS, Fault
from stillruns.model.phase import Phase

pytestmark = pytest.mark.engine

QUICK = {
    "init:segv",
    "load:abort",
    "load:oom",
    "reserve:oom",
    "warmup:segv",
    "warmup:oom",
    "prompt:segv",
    "prompt:oom",
    "prompt:nan",
    "prompt:stuck",
    "decode:kill",
    "decode:exit",
    "decode:wrong",
    "decode:fork",
    "decode:flood",
    "teardown:segv",
}
"""One of each kind and phase; the others are `slow`."""


def cases(needs: str) -> list[object]:
    """The table's entries for one kind of device, with their ids and marks."""
    return [
        pytest.param(fault, id=fault.id, marks=() if fault.id in QUICK and needs == "any" else pytest.mark.slow)
        for fault in FAULTS
        if fault.needs in ("any", needs)
    ]


def check(fault: Fault, seen: Life, marker: str, clean: list[int]) -> None:
    """Everything that the table promises about one trial. `clean` are the tokens without a fault."""
    fired = [line for line in seen.fault_log.splitlines() if line.startswith("fired ")]
    assert len(fired) == 1, f"it struck {len(fired)} times; the server's log ends with {seen.log[-600:]!r}"
    assert f"phase={fault.phase.value} kind={fault.kind} " in fired[0]
    assert b"stillruns_fault" not in seen.log, "the server's log must not tell what was done to it"
    assert seen.end in fault.ends
    assert seen.http == fault.http
    assert seen.hung == (fault.kind == "hang")
    assert seen.ready == (fault.http is not None or fault.phase in (Phase.PROMPT, Phase.DECODE))
    left = marked(marker, fault.orphans)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert len(left) == fault.orphans
    if fault.http == 200 and fault.kind not in ("wrong", "nan", "stuck"):
        assert seen.tokens == clean
    elif fault.kind in ("wrong", "stuck"):
        assert seen.tokens != clean
        assert len(seen.tokens) == len(clean)
    first = 1 if fault.phase is Phase.DECODE else 0  # the first token comes from the prompt
    if fault.kind == "nan":
        assert all(value is None for value in seen.logprobs[first:])
    if fault.kind == "wrong":
        assert seen.tokens[:first] == clean[:first]
    if fault.kind == "stuck":
        assert len(set(seen.tokens)) == 1


@pytest.fixture(scope="module")
def clean_tokens(model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[int]]:
    """Tokens without a fault, by server and device; filled as they are needed."""
    return {}


@pytest.mark.parametrize("fault", cases("any"))
def test_on_the_cpu(
    fault: Fault, server: Path, shim: Path, model: Path, tmp_path: Path, clean_tokens: dict[str, list[int]]
) -> None:
    """`--device none`: phase, kind, end, HTTP status and what is left behind are those of the table."""
    if str(server) not in clean_tokens:
        clean_tokens[str(server)] = live(server, model, tmp_path, {}).tokens
    marker = f"STILLRUNS_TRIAL={uuid.uuid4().hex}"
    env = faults.environment(fault.id, shim)
    env |= {"STILLRUNS_FAULT_FLOOD_MB": "4", "STILLRUNS_TRIAL": marker.partition("=")[2]}
    seen = live(server, model, tmp_path, env, hangs=fault.kind == "hang")
    check(fault, seen, marker, clean_tokens[str(server)])
    if fault.kind == "flood":
        assert len(seen.log) > 4 << 20


@pytest.mark.vulkan
@pytest.mark.parametrize("fault", cases("vulkan"))
def test_on_vulkan(
    fault: Fault,
    server: Path,
    shim: Path,
    model: Path,
    tmp_path: Path,
    vulkan: dict[str, str],
    clean_tokens: dict[str, list[int]],
) -> None:
    """All layers on a Vulkan device: the same, and the loss of the device besides."""
    key = f"vulkan {server}"
    if key not in clean_tokens:  # also fills the shader cache, which may take a minute
        clean_tokens[key] = live(server, model, tmp_path, vulkan, args=("-ngl", "99"), patience=280).tokens
    marker = f"STILLRUNS_TRIAL={uuid.uuid4().hex}"
    env = vulkan | faults.environment(fault.id, shim)
    env |= {"STILLRUNS_FAULT_FLOOD_MB": "4", "STILLRUNS_TRIAL": marker.partition("=")[2]}
    seen = live(server, model, tmp_path, env, args=("-ngl", "99"), hangs=fault.kind == "hang")
    check(fault, seen, marker, clean_tokens[key])
    if fault.kind == "device_lost":
        assert b"DeviceLost" in seen.log or b"device lost" in seen.log
    if fault.kind == "oom" and fault.phase in (Phase.LOAD, Phase.RESERVE):
        assert b"ErrorOutOfDeviceMemory" in seen.log


def nan_from(n: int, seen: Life) -> bool:
    """Whether the first `n` tokens have a log-probability and no later one has."""
    return [value is None for value in seen.logprobs] == [False] * n + [True] * (len(seen.tokens) - n)


def test_counts_arrivals(server: Path, shim: Path, model: Path, tmp_path: Path) -> None:
    """The fifth decode makes the sixth token: five come before it, the prompt's and those of four decodes. What a
    server that dies there has not sent yet, from another thread, is lost: then at most five are seen."""
    seen = live(server, model, tmp_path, faults.environment("decode:nan:5", shim))
    assert nan_from(5, seen) and "n=5 " in seen.fault_log
    dead = live(server, model, tmp_path, faults.environment("decode:segv:5", shim), stream=True)
    assert (dead.end, dead.streamed <= 5) == ("SIGSEGV", True) and "kind=segv" in dead.fault_log


def test_visible_phase() -> None:
    """Only a server that died by itself, without a token sent, may have died in decode and look like the prompt."""
    segv, prompt, hang = (next(f for f in FAULTS if f.id == i) for i in ("decode:segv", "prompt:segv", "decode:hang"))
    nothing, some = exchange(tokens_seen=0, error="the connection was reset"), exchange(tokens_seen=1)
    assert segv.visible_phase(record(end=died("SIGSEGV"), exchange=nothing)) is Phase.PROMPT
    assert segv.visible_phase(record(end=died("SIGSEGV"), exchange=some)) is Phase.DECODE
    assert prompt.visible_phase(record(end=died("SIGSEGV"), exchange=some)) is Phase.PROMPT
    stopped = record(end=died("SIGKILL", stopped_by_us="SIGKILL"), exchange=nothing)
    assert hang.visible_phase(stopped) is Phase.DECODE


@pytest.mark.parametrize("arch", ["qwen3", "qwen35"])
def test_phases_of_other_architectures(
    arch: str, server: Path, shim: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Prompt and decode are told apart where the server keeps the prompt's last tokens for a batch of their own."""
    other = synthetic.ensure(synthetic.parse(f"synth:{arch}"), tmp_path)
    seen = live(server, other, tmp_path, faults.environment("decode:nan:3", shim))
    assert nan_from(3, seen)


def test_no_warmup(server: Path, shim: Path, model: Path, tmp_path: Path) -> None:
    """Without the warm-up run the first prompt is still the first prompt."""
    seen = live(
        server,
        model,
        tmp_path,
        faults.environment("prompt:abort", shim),
        args=("--device", "none", "--no-warmup"),
    )
    assert (seen.ready, seen.end) == (True, "SIGABRT")


def test_a_named_function(server: Path, shim: Path, model: Path, tmp_path: Path) -> None:
    """The low-level form strikes at the Nth call of that function, in whatever phase that is."""
    fault = "symbol=ggml_backend_sched_graph_compute_async:abort:1"
    seen = live(server, model, tmp_path, faults.environment(fault, shim))
    assert seen.end == "SIGABRT"
    assert "phase=warmup kind=abort symbol=ggml_backend_sched_graph_compute_async n=1 " in seen.fault_log


def test_silent_without_a_log(server: Path, shim: Path, model: Path, tmp_path: Path) -> None:
    """Without STILLRUNS_FAULT_LOG not a word is written anywhere."""
    env = faults.environment("prompt:segv", shim) | {"STILLRUNS_FAULT_LOG": ""}
    seen = live(server, model, tmp_path, env)
    assert seen.end == "SIGSEGV"
    assert b"segv" not in seen.log
    assert sorted(path.name for path in tmp_path.iterdir()) == ["server.log"]


def test_preloaded_without_a_fault(server: Path, shim: Path, model: Path, tmp_path: Path) -> None:
    """The library alone changes nothing."""
    plain = live(server, model, tmp_path, {})
    loaded = live(server, model, tmp_path, {"LD_PRELOAD": str(shim)})
    assert (loaded.end, loaded.tokens, loaded.logprobs) == ("exit 0", plain.tokens, plain.logprobs)
    assert loaded.tokens


@pytest.mark.slow
@pytest.mark.vulkan
def test_a_named_vulkan_function(
    server: Path, shim: Path, model: Path, tmp_path: Path, vulkan: dict[str, str]
) -> None:
    """No Vulkan instance: the server runs on the CPU without a word, which is the trap that `applied` exists for."""
    env = vulkan | faults.environment("symbol=vkCreateInstance:oom:1", shim)
    seen = live(server, model, tmp_path, env, args=("-ngl", "99"))
    assert (seen.end, seen.http) == ("exit 0", 200)
    assert b"offloaded 5/5 layers to GPU" in seen.log
    assert b"using device Vulkan0" not in seen.log


@pytest.mark.slow
def test_a_whole_flood(server: Path, shim: Path, model: Path, tmp_path: Path) -> None:
    """By default it is 200 MB."""
    need_room(tmp_path, 512)
    seen = live(server, model, tmp_path, faults.environment("decode:flood", shim))
    assert seen.end == "exit 0"
    assert len(seen.log) > 200 << 20


@pytest.mark.real
@pytest.mark.vulkan
@pytest.mark.parametrize("crash", natural_crashes.NATURAL, ids=lambda crash: crash.id)
def test_natural_crashes(
    crash: natural_crashes.NaturalCrash, server: Path, model: Path, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Two Vulkan drivers that a real server dies of, with nothing injected."""
    root = Path(pytestconfig.cache.mkdir("chromium-common"))  # type: ignore[union-attr]
    script = Path(__file__).parents[3] / "scripts" / "fetch_icds.sh"
    fetched = subprocess.run([str(script), str(root)], capture_output=True, text=True, timeout=280)
    if fetched.returncode:
        pytest.skip(fetched.stderr.strip())
    env = natural_crashes.environment(crash, root, tmp_path)
    seen = live(server, model, tmp_path, env, args=crash.args)
    assert seen.end in crash.ends
    assert not seen.ready
    assert crash.device.encode() in seen.log
    assert crash.says.encode() in seen.log
