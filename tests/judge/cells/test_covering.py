"""The promise: a covering plan misses no pair of values, is small, and is the same each time."""

from __future__ import annotations

from itertools import combinations
from math import prod
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stillruns.judge.cells import covering, experiment
from stillruns.lab.specs import spec_file


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 5), max_size=6))
def test_every_pair_is_covered(sizes: list[int]) -> None:
    """Whatever the axes: every pair of values occurs, no more rows than combinations, the same twice."""
    rows = covering.pairwise(sizes)
    assert rows == covering.pairwise(sizes)
    assert len(set(rows)) == len(rows) <= prod(sizes)
    for a, b in combinations(range(len(sizes)), 2):
        assert {(row[a], row[b]) for row in rows} == {(x, y) for x in range(sizes[a]) for y in range(sizes[b])}


def test_it_is_small() -> None:
    """Ten axes of four values: 1,048,576 combinations in at most 45 rows; the bound is 16."""
    assert len(covering.pairwise([4] * 10)) <= 45


SPEC = """
[experiment]
name = "t"
model = "synth:llama"
{more}
[[backend]]
id = "vulkan"
[matrix]
gpu_layers = [0, 1, 2, "all"]
context = [256, 512, 1024, 2048]
batch = [32, 64, 128, 256]
ubatch = [32, 64, 128]
"""


@pytest.mark.parametrize(("more", "cells"), [("", 20), ('cover = "whole"', 192), ('cover = "pairwise"', 20)])
def test_large_matrices_get_a_plan(more: str, cells: int) -> None:
    """192 combinations come down to about 20; `cover = "whole"` runs them all."""
    spec = spec_file.parse(SPEC.format(more=more), Path("x.toml"))
    plans = [p for p in experiment.cells(spec) if not p.is_reference]
    assert len(plans) <= cells
    if more == 'cover = "whole"':
        assert len(plans) == cells
    pairs = {(p.condition.gpu_layers, p.condition.context) for p in plans}
    assert len(pairs) == 16
