"""The promise: a backtrace tells the phase by its functions, and no more than they tell."""

from __future__ import annotations

import pytest

from stillruns.judge.incidents.stack_phase import phase
from stillruns.model.phase import Phase
from stillruns.model.server_log import Frame


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("ggml_backend_sched_graph_compute_async", "llama_decode", "common_init_from_params", "main"), Phase.WARMUP),
        (("ggml_backend_sched_graph_compute_async", "llama_decode", "server_context::update_slots"), Phase.UNKNOWN),
        (("ggml_vk_get_device", "llama_model::load_tensors", "llama_model_load"), Phase.LOAD),
        (("ggml_gallocr_reserve_n", "llama_context::graph_reserve", "llama_init_from_model"), Phase.RESERVE),
        (("??", "main"), Phase.UNKNOWN),
    ],
)
def test_phase_of_a_backtrace(names: tuple[str, ...], expected: Phase) -> None:
    """A decode under the tools' own start is the warm-up; alone it may be a prompt's or a token's."""
    assert phase(Frame(name, "", f"s0:L{n}") for n, name in enumerate(names, 1)) is expected
