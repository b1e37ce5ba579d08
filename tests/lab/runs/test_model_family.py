"""The promise: a model has one name without the type of its weights, and nothing of the type is left in it."""

from __future__ import annotations

import pytest

from stillruns.lab.runs.observing import family


@pytest.mark.parametrize(
    ("name", "without"),
    [
        ("synth:llama?layers=24&type=Q8_0&seed=1", "synth:llama?layers=24&seed=1"),
        ("synth:llama?type=F16&seed=1", "synth:llama?seed=1"),
        ("synth:llama?layers=2&type=Q4_K_M", "synth:llama?layers=2"),
        ("synth:llama?type=F16", "synth:llama"),
        ("/models/Qwen3-8B-Q4_K_M.gguf", "Qwen3-8B"),
        ("IQ4_XS.gguf", "IQ4_XS"),
    ],
)
def test_the_type_is_taken_out(name: str, without: str) -> None:
    """With its separator; a name that is a type alone stays."""
    assert family(name) == without
