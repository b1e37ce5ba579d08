"""Everything that must be known before the first trial: engines, model, cells, and who may not start at all."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from stillruns.errors import EnvironmentLacks
from stillruns.judge.cells import experiment
from stillruns.lab.runs import engines, observing
from stillruns.lab.runs.models import ModelFile, resolve
from stillruns.lab.runs.progress import Progress
from stillruns.model.backend import Runtime
from stillruns.model.cell_plan import CellPlan
from stillruns.model.condition import Condition
from stillruns.model.engine import Engine
from stillruns.model.evidence import Evidence
from stillruns.model.spec import BackendSpec, Spec
from stillruns.store.store import Store


@dataclass(frozen=True, slots=True)
class Prepared:
    """A spec ready to run: `spec` as the user wrote it, `plans` with the model's path, each backend's device and the
    shader cache filled in. `engines` maps backend ids to their engine; `lacking` maps
    ids of backends that cannot run here to the sentence that says why; `probes` holds the raw answers of the
    binaries; `shaders` is the folder of the Vulkan driver's shader cache that all trials share; `model` is None where
    every backend is attached."""

    spec: Spec
    plans: tuple[CellPlan, ...]
    engines: dict[str, Engine]
    model: ModelFile | None
    shaders: Path
    lacking: dict[str, str]
    probes: dict[str, tuple[Evidence, ...]]
    twin: ModelFile | None = None
    """The model in F16, where checks are asked for and there is one."""
    models: dict[str, ModelFile] = dataclasses.field(default_factory=dict)
    """The files of a model axis by the names that the spec gives them."""

    def model_of(self, condition: Condition) -> ModelFile | None:
        """The model file of a condition."""
        return next((m for m in self.models.values() if m.path == condition.model), self.model)

    def engine_of(self, condition: Condition) -> Engine | None:
        """The engine that runs a condition; a reference uses the binary that its condition names."""
        return engines.choose(condition, self.spec.backends, self.engines)


def prepare(spec: Spec, store: Store, progress: Progress, environ: Mapping[str, str] = os.environ) -> Prepared:
    """Find and question every engine, make or hash the model, expand the cells.

    A backend that cannot run here is left out and named (`lacking`); raises EnvironmentLacks when none is left.
    """
    found: dict[str, Engine] = {}
    lacking: dict[str, str] = {}
    usable: list[BackendSpec] = []
    needs_model = any(b.runtime is Runtime.LLAMA_CPP for b in spec.backends)
    evidence: dict[str, tuple[Evidence, ...]] = {}
    for backend in spec.backends:
        try:
            asked = engines.question(backend, store, environ)
        except EnvironmentLacks as error:
            lacking[backend.id] = str(error)
            progress.note(f"{backend.id}: {error}")
            continue
        for note in asked.notes:
            progress.note(note)
        found[backend.id] = asked.engine
        evidence[backend.id] = asked.evidence
        usable.append(asked.backend)
    if not usable:
        raise EnvironmentLacks("; ".join(f"{name}: {why}" for name, why in lacking.items()))
    model = resolve(spec.model, store) if needs_model else None
    models = {str(n): resolve(str(n), store) for n in spec.axes.get("model", ())} if needs_model else {}
    shaders = store.cache_dir("shaders")
    ready = msgspec.structs.replace(
        spec,
        model=model.path if model else spec.model,
        backends=tuple(_with_shaders(backend, shaders) for backend in usable),
    )
    return Prepared(
        spec=spec,
        plans=tuple(_with_file(plan, models) for plan in experiment.cells(ready)),
        engines=found,
        model=model,
        shaders=shaders,
        lacking=lacking,
        probes=evidence,
        models=models,
        twin=_twin(spec, store) if needs_model and spec.check else None,
    )


def _twin(spec: Spec, store: Store) -> ModelFile | None:
    """What `twin` names; a synthetic model of another type has one by itself, unless models are an axis."""
    if spec.twin:
        return resolve(spec.twin, store)
    if not spec.model.startswith("synth:") or "model" in spec.axes:
        return None
    kind = observing.quantisation(spec.model)
    if kind in (None, "F16"):
        return None
    return resolve(re.sub(r"type=\w+", "type=F16", spec.model), store)


def _with_file(plan: CellPlan, models: Mapping[str, ModelFile]) -> CellPlan:
    """A model axis names models; a trial needs the file."""
    found = models.get(plan.condition.model)
    if found is None:
        return plan
    return dataclasses.replace(plan, condition=dataclasses.replace(plan.condition, model=found.path))


def _with_shaders(backend: BackendSpec, shaders: Path) -> BackendSpec:
    """All trials share one shader cache of Mesa's drivers, and it is part of their condition: cold, it makes a first
    trial twenty times longer."""
    return dataclasses.replace(backend, env={"MESA_SHADER_CACHE_DIR": str(shaders), **backend.env})
