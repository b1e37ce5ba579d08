"""How a spec loads a server: how often, for how long, how many at a time, how long a prompt."""

from __future__ import annotations

from pathlib import Path

from stillruns.errors import SpecError
from stillruns.model.backend import Runtime
from stillruns.model.spec import CHECK_POSITIONS, Spec

LIMITS = {
    "epochs": (1, 1_000_000),
    "duration": (0, 7 * 86400),
    "concurrency": (1, 256),
    "prompt_tokens": (0, 4_194_304),
}
"""The least and the most of each, in requests, seconds, requests at a time, and tokens."""


def check_load(spec: Spec, path: Path) -> None:
    """Refuse what no server could be asked, and what would silently mean nothing."""
    for name, (low, high) in LIMITS.items():
        for value in (getattr(spec, name), *spec.axes.get(name, ())):
            if isinstance(value, (bool, str)) or not low <= value <= high:
                raise SpecError(f"{path}: {name} has {value!r}; it must be between {low} and {high}")
    if _varies(spec, "epochs", 1) and _varies(spec, "duration", 0):
        raise SpecError(f"{path}: epochs and duration both say how often a server is asked; keep one of them")
    for backend in spec.backends:
        if backend.runtime is Runtime.OPENAI and _varies(spec, "prompt_tokens", 0):
            raise SpecError(
                f"{path}: backend {backend.id!r}: prompt_tokens needs a llama.cpp server, which can be asked for the "
                "tokens of a text; give a prompt of the length that you want"
            )
    room = spec.context - spec.predict
    if "context" not in spec.axes and spec.prompt_tokens and spec.prompt_tokens > room:
        raise SpecError(
            f"{path}: experiment.prompt_tokens ({spec.prompt_tokens}) and predict ({spec.predict}) are more than "
            f"context ({spec.context})"
        )
    if (spec.check_texts or spec.check_positions != CHECK_POSITIONS) and not spec.check:
        raise SpecError(f"{path}: check_texts and check_positions need check = true")
    if any(not text.strip() for text in spec.check_texts):
        raise SpecError(f"{path}: check_texts has an empty text")


def _varies(spec: Spec, name: str, nothing: float) -> bool:
    return any(value != nothing for value in (getattr(spec, name), *spec.axes.get(name, ())))
