"""Small experiments as spec files: a synthetic model on the CPU, four tokens, one trial. A test says only what it is
about."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

Table = Mapping[str, object]

CPU: Table = {"id": "cpu"}
DEFAULTS: Table = {"name": "small", "model": "synth:llama?layers=2&type=F16", "predict": 4, "context": 128}


def vulkan(**env: object) -> Table:
    """The Vulkan backend on its first device, a software one included, with more variables on request."""
    return {"id": "vulkan", "env": {"GGML_VK_VISIBLE_DEVICES": "0", **env}}


def small(
    place: Path,
    *backends: Table,
    matrix: Table | None = None,
    stop: Table | None = None,
    timeouts: Table | None = None,
    hypotheses: Sequence[Table] = (),
    **experiment: object,
) -> Path:
    """Write a spec to `place` and return that. `experiment` are fields of `[experiment]`; the backend is the CPU and
    there is one trial where nothing else is said."""
    lines = _table("[experiment]", {**DEFAULTS, **experiment})
    for backend in backends or (CPU,):
        lines += _table("[[backend]]", backend)
    for name, given in (("matrix", matrix), ("stop", stop or {"trials": 1}), ("timeouts", timeouts)):
        lines += _table(f"[{name}]", given or {})
    for hypothesis in hypotheses:
        lines += _table("[[hypothesis]]", hypothesis)
    place.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return place


def _table(head: str, fields: Table) -> list[str]:
    return [head, *(f"{json.dumps(name)} = {_toml(value)}" for name, value in fields.items())] if fields else []


def _toml(value: object) -> str:
    """A value in TOML: JSON, save paths and tables."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(name)} = {_toml(each)}" for name, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(str(value) if isinstance(value, Path) else value)
