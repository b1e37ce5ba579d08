"""Real logs, read by the real reader, judged: 24 trials of three models on an H200, by CUDA and by Vulkan."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from judge_samples import ENGINE, answered, condition, record
from stillruns.catalogue import load
from stillruns.judge.trials import applied, outcome
from stillruns.model.applied import Answer
from stillruns.model.backend import Backend, Runtime
from stillruns.model.outcome import OutcomeKind
from stillruns.model.placement import Placement
from stillruns.model.server_facts import ServerFacts
from stillruns.normalise.logs import llama_cpp

FOLDER = Path(__file__).parents[3].parent / "shared" / "data" / "h200"
LOGS = sorted(FOLDER.glob("*-ngl*.log"))
PLACEMENTS = {0: Placement(0, False, 25), 1: Placement(0, True, 25), 12: Placement(11, True, 25)}
DEVICES = {"cuda": "CUDA0", "vulkan": "Vulkan0"}

pytestmark = pytest.mark.skipif(not LOGS, reason="the logs of the H200 (../shared/data/h200) are not there")


@cache
def facts_of(path: Path) -> ServerFacts:
    """One log, read."""
    facts = llama_cpp.read(path.read_bytes(), "s0", load.grammar(Runtime.LLAMA_CPP), load.patterns())
    assert isinstance(facts, ServerFacts)
    return facts


@pytest.mark.parametrize("path", LOGS, ids=lambda p: p.stem)
def test_asked_is_applied_and_nothing_else_is(path: Path) -> None:
    """Under the condition in its name a healthy log is a whole proof; under another backend or layers it is void."""
    _, backend, layers = path.stem.split("-")
    number = int(layers.removeprefix("ngl"))
    asked = condition(
        backend=Backend(backend),
        backend_id=backend,
        device=DEVICES[backend],
        gpu_layers=number,
        context=1024,
        batch=2048,
        ubatch=512,
        threads=16,
        flash_attention="auto",
    )
    facts = facts_of(path)
    got, placement = applied.judge(asked, ENGINE, facts, record(asked))
    assert got.status is Answer.YES, got.why
    assert placement == PLACEMENTS.get(number, Placement(24, True, 25))
    assert outcome.judge(record(asked), facts, answered()).kind is OutcomeKind.OK
    other = {"cuda": "vulkan", "vulkan": "cuda"}[backend]
    for changes in (
        {"backend": Backend(other), "device": DEVICES[other]},
        {"backend": Backend.CPU, "gpu_layers": "none", "device": "none"},
        {"gpu_layers": number + 1 if number < 25 else 7},
    ):
        wrong = replace(asked, **changes)
        assert applied.judge(wrong, ENGINE, facts, record(wrong))[0].status is Answer.NO, changes
