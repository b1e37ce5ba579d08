"""Tests of judge/trials/outcome.py: the cause before the manner."""

from __future__ import annotations

from typing import Any

import pytest

from judge_samples import (
    NO_ANSWER,
    NO_LOG,
    answered,
    core,
    died,
    died_in_load,
    end,
    exchange,
    facts,
    record,
    trouble,
)
from stillruns.judge.trials.outcome import judge
from stillruns.model.component import Component
from stillruns.model.evidence import Evidence
from stillruns.model.exchange import TokenProb
from stillruns.model.outcome import Outcome, OutcomeKind
from stillruns.model.phase import Phase
from stillruns.model.server_facts import PhaseSpan

GONE: dict[str, Any] = {"stop_sent_at": None}
EARLY: dict[str, Any] = {"ready_at": None, "stop_sent_at": None, "exchange": None}
LOST = exchange(status=None, error="connection reset", tokens_seen=0)


def test_a_healthy_trial_is_ok() -> None:
    """Whole answer, clean end after our SIGTERM: ok, with nothing to blame."""
    seen = judge(record(), facts(), answered())
    assert (seen.kind, seen.signal, seen.detail, seen.components) == (OutcomeKind.OK, None, "", ())


@pytest.mark.parametrize(
    ("changes", "phase"),
    [
        (EARLY, Phase.LOAD),
        ({**GONE, "exchange": LOST}, Phase.PROMPT),
        (
            {**GONE, "exchange": exchange(status=200, error="connection reset after 3 tokens", tokens_seen=3)},
            Phase.DECODE,
        ),
        ({}, Phase.TEARDOWN),
    ],
)
def test_a_crash_in_each_phase(changes: dict[str, Any], phase: Phase) -> None:
    """The log tells the phase before readiness, the exchange after it; after the whole answer it is teardown."""
    where = core("/opt/lib/libggml-vulkan.so")
    whole = phase is Phase.TEARDOWN
    fields = {"end": died("SIGSEGV"), "core": where, **changes}
    seen = judge(
        record(**fields), died_in_load() if changes is EARLY else facts(), answered() if whole else NO_ANSWER
    )
    assert (seen.kind, seen.phase, seen.signal) == (OutcomeKind.CRASH, phase, "SIGSEGV")
    assert seen.detail == f"SIGSEGV in {phase.value}, libggml-vulkan.so+0x1f40"
    assert seen.components == (Component.GGML_BACKEND,)


def test_a_crash_after_our_sigterm() -> None:
    """SIGTERM of ours met with SIGABRT at exit (a real driver does so): an abort in teardown, not a clean end."""
    aborted = end(exit_status=None, signal="SIGABRT", stopped_by_us="SIGTERM")
    seen = judge(record(end=aborted), facts(), answered())
    assert (seen.kind, seen.phase, seen.signal) == (OutcomeKind.ABORT, Phase.TEARDOWN, "SIGABRT")


def test_our_own_signals_are_no_crash() -> None:
    """A server that dies of our SIGTERM, or a container that reports it as 143, ended as it should."""
    for own in (end(exit_status=None, signal="SIGTERM"), end(exit_status=143)):
        assert judge(record(end=own), facts(), answered()).kind is OutcomeKind.OK


def test_a_containers_status_is_a_signal() -> None:
    """128 + N from a wrapper is the signal of what it ran."""
    seen = judge(record(end=end(exit_status=139, stopped_by_us=None), exchange=LOST, **GONE), facts(), NO_ANSWER)
    assert (seen.kind, seen.signal, seen.phase) == (OutcomeKind.CRASH, "SIGSEGV", Phase.PROMPT)


def test_oom_before_sigsegv() -> None:
    """An allocation that failed and then a null pointer: out of memory, with the signal kept."""
    seen_facts = died_in_load(troubles=(trouble(OutcomeKind.OOM, Phase.LOAD),))
    where = core("/opt/lib/libggml-cpu.so")
    seen = judge(record(end=died("SIGSEGV"), core=where, **EARLY), seen_facts, NO_ANSWER)
    assert (seen.kind, seen.signal, seen.phase) == (OutcomeKind.OOM, "SIGSEGV", Phase.LOAD)
    assert seen.detail == "out of memory in load, then SIGSEGV"
    assert (seen.key_line, seen.components) == ("s0:L150", (Component.GGML_BACKEND,))


def test_the_order_of_causes() -> None:
    """Out of memory, then device lost, then hang, then the manner: the first that fits, whatever its rank."""
    both = facts(
        troubles=(
            trouble(OutcomeKind.DEVICE_LOST, Phase.PROMPT, rank=90),
            trouble(OutcomeKind.OOM, Phase.PROMPT, rank=10),
        )
    )
    fields: dict[str, Any] = {"end": died("SIGABRT"), "exchange": LOST, **GONE}
    assert judge(record(**fields), both, NO_ANSWER).kind is OutcomeKind.OOM
    lost = facts(troubles=(trouble(OutcomeKind.DEVICE_LOST, Phase.PROMPT),))
    seen = judge(record(**fields), lost, NO_ANSWER)
    assert (seen.kind, seen.detail) == (OutcomeKind.DEVICE_LOST, "device lost in prompt, then SIGABRT")


def test_device_loss_from_a_living_server() -> None:
    """Device loss in generation is an HTTP 500 from a server that lives on."""
    lost = facts(troubles=(trouble(OutcomeKind.DEVICE_LOST, Phase.DECODE),))
    seen = judge(record(exchange=exchange(status=500, tokens_seen=0)), lost, NO_ANSWER)
    assert (seen.kind, seen.phase, seen.signal) == (OutcomeKind.DEVICE_LOST, Phase.PROMPT, None)
    assert seen.detail == "device lost in prompt, then HTTP 500"
    plain = judge(record(exchange=exchange(status=500, tokens_seen=0)), facts(), NO_ANSWER)
    assert (plain.kind, plain.detail) == (OutcomeKind.ERROR, "HTTP 500 in prompt")


def test_survived_troubles_do_not_count() -> None:
    """An allocation that failed while loading and was made elsewhere is no failure, and no later crash's cause."""
    survived = facts(troubles=(trouble(OutcomeKind.OOM, Phase.LOAD),))
    assert judge(record(), survived, answered()).kind is OutcomeKind.OK
    seen = judge(record(end=died("SIGSEGV"), exchange=LOST, **GONE), survived, NO_ANSWER)
    assert seen.kind is OutcomeKind.CRASH


def test_a_failed_warmup_counts() -> None:
    """A failed warm-up decode leaves the server ready and tokens come: the log makes it an error in warm-up."""
    warm = facts(troubles=(trouble(OutcomeKind.ERROR, Phase.WARMUP),))
    seen = judge(record(), warm, answered())
    assert (seen.kind, seen.phase) == (OutcomeKind.ERROR, Phase.WARMUP)
    assert "although tokens came" in seen.detail and seen.key_line == "s0:L150"


@pytest.mark.parametrize(
    ("deadline", "tokens", "phase"),
    [("first_token", 0, Phase.PROMPT), ("token", 4, Phase.DECODE), ("teardown", 32, Phase.TEARDOWN)],
)
def test_a_hang_names_its_phase(deadline: str, tokens: int, phase: Phase) -> None:
    """A deadline that passed is a hang; that SIGTERM was ignored is said."""
    killed = end(exit_status=None, signal="SIGKILL", stopped_by_us="SIGKILL")
    timed = "" if deadline == "teardown" else deadline
    seen = judge(
        record(end=killed, exchange=exchange(timed_out=timed, tokens_seen=tokens), timed_out=deadline),
        facts(),
        answered() if deadline == "teardown" else NO_ANSWER,
    )
    assert (seen.kind, seen.phase, seen.signal) == (OutcomeKind.HANG, phase, None)
    assert seen.detail.startswith(f"hang in {phase.value}: the deadline for {deadline.replace('_', ' ')} passed")
    assert "SIGTERM was ignored" in seen.detail


def test_a_hang_in_load() -> None:
    """A load that does not end is a hang in the phase that the log reached."""
    killed = end(exit_status=None, signal="SIGTERM", stopped_by_us="SIGTERM")
    fields = {**EARLY, "stop_sent_at": 300.0}
    seen = judge(record(end=killed, timed_out="load", **fields), died_in_load(last_phase=Phase.RESERVE), NO_ANSWER)
    assert (seen.kind, seen.phase) == (OutcomeKind.HANG, Phase.RESERVE)


def test_unkillable() -> None:
    """A process in uninterruptible sleep cannot be reaped: a hang, and the kernel driver's or the hardware's."""
    stuck = end(exit_status=None, signal=None, stopped_by_us="SIGKILL")
    seen = judge(record(end=stuck, exchange=LOST), facts(), NO_ANSWER)
    assert (seen.kind, seen.components) == (OutcomeKind.HANG, (Component.KERNEL_DRIVER, Component.HARDWARE))


def test_an_error_exit_in_load() -> None:
    """A failed load exits with 1 after a clean-up: the phase is where it failed, not the clean-up."""
    seen_facts = died_in_load(
        last_phase=Phase.TEARDOWN,
        phases=(PhaseSpan(Phase.LOAD, "s0:L1", "s0:L9"), PhaseSpan(Phase.TEARDOWN, "s0:L10", "s0:L11")),
    )
    seen = judge(record(end=end(exit_status=1, stopped_by_us=None), **EARLY), seen_facts, NO_ANSWER)
    assert (seen.kind, seen.phase, seen.exit_status) == (OutcomeKind.ERROR, Phase.LOAD, 1)
    assert seen.detail == "exit status 1 in load"


def test_not_ready() -> None:
    """A server that leaves with status 0 before it was ready has not run."""
    seen = judge(record(end=end(stopped_by_us=None), **EARLY), died_in_load(), NO_ANSWER)
    assert seen.kind is OutcomeKind.NOT_READY


@pytest.mark.parametrize(
    ("wire", "answer", "said"),
    [
        (exchange(tokens_seen=0), answered([], text=""), "no token in the answer in prompt"),
        (exchange(tokens_seen=3), answered([1, 2, 3], finished=False), "the answer ended early"),
        (
            exchange(error="connection reset after 3 tokens", tokens_seen=3),
            NO_ANSWER,
            "connection reset after 3 tokens",
        ),
        (exchange(status=503, tokens_seen=0), NO_ANSWER, "HTTP 503 in prompt"),
    ],
)
def test_protocol_errors(wire: Any, answer: Any, said: str) -> None:
    """200 is not enough: an answer needs a token and its own end."""
    seen = judge(record(exchange=wire), facts(), answer)
    assert seen.kind is OutcomeKind.ERROR and seen.detail.startswith(said)


def test_tokens_but_no_stored_text() -> None:
    """Tokens that were seen and could not be read back are no error; the output is unknown elsewhere."""
    assert judge(record(), facts(), NO_ANSWER).kind is OutcomeKind.OK


def test_an_error_status_after_sigterm() -> None:
    """A server that answers and then leaves with an error status failed in teardown."""
    seen = judge(record(end=end(exit_status=1)), facts(), answered())
    assert (seen.kind, seen.phase) == (OutcomeKind.ERROR, Phase.TEARDOWN)
    assert seen.detail == "exit status 1 in teardown, after our SIGTERM"


def test_nan_is_a_wrong_output() -> None:
    """A null log-probability is a wrong output, with no reference needed."""
    bad = answered([1, 0], probs=(TokenProb(1, -0.1), TokenProb(0, None)))
    seen = judge(record(), facts(), bad)
    assert (seen.kind, seen.phase, seen.detail) == (OutcomeKind.WRONG_OUTPUT, Phase.DECODE, "NaN in decode")
    at_once = answered([0], probs=(TokenProb(0, None),))
    assert judge(record(), facts(), at_once).phase is Phase.PROMPT


def test_interrupted() -> None:
    """Stopped by us before its request, with no deadline passed: neither a pass nor a failure."""
    for interrupted in (record(**{**EARLY, "stop_sent_at": 0.2}), record(notes=("interrupted",))):
        assert judge(interrupted, died_in_load(), NO_ANSWER).kind is OutcomeKind.INTERRUPTED


def test_sigkill_from_elsewhere() -> None:
    """SIGKILL that we did not send is a crash, and the line says that somebody else sent it."""
    seen = judge(record(end=died("SIGKILL", core_dumped=False), exchange=LOST, **GONE), facts(), NO_ANSWER)
    assert (seen.kind, seen.signal) == (OutcomeKind.CRASH, "SIGKILL") and "someone else" in seen.detail


def test_components() -> None:
    """The crash address first, then the log; libc says nothing; SIGILL is the host CPU's; else unknown."""
    assert blamed("/usr/lib/libvulkan_lvp.so").components == (Component.VULKAN_DRIVER,)
    assert blamed("/usr/lib/libVkICD_mock_icd.so").components == (Component.VULKAN_DRIVER,)
    assert blamed("/opt/lib/libllama.so").components == (Component.LLAMA_CPP,)
    assert blamed("/opt/rocm/lib/librocblas.so.4").components == (Component.ROCBLAS,)
    assert blamed("/opt/rocm/lib/libamdhip64.so.6").components == (Component.HIP,)
    assert blamed("/opt/lib/libggml-base.so.0").components == (Component.GGML_CORE,)
    assert blamed("/usr/lib/libc.so.6").components == (Component.UNKNOWN,)
    assert blamed(None).components == (Component.UNKNOWN,)
    assert blamed(None, modules=("/usr/lib/libvulkan_lvp.so",)).components == (Component.VULKAN_DRIVER,)
    ill = blamed("/opt/lib/libggml-cpu.so", "SIGILL").components
    assert ill[0] is Component.HOST_CPU
    line = trouble(OutcomeKind.ABORT, Phase.PROMPT, components=(Component.GGML_CORE, Component.UNKNOWN))
    assert blamed("/usr/lib/libc.so.6", "SIGABRT", troubles=(line,)).components == (Component.GGML_CORE,)


def blamed(module: str | None, signal: str = "SIGSEGV", modules: tuple[str, ...] = (), **changes: Any) -> Outcome:
    """The outcome of a crash in prompt at an address in `module`."""
    where = core(module, signal, modules)
    return judge(record(end=died(signal), core=where, exchange=LOST, **GONE), facts(**changes), NO_ANSWER)


def test_the_users_own_command() -> None:
    """A supervised command has no request of ours: its own end decides."""
    own = record(cell="", exchange=None)
    assert judge(own, facts(), NO_ANSWER).kind is OutcomeKind.OK
    crashed = record(cell="", exchange=None, end=died("SIGSEGV"), stop_sent_at=None)
    assert judge(crashed, facts(last_phase=Phase.DECODE), NO_ANSWER).phase is Phase.DECODE


def test_no_log_at_all() -> None:
    """Without a log the process and the protocol still tell."""
    seen = judge(record(end=died("SIGSEGV"), **EARLY), NO_LOG, NO_ANSWER)
    assert (seen.kind, seen.phase, seen.components) == (OutcomeKind.CRASH, Phase.UNKNOWN, (Component.UNKNOWN,))
    nothing = (Evidence("s0", "stdout", "sha256:", 0, ""), Evidence("s1", "stderr", "sha256:", 0, ""))
    silent = judge(record(end=died("SIGSEGV"), evidence=nothing, **EARLY), NO_LOG, NO_ANSWER)
    assert (silent.phase, silent.detail) == (
        Phase.UNKNOWN,
        "SIGSEGV in an unknown phase (not one line was printed)",
    )
    empty = judge(record(end=died("SIGSEGV"), **EARLY), facts(lines=0, last_phase=Phase.UNKNOWN), NO_ANSWER)
    assert (empty.phase, empty.detail) == (silent.phase, silent.detail)


def test_a_load_that_hangs_did_not_hang_in_teardown() -> None:
    """The server's clean-up after our SIGTERM is in its log, and is not where it hung."""
    log = facts(
        model_loaded=None,
        phases=(PhaseSpan(Phase.LOAD, "s0:L1", "s0:L9"), PhaseSpan(Phase.TEARDOWN, "s0:L10", "s0:L10")),
        last_phase=Phase.TEARDOWN,
    )
    late = record(ready_at=None, exchange=None, timed_out="load", stop_sent_at=40.0)
    assert judge(late, log, NO_ANSWER).phase is Phase.LOAD


def test_an_exit_says_why_where_the_log_does() -> None:
    """An exit status tells nothing: the deciding line is quoted, and its phase counts where no line told one."""
    line = "llama-server: error while loading shared libraries: libcudart.so.13: cannot open shared object file"
    why = trouble(OutcomeKind.ERROR, Phase.INIT, rank=78, text=line, components=(Component.CONFIGURATION,))
    silent = facts(troubles=(why,), phases=(), last_phase=Phase.UNKNOWN, model_loaded=None)
    seen = judge(record(**EARLY, end=end(exit_status=127, stopped_by_us=None)), silent, NO_ANSWER)
    assert seen.detail == f"exit status 127 in init: {line}"
    assert (seen.kind, seen.phase, seen.components) == (OutcomeKind.ERROR, Phase.INIT, (Component.CONFIGURATION,))
