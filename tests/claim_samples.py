"""Cells with trials for the tests of hypotheses: built from counts, with every factor named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stillruns.judge.claims import hypotheses
from stillruns.model.applied import Answer
from stillruns.model.claim import Claim, Frozen
from stillruns.model.observed import Circumstances, ObservedCell, ObservedTrial
from stillruns.model.spec import HypothesisSpec


def trial(outcome: str = "ok", **changes: Any) -> ObservedTrial:
    """An applied trial; a crash has a key line."""
    base = ObservedTrial(
        trial="t",
        run="r1",
        applied=Answer.YES,
        why="",
        outcome=outcome,
        phase="prompt",
        components=("ggml backend",),
        passed=outcome == "ok",
        output="same" if outcome == "ok" else None,
        tokens_per_second=10.0 if outcome == "ok" else None,
        seconds=1.0,
        tokens=32,
        key_ref=None if outcome == "ok" else "s1:L7",
        key_text="" if outcome == "ok" else "SIGSEGV",
    )
    return replace(base, **changes)


VOID = trial(applied=Answer.NO, why="ran on the CPU: no device line", passed=False)


def cell(
    backend: str = "vulkan",
    layers: int | str = 2,
    *,
    failed: int = 0,
    passed: int = 0,
    void: int = 0,
    trials: tuple[ObservedTrial, ...] = (),
    fixed: bool = True,
    speed: float = 10.0,
    axes: dict[str, Any] | None = None,
    **factors: str | None,
) -> ObservedCell:
    """`backend=vulkan,gpu_layers=2` with so many trials of each kind."""
    name = f"backend={backend},gpu_layers={layers}"
    made = (
        [trial("crash")] * failed + [trial(tokens_per_second=speed + i / 100) for i in range(passed)] + [VOID] * void
    )
    numbered = tuple(
        replace(t, trial=f"{name}.{i}", circumstances=Circumstances(server=f"{name}.{i}", boot="b", order=float(i)))
        for i, t in enumerate((*made, *trials))
    )
    base = {"backend": backend, "layers": str(layers), "model": "qwen", "runtime": "ollama", "version": "0.17.4"}
    named = {**base, **{k: str(v) for k, v in (axes or {}).items()}, **factors}
    return ObservedCell(
        id=name,
        side=backend,
        factors=named,
        layers=layers,
        placed=layers if isinstance(layers, int) else None,
        trials=numbered,
        fixed=fixed,
        randomised=True,
        axes=axes or {},
    )


def claim(predicts: str, refuted_if: str, *cells: ObservedCell) -> Claim:
    """One hypothesis over these cells."""
    spec = HypothesisSpec("H", "a statement", predicts, refuted_if)
    return hypotheses.judge([hypotheses.Posed(spec, Frozen.BEFORE)], cells)[0]
