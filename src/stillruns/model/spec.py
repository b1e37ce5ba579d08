"""What the user asks for: the TOML file of `stillruns run SPEC.toml`, checked."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from stillruns.model.backend import Backend, Runtime
from stillruns.model.condition import Layers

AxisValue = str | int | float | bool

DEFAULT_PROMPT = "List three facts about the sea."
"""What is asked where nobody names a prompt."""

CHECK_POSITIONS = 32
"""Positions of the answer, and of each text, that a check compares where the file does not say."""


@dataclass(frozen=True, slots=True)
class BackendSpec:
    """One `[[backend]]` table. `backend` is what `id` stands for (`id = "rocm-old"` needs `backend = "rocm"`)."""

    id: str
    backend: Backend
    runtime: Runtime = Runtime.LLAMA_CPP
    binary: str = ""
    device: str = ""
    url: str = ""
    log: str = ""
    expect_library: str = ""
    env: dict[str, str] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds without the phase's end before the trial counts as hung."""

    load: float = 300.0
    """From start to ready (load, reserve and warm-up; a cold shader cache takes minutes on old drivers)."""
    first_token: float = 120.0
    token: float = 60.0
    teardown: float = 20.0


@dataclass(frozen=True, slots=True)
class Decide:
    """Two failure rates to tell apart, and the probability of a wrong answer at either (all between 0 and 1)."""

    fail_below: float
    fail_above: float
    error: float = 0.05


@dataclass(frozen=True, slots=True)
class StopRule:
    """When a cell is decided: after `trials`, fixed beforehand, or by the sequential test of `decide`, then after no
    fewer than `min_trials` and no more than `max_trials`."""

    trials: int = 6
    max_voids: int = 3
    max_minutes: float = 0.0
    """0 means no limit."""
    decide: Decide | None = None
    min_trials: int = 3
    max_trials: int = 40
    futility: float = 0.0
    """With `decide`: a cell ends undecided when the rest of its trials would decide it with a probability below this,
    as its trials so far foretell; 0 waits until nothing could decide it any more."""

    @property
    def most(self) -> int:
        """The most applied trials that a cell gets."""
        return self.trials if self.decide is None else self.max_trials


@dataclass(frozen=True, slots=True)
class HypothesisSpec:
    """A `[[hypothesis]]` table, frozen by its digest before the first trial."""

    id: str
    text: str
    predicts: str
    refuted_if: str


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of `[experiment]` that mean what the file says, with their defaults; docs/spec.md explains each."""

    seed: int = 1
    predict: int = 32
    context: int = 2048
    batch: int = 512
    ubatch: int = 512
    threads: int = 1
    flash_attention: str = "off"
    reference: str = "cpu"
    order_seed: int = 0
    warm: bool = True
    cover: str = "auto"
    epochs: int = 1
    duration: float = 0.0
    concurrency: int = 1
    prompt_tokens: int = 0
    check: bool = False
    check_positions: int = CHECK_POSITIONS


class Spec(Settings, frozen=True):
    """A checked experiment. `path` is where it was read from (empty for the demo); `sha256` is the digest of its
    canonical form, which leaves out comments, key order and the path."""

    name: str
    question: str
    model: str
    prompt: str
    backends: tuple[BackendSpec, ...]
    gpu_layers: tuple[Layers, ...]
    axes: dict[str, tuple[AxisValue, ...]] = msgspec.field(default_factory=dict)
    check_texts: tuple[str, ...] = ()
    twin: str = ""
    stop: StopRule = StopRule()
    timeouts: Timeouts = Timeouts()
    hypotheses: tuple[HypothesisSpec, ...] = ()
    path: str = ""
    sha256: str = ""
