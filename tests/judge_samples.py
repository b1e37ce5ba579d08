"""Building blocks for the tests of `judge`: what a healthy llama-server b10068 leaves behind, and changes to it.

Numbers and lines are those of real logs of that build at `-lv 4` on lavapipe and on the CPU.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.agreement import Agreement, OutputVerdict
from stillruns.model.applied import Answer, Applied, FactorApplied
from stillruns.model.backend import Backend, Runtime
from stillruns.model.component import Component
from stillruns.model.condition import Condition
from stillruns.model.engine import Engine
from stillruns.model.exchange import Answered, Exchange, TokenProb
from stillruns.model.outcome import Outcome, OutcomeKind
from stillruns.model.phase import Phase
from stillruns.model.process import CoreNotes, ProcessEnd
from stillruns.model.server_facts import Buffer, Offload, PhaseSpan, SeenDevice, ServerFacts, Trouble
from stillruns.model.trial import Sighting, TrialRecord
from stillruns.model.verdict import TrialVerdict

BINARY = "/opt/llama/llama-server"
NO_CORE = Absence(AbsenceReason.NOT_COLLECTED, "no core was written")
NO_LOG = Absence(AbsenceReason.NOT_COLLECTED, "the server printed nothing")
NO_ANSWER = Absence(AbsenceReason.NOT_COLLECTED, "there is no answer")
ENGINE = Engine(
    binary=BINARY,
    sha256="sha256:" + "ab" * 32,
    libraries={},
    version="build 1 (571d0d5)",
    flags=frozenset({"--device", "-ngl"}),
    values={},
    devices=(),
)


def condition(**changes: Any) -> Condition:
    """A Vulkan cell with 2 layers; `backend=Backend.CPU` alone makes the cpu cell of it."""
    if changes.get("backend") is Backend.CPU:
        changes = {"backend_id": "cpu", "gpu_layers": "none", "device": "none", **changes}
    base = Condition(
        backend_id="vulkan",
        backend=Backend.VULKAN,
        runtime=Runtime.LLAMA_CPP,
        gpu_layers=2,
        model="/models/tiny.gguf",
        prompt="The quick brown fox",
        seed=1,
        predict=32,
        context=256,
        batch=256,
        ubatch=256,
        threads=1,
        flash_attention="off",
        device="Vulkan0",
    )
    return replace(base, **changes)


def argv(condition: Condition) -> tuple[str, ...]:
    """The command line that asks for a condition."""
    layers = {"none": "0", "all": "all"}.get(str(condition.gpu_layers), str(condition.gpu_layers))
    words = f"{BINARY} -m {condition.model} --device {condition.device} -ngl {layers} -c {condition.context}"
    words += (
        f" -b {condition.batch} -ub {condition.ubatch} -t {condition.threads} -fa {condition.flash_attention} -lv 4"
    )
    return (*words.split(), *condition.args)


SETTINGS = {
    "n_ctx": ("256", "s0:L113"),
    "n_batch": ("256", "s0:L115"),
    "n_ubatch": ("256", "s0:L116"),
    "flash_attn": ("disabled", "s0:L118"),
    "n_threads": ("1", "s0:L6"),
}

CPU_BUFFERS = (Buffer("CPU_Mapped", "model", 0.19, "s0:L108"), Buffer("CPU", "compute", 0.69, "s0:L140"))


def facts(**changes: Any) -> ServerFacts:
    """A healthy Vulkan server with 2 of 5 layers: the output layer and one repeating layer."""
    base = ServerFacts(
        runtime=Runtime.LLAMA_CPP,
        version="b10068",
        verbosity=4,
        devices=(SeenDevice("Vulkan0", Backend.VULKAN, "llvmpipe", "s0:L4", used="s0:L46"),),
        backends_loaded=(),
        offload=Offload(2, 5, 1, True, 0, "s0:L107"),
        buffers=(
            Buffer("CPU_Mapped", "model", 0.15, "s0:L108"),
            Buffer("Vulkan0", "model", 0.05, "s0:L109"),
            Buffer("Vulkan0", "compute", 0.63, "s0:L142"),
            Buffer("Vulkan_Host", "compute", 0.26, "s0:L143"),
        ),
        settings=dict(SETTINGS),
        phases=(PhaseSpan(Phase.INIT, "s0:L1", "s0:L20"), PhaseSpan(Phase.LOAD, "s0:L21", "s0:L110")),
        last_phase=Phase.TEARDOWN,
        troubles=(),
        timings=(),
        system_info={},
        model_loaded="s0:L175",
        clean_end="s0:L190",
    )
    return msgspec.structs.replace(base, **changes)


def zero_layers(**changes: Any) -> ServerFacts:
    """A healthy Vulkan server with 0 layers: no model buffer on the device, but a compute buffer."""
    base = facts(
        offload=Offload(0, 5, 0, None, 0, "s0:L106"),
        buffers=(
            Buffer("CPU_Mapped", "model", 0.19, "s0:L107"),
            Buffer("Vulkan0", "compute", 0.63, "s0:L139"),
            Buffer("Vulkan_Host", "compute", 0.26, "s0:L140"),
        ),
    )
    return msgspec.structs.replace(base, **changes)


def on_the_cpu(**changes: Any) -> ServerFacts:
    """What llama-server prints with no usable device: everything on the CPU, and yet `offloaded 5/5`."""
    base = facts(devices=(), offload=Offload(5, 5, 4, True, 0, "s0:L107"), buffers=CPU_BUFFERS)
    return msgspec.structs.replace(base, **changes)


def died_in_load(**changes: Any) -> ServerFacts:
    """A log that ends in the middle of loading, before the layer line, with the device listed and in use."""
    base = facts(
        offload=Absence(AbsenceReason.NOT_COLLECTED, "the log ends before the layer line"),
        buffers=(),
        settings={},
        last_phase=Phase.LOAD,
        model_loaded=None,
        clean_end=None,
    )
    return msgspec.structs.replace(base, **changes)


def end(**changes: Any) -> ProcessEnd:
    """A clean end after our SIGTERM."""
    base = ProcessEnd(
        exit_status=0,
        signal=None,
        core_dumped=False,
        stopped_by_us="SIGTERM",
        seconds=1.5,
        cpu_seconds=0.4,
        max_rss_kib=84_000,
    )
    return replace(base, **changes)


def died(signal: str, **changes: Any) -> ProcessEnd:
    """Ended by a signal that nobody of us sent."""
    return end(**{"exit_status": None, "signal": signal, "stopped_by_us": None, "core_dumped": True, **changes})


def exchange(**changes: Any) -> Exchange:
    """A whole answer of 32 tokens."""
    base = Exchange(
        sent_at=0.5,
        first_token_at=0.6,
        ended_at=0.9,
        status=200,
        error="",
        timed_out="",
        evidence="s2",
        tokens_seen=32,
    )
    return replace(base, **changes)


def record(asked: Condition | None = None, **changes: Any) -> TrialRecord:
    """The record of a healthy trial; `ready_at=None` and the like go to its sighting."""
    asked = asked or condition()
    sighting = {"ready_at": 0.4, "stop_sent_at": 1.0, "ended_at": 1.5}
    sighting.update({k: changes.pop(k) for k in list(changes) if k in Sighting.__dataclass_fields__})
    base = TrialRecord(
        trial="t1",
        run="r1",
        cell="backend=vulkan,gpu_layers=2",
        index=0,
        started="2026-11-30T09:00:00Z",
        ended="2026-11-30T09:00:02Z",
        argv=argv(asked),
        env=dict(asked.env),
        sighting=Sighting(**sighting),
        end=end(),
        exchange=exchange(),
        core=NO_CORE,
        evidence=(),
    )
    return replace(base, **changes)


def core(module: str | None, signal: str = "SIGSEGV", modules: tuple[str, ...] = ()) -> CoreNotes:
    """A core whose instruction pointer was in `module`, at 0x1f40."""
    return CoreNotes(signal, 8, 0x7F0000001F40, module, None if module is None else 0x1F40, modules, 3)


def trouble(kind: OutcomeKind, phase: Phase, rank: int = 50, line: int = 150, **changes: Any) -> Trouble:
    """A line that a crash pattern explains."""
    base = Trouble(
        pattern=f"test-{kind.value}",
        outcome=kind,
        components=(Component.GGML_BACKEND,),
        rank=rank,
        ref=f"s0:L{line}",
        text=f"a line that says {kind.value}",
        phase=phase,
    )
    return msgspec.structs.replace(base, **changes)


def answered(tokens: list[int] | None = None, **changes: Any) -> Answered:
    """An answer of eight different tokens without log-probabilities."""
    base = Answered(
        status=200,
        finished=True,
        text="text",
        tokens=tuple(tokens if tokens is not None else range(8)),
        probs=(),
        prompt_tokens=19,
        prompt_per_second=1000.0,
        predicted_per_second=500.0,
        stop_reason="limit",
    )
    return replace(base, **changes)


def with_probs(tokens: list[int], shift: float = 0.0) -> Answered:
    """Every token with six rivals a nat apart; `shift` pushes every second rival by that many nats."""
    probs = []
    for token in tokens:
        top = [(token, -0.5)] + [(1000 + i, -1.5 - i + (shift if i % 2 else -shift)) for i in range(6)]
        probs.append(TokenProb(token, -0.5, tuple(top)))
    return answered(tokens, probs=tuple(probs))


def verdict(
    kind: OutcomeKind = OutcomeKind.OK,
    status: Answer = Answer.YES,
    *,
    cell: str = "backend=vulkan,gpu_layers=2",
    phase: Phase = Phase.PROMPT,
    detail: str = "",
    factor: str = "backend",
    why: str = "",
    output: OutputVerdict | None = None,
    speed: float | None = None,
) -> TrialVerdict:
    """A judged trial, for counting and planning."""
    factors = {factor: FactorApplied(status, "vulkan", None, why)}
    agreement = None if output is None else Agreement(output, 32, None, 0.0, None, 0.1, "")
    return TrialVerdict(
        trial="t",
        cell=cell,
        index=0,
        outcome=Outcome(kind, phase, detail=detail),
        applied=Applied(status, why, factors),
        placement=None,
        agreement=agreement,
        tokens_per_second=speed,
        seconds=1.0,
    )
