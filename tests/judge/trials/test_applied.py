"""Tests of judge/trials/applied.py and its proofs: whether the asked condition really was the condition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from judge_samples import (
    CPU_BUFFERS,
    ENGINE,
    NO_LOG,
    SETTINGS,
    condition,
    core,
    died,
    died_in_load,
    exchange,
    facts,
    on_the_cpu,
    record,
    trouble,
    zero_layers,
)
from stillruns.judge.trials.applied import judge
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.applied import Answer, Applied
from stillruns.model.backend import Backend, Runtime
from stillruns.model.condition import Condition
from stillruns.model.outcome import OutcomeKind
from stillruns.model.phase import Phase
from stillruns.model.placement import Placement
from stillruns.model.server_facts import Buffer, Offload, SeenDevice, ServerFacts

HIDDEN = Absence(AbsenceReason.HIDDEN, "the line is hidden below -lv 4")


def applied(asked: Condition, seen: ServerFacts | Absence, **changes: Any) -> tuple[Applied, Placement | None]:
    """Judge a healthy record under `asked`, with changes to the record."""
    return judge(asked, ENGINE, seen, record(asked, **changes))


def test_a_healthy_vulkan_trial() -> None:
    """`using device`, a model buffer and 2 of 5 layers are the whole proof, with the lines that carry it."""
    got, placement = applied(condition(), facts())
    assert got.status is Answer.YES, got.why
    assert placement == Placement(1, True, 5)
    assert got.factors["backend"].refs == ("s0:L46", "s0:L109")
    assert got.factors["gpu_layers"].got == "2/5"
    assert set(got.factors) >= {
        "binary",
        "model",
        "device",
        "context",
        "batch",
        "ubatch",
        "threads",
        "flash_attention",
    }


def test_zero_layers_need_a_compute_buffer_only() -> None:
    """A healthy Vulkan server with 0 layers has no model buffer on the device."""
    got, placement = applied(condition(gpu_layers=0), zero_layers())
    assert got.status is Answer.YES, got.why
    assert placement == Placement(0, False, 5)


@pytest.mark.parametrize("layers", [0, 2, 5, "all"])
def test_a_silent_cpu_run_is_void(layers: int | str) -> None:
    """`offloaded 5/5 layers to GPU` without a device is a run on the CPU, whatever was asked."""
    got, placement = applied(condition(gpu_layers=layers), on_the_cpu())
    assert got.status is Answer.NO
    assert got.why.startswith("ran on the CPU: ")
    assert placement == Placement(0, False, 5)


def test_a_device_without_buffers_is_void() -> None:
    """`using device` alone does not do: the buffers show where the work was."""
    got, _ = applied(condition(), facts(buffers=CPU_BUFFERS))
    assert got.status is Answer.NO and got.why.startswith("ran on the CPU: no model buffer on Vulkan0")


def test_pinned_host_memory_is_not_the_device() -> None:
    """A `Vulkan_Host` buffer lies in the host's memory."""
    host = (Buffer("Vulkan_Host", "model", 1.0, "s0:L9"), *CPU_BUFFERS)
    assert applied(condition(), facts(buffers=host))[0].status is Answer.NO


def test_clipping() -> None:
    """More layers than the model has are clipped by the runtime: applied, with that said; `all` means all."""
    whole = facts(offload=Offload(5, 5, 4, True, 0, "s0:L107"))
    for asked in (99, 5, "all"):
        got, placement = applied(condition(gpu_layers=asked), whole)
        assert got.status is Answer.YES, got.why
        assert placement == Placement(4, True, 5)
    assert "the model has no more" in applied(condition(gpu_layers=99), whole)[0].why
    got, _ = applied(condition(gpu_layers="all"), facts())
    assert got.status is Answer.NO and got.why.startswith("other placement: 2/5")


def test_old_placement_without_the_output_layer() -> None:
    """Runtimes that take the output layer last show another placement for the same number."""
    _, placement = applied(condition(), facts(offload=Offload(2, 5, 2, False, 0, "s0:L107")))
    assert placement == Placement(2, False, 5)
    _, placement = applied(condition(), facts(offload=Offload(2, 5, None, None, 0, "s0:L107")))
    assert placement is None


def test_overflowing_layers_are_not_wholly_there() -> None:
    """Layers that are only partly on the device are not the asked placement."""
    got, _ = applied(condition(), facts(offload=Offload(2, 5, 1, True, 1, "s0:L107")))
    assert got.status is Answer.NO and "not wholly offloaded" in got.why


def test_another_backend_or_device_is_void() -> None:
    """The backend's identity comes from the device line, never from the label in the spec."""
    rocm = (SeenDevice("ROCm0", Backend.ROCM, "gfx906", "s0:L4", used="s0:L46"),)
    assert applied(condition(), facts(devices=rocm))[0].why.startswith("ran on ROCm0: ")
    second = (SeenDevice("Vulkan1", Backend.VULKAN, "x", "s0:L4", used="s0:L46"),)
    buffers = tuple(
        msgspec.structs.replace(b, device="Vulkan1") if b.device == "Vulkan0" else b for b in facts().buffers
    )
    got, _ = applied(condition(), facts(devices=second, buffers=buffers))
    assert got.status is Answer.NO and got.why.startswith("ran on Vulkan1: the asked device is Vulkan0")
    both = (*facts().devices, *rocm)
    assert applied(condition(), facts(devices=both))[0].why.startswith("also ran on ROCm0")
    assert applied(condition(device=""), facts())[0].status is Answer.YES


def test_several_devices() -> None:
    """All asked devices must be used and hold something; RPC devices are named with their address in buffers."""
    rpc = SeenDevice("RPC0", Backend.RPC, "127.0.0.1:50052", "s0:L4", used="s0:L46")
    other = msgspec.structs.replace(rpc, name="RPC1", used="s0:L47")
    asked = condition(backend=Backend.RPC, backend_id="rpc", device="RPC0,RPC1")
    buffers = (
        Buffer("RPC0[127.0.0.1:50052]", "model", 0.1, "s0:L50"),
        Buffer("RPC1[127.0.0.1:50053]", "model", 0.1, "s0:L51"),
        *CPU_BUFFERS,
    )
    assert applied(asked, facts(devices=(rpc, other), buffers=buffers))[0].status is Answer.YES
    got, _ = applied(asked, facts(devices=(rpc, other), buffers=buffers[:1] + CPU_BUFFERS))
    assert got.status is Answer.NO and "left RPC1 idle" in got.why
    assert applied(asked, facts(devices=(rpc,), buffers=buffers))[0].status is Answer.NO


@pytest.mark.parametrize("hidden", [("devices", "offload", "buffers"), ("offload",)])
def test_hidden_lines_are_unknown(hidden: tuple[str, ...]) -> None:
    """A line that the runtime hides is unknown with the reason, never 0 and never yes."""
    changes: dict[str, Any] = {"hidden": hidden, "offload": HIDDEN}
    if "devices" in hidden:
        changes.update(devices=(), buffers=())
    got, placement = applied(condition(), facts(**changes))
    assert got.status is Answer.UNKNOWN and "hid" in got.why
    assert placement is None


def test_hidden_buffers_are_unknown() -> None:
    """With the device line but hidden buffer lines the proof is not whole."""
    got, _ = applied(condition(), facts(hidden=("buffers",), buffers=()))
    assert got.status is Answer.UNKNOWN


def test_death_before_the_layer_line() -> None:
    """A trial that died in load counts: this binary, these arguments, the device in its lines, nothing against it."""
    early: dict[str, Any] = {"ready_at": None, "stop_sent_at": None, "exchange": None, "end": died("SIGSEGV")}
    got, placement = applied(condition(), died_in_load(), **early)
    assert got.status is Answer.YES and placement is None
    assert "died in load, before its buffer lines" in got.why
    listed = died_in_load(devices=(SeenDevice("Vulkan0", Backend.VULKAN, "x", "s0:L4"),), last_phase=Phase.INIT)
    assert "died in init, before the layer line" in applied(condition(), listed, **early)[0].why


def test_death_before_any_line() -> None:
    """Without a line the mapped library or the core's modules are the sign; without any sign it is unknown."""
    early: dict[str, Any] = {"ready_at": None, "stop_sent_at": None, "exchange": None, "end": died("SIGSEGV")}
    assert applied(condition(), NO_LOG, **early)[0].status is Answer.UNKNOWN
    mapped = {"mapped_libraries": ("/opt/lib/libggml-vulkan.so.0",)}
    assert applied(condition(), NO_LOG, **early, **mapped)[0].status is Answer.YES
    dump = core("/usr/lib/libc.so.6", modules=("/usr/lib/libc.so.6", "/opt/lib/libggml-vulkan.so.0"))
    assert applied(condition(), NO_LOG, **early, core=dump)[0].status is Answer.YES
    empty = died_in_load(devices=(), hidden=("devices",))
    assert applied(condition(), empty, **early)[0].status is Answer.UNKNOWN
    line = died_in_load(devices=(), troubles=(trouble(OutcomeKind.OOM, Phase.LOAD, device="Vulkan0"),))
    assert applied(condition(), line, **early)[0].status is Answer.YES


def test_a_ready_trial_needs_the_whole_proof() -> None:
    """What a failed trial may lack, a trial that became ready may not."""
    got, _ = applied(condition(), died_in_load(devices=()), ready_at=0.4)
    assert got.status is not Answer.YES
    assert applied(condition(), NO_LOG)[0].status is Answer.UNKNOWN


def test_evidence_against_beats_an_early_death() -> None:
    """A load on the CPU that then crashed is void, not a failure of Vulkan."""
    seen = on_the_cpu(model_loaded=None)
    got, _ = applied(condition(), seen, ready_at=None, exchange=None, end=died("SIGSEGV"))
    assert got.status is Answer.NO and got.why.startswith("ran on the CPU")


def test_the_cpu_cell() -> None:
    """The reference runs with `--device none`: no device in use, all buffers on the host, 5/5 printed or not."""
    asked = condition(backend=Backend.CPU)
    got, placement = applied(asked, on_the_cpu())
    assert got.status is Answer.YES, got.why
    assert placement == Placement(0, False, 5)
    assert got.factors["gpu_layers"].got == "0"
    assert applied(asked, zero_layers())[0].status is Answer.NO
    assert applied(asked, on_the_cpu(buffers=facts().buffers))[0].status is Answer.NO
    assert applied(asked, on_the_cpu(hidden=("buffers",), buffers=()))[0].status is Answer.UNKNOWN
    early: dict[str, Any] = {"ready_at": None, "exchange": None, "end": died("SIGILL")}
    assert applied(asked, NO_LOG, **early)[0].status is Answer.YES


def test_the_expected_library() -> None:
    """A library that is missing from a living server's maps refutes; one that is there proves nothing."""
    asked = condition(expect_library="libggml-vulkan.so")
    there = {"mapped_libraries": ("/opt/lib/libggml-vulkan.so.0", "/usr/lib/libc.so.6")}
    assert applied(asked, facts(), **there)[0].status is Answer.YES
    assert applied(asked, on_the_cpu(), **there)[0].status is Answer.NO
    got, _ = applied(asked, facts(), mapped_libraries=("/usr/lib/libc.so.6",))
    assert got.status is Answer.NO and "was not mapped" in got.why


@pytest.mark.parametrize(
    ("asked", "printed", "status", "said"),
    [
        ({"context": 300}, {"n_ctx": "512"}, Answer.YES, "padded to 512"),
        ({"context": 40, "batch": 512}, {"n_ctx": "256", "n_batch": "40", "n_ubatch": "40"}, Answer.YES, "clipped"),
        ({"context": 512}, {"n_ctx": "256"}, Answer.NO, "other context"),
        ({"batch": 512}, {}, Answer.YES, "batch 512 clipped to the context's 256"),
        ({"batch": 128}, {}, Answer.NO, "other batch size"),
        ({"ubatch": 512}, {}, Answer.YES, "clipped to the batch's 256"),
        ({"ubatch": 64}, {}, Answer.NO, "other physical batch size"),
        ({"batch": 32, "ubatch": 32}, {"n_batch": "64", "n_ubatch": "32"}, Answer.YES, "raised to 64"),
        ({"threads": 2}, {}, Answer.NO, "other number of threads"),
        ({"flash_attention": "on"}, {}, Answer.NO, "flash attention is off"),
        ({"flash_attention": "on"}, {"flash_attn": "enabled"}, Answer.YES, ""),
        ({"flash_attention": "auto"}, {"flash_attn": "enabled"}, Answer.YES, "auto came out as on"),
        ({"flash_attention": "on"}, {"flash_attn": "auto"}, Answer.UNKNOWN, "does not say"),
    ],
)
def test_the_servers_own_numbers(asked: dict[str, Any], printed: dict[str, str], status: Answer, said: str) -> None:
    """What the runtime pads or clips is applied, with that said; any other number than the asked one is not."""
    settings = {**SETTINGS, **{name: (value, "s0:L113") for name, value in printed.items()}}
    got, _ = applied(condition(**asked), facts(settings=settings))
    assert got.status is status, got.why
    assert said in got.why


def test_numbers_that_are_not_printed() -> None:
    """llama.cpp refuses what it does not know: a flag on the command line of a ready server was accepted."""
    got, _ = applied(condition(), facts(settings={}))
    assert got.status is Answer.YES, got.why
    bare = record(condition(), argv=(ENGINE.binary, "-m", "/models/tiny.gguf"))
    got, _ = judge(condition(), ENGINE, facts(settings={}), bare)
    assert got.status is Answer.UNKNOWN and "neither printed nor on the command line" in got.why


def test_binary_arguments_environment_model() -> None:
    """The trial's own command line and environment must hold what was asked."""
    asked = condition(args=("--no-repack",), env={"GGML_VK_VISIBLE_DEVICES": "0"})
    assert applied(asked, facts())[0].status is Answer.YES
    assert applied(asked, facts(), env={})[0].why.startswith("environment not set")
    assert judge(asked, ENGINE, facts(), record(condition(), env=asked.env))[0].why.startswith("arguments missing")
    assert judge(condition(), replace(ENGINE, binary="/x"), facts(), record())[0].why.startswith("another program")
    assert judge(condition(), None, facts(), record())[0].status is Answer.UNKNOWN
    other = condition(model="/models/other.gguf")
    assert judge(other, ENGINE, facts(), record())[0].why.startswith("another model")
    synthetic = condition(model="synth:llama?layers=4")
    assert judge(synthetic, ENGINE, facts(), record())[0].status is Answer.YES


def test_an_attached_server() -> None:
    """Without a log it is unknown; with one, its own lines are judged and no command line is demanded."""
    asked = condition(url="http://127.0.0.1:1", runtime=Runtime.OPENAI, gpu_layers="server", device="")
    theirs = record(asked, argv=(), end=None)
    got, placement = judge(asked, None, NO_LOG, theirs)
    assert got.status is Answer.UNKNOWN and placement is None
    got, placement = judge(asked, None, facts(), theirs)
    assert got.status is Answer.YES, got.why
    assert placement == Placement(1, True, 5)
    assert judge(asked, None, on_the_cpu(), theirs)[0].status is Answer.NO


def test_a_refused_request_is_void() -> None:
    """A prompt longer than the context, or a key that is asked for, is a status of 4xx: nothing was evaluated, so
    nothing of the backend failed."""
    refused = exchange(status=400, error="HTTP 400: request (2001 tokens) exceeds the context")
    got, _ = applied(condition(), facts(), exchange=refused)
    assert got.status is Answer.NO
    assert got.why == "the request was refused with HTTP 400: request (2001 tokens) exceeds the context"
    failed = exchange(status=500, error="HTTP 500: Compute error.")
    assert applied(condition(), facts(), exchange=failed)[0].status is Answer.YES


def test_moved_tensors_hide_the_placement() -> None:
    """`-ot` keeps tensors off the device that the layer line counts as there: no placement is claimed."""
    for args in (("-ot", "blk.*=CPU"), ("--override-tensor", "x=CPU"), ("--cpu-moe",)):
        got, placement = applied(condition(args=args), facts())
        assert got.status is Answer.YES and placement is None
        assert f"less the tensors that {args[0]} keeps elsewhere" in got.why
    by_env = condition(env={"LLAMA_ARG_OVERRIDE_TENSOR": "x=CPU"})
    assert applied(by_env, facts())[1] is None


def test_an_early_death_without_the_backends_device_is_void() -> None:
    """A server that listed all its devices, none of the asked backend, and then died of a broken model: its library
    was mapped, but there was nothing that it could have run on."""
    cpu = SeenDevice("CPU", Backend.CPU, "Xeon", "s0:L5")
    early: dict[str, Any] = {"ready_at": None, "exchange": None, "mapped_libraries": ("/x/libggml-vulkan.so",)}
    got, _ = applied(condition(device=""), died_in_load(devices=(cpu,)), **early)
    assert got.status is Answer.NO and got.why.startswith("no vulkan device: ")
    listed = SeenDevice("Vulkan0", Backend.VULKAN, "Vega", "s0:L4")
    assert applied(condition(), died_in_load(devices=(listed, cpu)), **early)[0].status is Answer.YES
    other = SeenDevice("CUDA0", Backend.CUDA, "P40", "s0:L3")  # an unfinished list
    assert applied(condition(), died_in_load(devices=(other,)), **early)[0].status is Answer.YES


def test_a_log_without_a_load_shows_nothing() -> None:
    """The log of another program, or one that begins after the load: no device line in it says nothing."""
    asked = condition(url="http://127.0.0.1:1", runtime=Runtime.OPENAI, gpu_layers="server", device="")
    silent = Absence(AbsenceReason.NOT_COLLECTED, "x")
    other = facts(devices=(), offload=silent, buffers=(), settings={"n_threads": ("1", "s0:L1")}, model_loaded=None)
    got, _ = judge(asked, None, other, record(asked, argv=(), end=None))
    assert got.factors["backend"].status is Answer.UNKNOWN, got.why
