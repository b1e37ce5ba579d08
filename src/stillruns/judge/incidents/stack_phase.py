"""The phase that a backtrace tells by the functions it went through, or that can be nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from stillruns.judge.incidents.group import Group
from stillruns.model.backend import Runtime
from stillruns.model.evidence import line_of
from stillruns.model.phase import Phase
from stillruns.model.server_log import Frame, Runner, ServerLog

_STARTS = ("llama_init_from_gpt_params", "common_init_from_params", "common_init_result")
"""The start of llama.cpp's tools: a decode under it is the warm-up's."""
_COMPUTES = ("llama_decode", "llama_context::decode", "llama_encode", "llama_context::encode")
_RESERVES = ("llama_context::graph_reserve", "llama_context::sched_reserve", "ggml_backend_sched_reserve")
_LOADS = (
    "llama_model::load_tensors",
    "llama_model_load",
    "llm_load_tensors",
    "llama_load_model_from_file",
    "llama_model_load_from_file",
    "llama_model_loader::load_all_data",
)


def phase(frames: Iterable[Frame]) -> Phase:
    """UNKNOWN where no frame tells: a decode alone may be a prompt's or a token's."""
    names = [frame.function for frame in frames]
    if any(name.startswith(_COMPUTES) for name in names):
        return Phase.WARMUP if any(name.startswith(_STARTS) for name in names) else Phase.UNKNOWN
    if any(name.startswith(_RESERVES) for name in names):
        return Phase.RESERVE
    return Phase.LOAD if any(name.startswith(_LOADS) for name in names) else Phase.UNKNOWN


def first_computation(server: ServerLog, runner: Runner | None, pattern: str, group: Group) -> bool:
    """Whether this is the first computation of a runner of Ollama, and so its first prompt's.

    A build without any code for the card fails at the first kernel; Ollama's runners have no warm-up run, and no
    request was answered since this one became ready.
    """
    if server.runtime is not Runtime.OLLAMA or pattern != "gpu-no-kernel-image" or runner is None or not runner.ready:
        return False
    ready = line_of(runner.ready)
    answered = any(ready < line_of(r.last) < group.first and (r.status or 0) < 400 for r in server.requests)
    return ready < group.first and not answered
