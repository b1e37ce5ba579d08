"""Expands a spec into cells: backends x offloaded layers x further axes, and the reference added by itself."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from stillruns.errors import SpecError
from stillruns.judge.cells import covering
from stillruns.model.backend import Backend, Runtime
from stillruns.model.cell_plan import CellPlan
from stillruns.model.condition import Condition, Layers
from stillruns.model.spec import AxisValue, BackendSpec, Spec

_NUMBERS = ("context", "batch", "ubatch", "threads", "predict", "seed", "epochs", "concurrency", "prompt_tokens")
_QUESTION = ("predict", "seed", "model", "prompt_tokens")
"""Axes that change what is asked, and so what the right answer is: each value has a reference of its own."""

_LONG = 40


def cells(spec: Spec) -> tuple[CellPlan, ...]:
    """All cells of a spec, references first, then in the order in which the spec names them.

    A cpu backend has one cell whatever `gpu_layers` says, and so has an attached server (a request cannot ask for
    layers). The reference (`reference = "cpu"`) is a pair of cells of one trial each: the reference itself and its
    floor path. It stays apart from a cpu backend that the spec lists, whose trials are counted like all others: one
    trial more, and one meaning less. It needs a llama.cpp backend to borrow the binary from. Raises SpecError for an
    axis that is not known.
    """
    plans: list[CellPlan] = []
    references: dict[str, CellPlan] = {}
    source = _reference_source(spec) if spec.reference == "cpu" else None
    for backend in spec.backends:
        for layers, axes in _combinations(spec, backend):
            condition = _condition(spec, backend, layers, axes)
            reference = ""
            if source is not None:
                reference = _reference_id(axes)
                if reference not in references:
                    references[reference] = _reference(spec, source, reference, axes)
            plan = CellPlan(_cell_id(backend.id, layers, axes), condition, spec.stop, reference=reference)
            if plan.id not in {p.id for p in plans}:
                plans.append(plan)
    pairs = [plan for r in references.values() for plan in (r, _floor(r))]
    return (*pairs, *plans)


def _layers(spec: Spec, backend: BackendSpec) -> tuple[Layers, ...]:
    if backend.backend is Backend.CPU:
        return ("none",)
    return ("server",) if backend.runtime is Runtime.OPENAI else spec.gpu_layers


def _combinations(spec: Spec, backend: BackendSpec) -> list[tuple[Layers, dict[str, AxisValue]]]:
    """Every combination of layers and the axes' values, or a covering plan of them; a cpu backend has no device to
    vary."""
    names = _axes(spec, backend)
    values = [_layers(spec, backend), *(spec.axes[n] for n in names)]
    if covers(spec, backend):
        places = covering.pairwise([len(v) for v in values])
        rows: list[tuple[Any, ...]] = [tuple(values[i][p] for i, p in enumerate(row)) for row in places]
    else:
        rows = list(product(*values))
    return [(row[0], dict(zip(names, row[1:], strict=True))) for row in rows]


def _axes(spec: Spec, backend: BackendSpec) -> list[str]:
    return [n for n in spec.axes if not (n == "device" and backend.backend is Backend.CPU)]


def _whole_size(spec: Spec, backend: BackendSpec) -> int:
    return covering.size([_layers(spec, backend), *(spec.axes[n] for n in _axes(spec, backend))])


def covers(spec: Spec, backend: BackendSpec) -> bool:
    """Whether this backend's cells are a covering plan: asked for, or too many to run whole."""
    total = _whole_size(spec, backend)
    return spec.cover == "pairwise" or (spec.cover == "auto" and total > covering.LARGEST_WHOLE)


def covering_note(spec: Spec, plans: Sequence[CellPlan]) -> str:
    """One sentence when not all combinations are cells, else nothing."""
    parts = []
    for backend in spec.backends:
        if covers(spec, backend):
            mine = sum(p.condition.backend_id == backend.id and not p.is_reference for p in plans)
            parts.append(f"{mine} of {_whole_size(spec, backend)} combinations of {backend.id}")
    if not parts:
        return ""
    return (
        f"{', '.join(parts)}: a plan that covers every pair of values, not the whole matrix; what needs three values "
        'together may be missed (cover = "whole" runs all)'
    )


def _condition(spec: Spec, backend: BackendSpec, layers: Layers, axes: dict[str, AxisValue]) -> Condition:
    condition = Condition(
        backend_id=backend.id,
        backend=backend.backend,
        runtime=backend.runtime,
        gpu_layers=layers,
        model=spec.model,
        prompt=spec.prompt,
        seed=spec.seed,
        predict=spec.predict,
        context=spec.context,
        batch=spec.batch,
        ubatch=spec.ubatch,
        threads=spec.threads,
        flash_attention=spec.flash_attention,
        device="none" if backend.backend is Backend.CPU else backend.device,
        binary=backend.binary,
        url=backend.url,
        expect_library=backend.expect_library,
        env=dict(backend.env),
        args=backend.args,
        prefix=backend.prefix,
        log=backend.log,
        axes=dict(axes),
        epochs=spec.epochs,
        duration=spec.duration,
        concurrency=spec.concurrency,
        prompt_tokens=spec.prompt_tokens,
    )
    for name, value in axes.items():
        condition = _with_axis(condition, name, value)
    return condition


def _with_axis(condition: Condition, name: str, value: AxisValue) -> Condition:
    """The condition with one axis set: a field of it, an environment variable, or an argument of the runtime."""
    if name in _NUMBERS:
        if isinstance(value, bool) or not isinstance(value, int):
            raise SpecError(f"matrix.{name} has {value!r}; give whole numbers")
        field: dict[str, Any] = {name: value}
        return replace(condition, **field)
    if name == "duration":
        return replace(condition, duration=float(value))
    if name == "flash_attention":
        text = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
        return replace(condition, flash_attention=text)
    if name == "model":
        return replace(condition, model=str(value))
    if name == "device":
        return replace(condition, device=str(value))
    if name.startswith("env."):
        return replace(condition, env={**condition.env, name[4:]: _text(value)})
    if name.startswith("arg."):
        if isinstance(value, bool):
            return replace(condition, args=(*condition.args, name[4:])) if value else condition
        return replace(condition, args=(*condition.args, name[4:], _text(value)))
    raise SpecError(f"matrix.{name} is not an axis; vary a field such as context, env.NAME or an argument arg.--flag")


def _text(value: AxisValue) -> str:
    """`true` is `1` in an environment variable, as programs read them."""
    return str(int(value)) if isinstance(value, bool) else str(value)


def _cell_id(backend: str, layers: Layers, axes: dict[str, AxisValue]) -> str:
    return ",".join([f"backend={backend}", f"gpu_layers={layers}", *_pairs(axes)])


def _pairs(axes: dict[str, AxisValue]) -> list[str]:
    """`name=value`, one line each; a long value is cut and keeps a digest, so that ids stay different."""
    pairs = []
    for name, value in axes.items():
        text = " ".join(str(value).split())
        if len(text) > _LONG or text != str(value):
            text = f"{text[:_LONG]}~{hashlib.sha256(str(value).encode()).hexdigest()[:8]}"
        pairs.append(f"{name}={text}")
    return pairs


def _reference_source(spec: Spec) -> BackendSpec | None:
    """The backend whose binary the reference uses: a listed llama.cpp cpu backend, else the first llama.cpp one."""
    own = [b for b in spec.backends if b.runtime is Runtime.LLAMA_CPP]
    return next((b for b in own if b.backend is Backend.CPU), own[0] if own else None)


def _reference_id(axes: dict[str, AxisValue]) -> str:
    return ",".join(["reference=cpu", *_pairs({n: axes[n] for n in _QUESTION if n in axes})])


def _reference(spec: Spec, source: BackendSpec, identity: str, axes: dict[str, AxisValue]) -> CellPlan:
    """One trial on the CPU alone (`--device none`: with 0 layers and a device, large batches still go there), one
    request: it says what is right, and bears no load. Its context is at least what its prompt takes.

    It keeps the source's environment, arguments and prefix, without which its binary may not run or the model may
    answer differently.
    """
    asked = {name: axes[name] for name in _QUESTION if name in axes}
    backend = replace(source, id="cpu", backend=Backend.CPU, device="none", expect_library="")
    condition = _condition(spec, backend, "none", asked)
    room = max(condition.context, condition.prompt_tokens + condition.predict)
    condition = replace(condition, is_reference=True, epochs=1, duration=0.0, concurrency=1, context=room)
    return CellPlan(identity, condition, replace(spec.stop, trials=1, decide=None), is_reference=True)


def _floor(reference: CellPlan) -> CellPlan:
    """The reference on its second healthy path: flash attention the other way round.

    Of the switches that keep a CPU trial on the CPU, it is the one that changed any rounding when it was measured
    (docs/decisions/0004-output-agreement.md): threads, batch size and repacking left every bit as it was.
    """
    other = "off" if reference.condition.flash_attention == "on" else "on"
    condition = replace(reference.condition, flash_attention=other)
    return replace(reference, id=f"{reference.id},floor", condition=condition, is_floor=True, reference=reference.id)
