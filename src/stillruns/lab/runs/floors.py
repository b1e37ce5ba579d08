"""Floors of a store: measured by each run's checks, kept in its journal, and looked up by the next.

What a run measures is derived from its evidence alone (distributions.judge); what it is judged by besides is frozen
in its first record, so that replay judges it the same on any machine, whatever the store has learnt since.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from stillruns.judge.answers import divergence, floors
from stillruns.model.absence import Absence
from stillruns.model.cell_plan import CellPlan
from stillruns.model.divergence import Check, Divergence, Path
from stillruns.model.engine import Engine
from stillruns.model.known_floor import KnownFloor, Pair
from stillruns.store.store import Store

RECORD = "floors_measured"

CHOSEN = "GGML_BACKEND_PATH"
"""The variable that names one more backend library; where a build finds no other for the CPU, this one computes
(ggml_backend_load_all_from_path in ggml/src/ggml-backend-reg.cpp at b11434)."""


class Weights(msgspec.Struct, frozen=True):
    """What was checked; empty texts where the run's first record does not say it."""

    name: str = ""
    architecture: str = ""
    quantisation: str = ""


class CheckedModels(msgspec.Struct, frozen=True):
    """The models of a run's checks: of an axis each by the name that the spec gives it, else the one model, or the
    twin in its place."""

    alone: Weights = Weights()
    axis: dict[str, Weights] = {}

    def of(self, plan: CellPlan) -> Weights:
        """What is checked in that cell."""
        return self.axis.get(str(plan.condition.axes.get("model", "")), self.alone)

    def __iter__(self) -> Iterator[Weights]:
        return iter(self.axis.values() if self.axis else (self.alone,))


def checked_models(body: Mapping[str, object]) -> CheckedModels:
    """The models of a run's checks, from its first record."""
    twin, models = body.get("twin"), body.get("models")
    if isinstance(twin, dict) or not isinstance(models, dict) or not models:
        return CheckedModels(_weights(twin or body.get("model")))
    return CheckedModels(axis={str(name): replace(_weights(model), name=str(name)) for name, model in models.items()})


def _weights(model: object) -> Weights:
    if not isinstance(model, dict):
        return Weights()
    return Weights(*(str(model.get(name, "")) for name in ("name", "architecture", "quantisation")))


def device_of(plan: CellPlan, engine: Engine | None) -> str:
    """The card's own description; for a CPU build, the digest of its CPU library or binary."""
    if engine is None:
        return ""
    if plan.condition.gpu_layers == "none":
        library = next((d for n, d in sorted(engine.libraries.items()) if n.startswith("libggml-cpu")), engine.sha256)
        chosen = plan.condition.env.get(CHOSEN, "").rpartition("/")[2]
        return f"{library} {chosen}".strip()
    if not isinstance(engine.devices, Absence):
        for device in engine.devices:
            if device.name == plan.condition.device:
                return device.description or device.name
    return plan.condition.device


def of_check(
    check: Check,
    plan: CellPlan,
    engine: Engine | None,
    what: Weights,
    run: str,
    own: Mapping[Path, Divergence | None],
) -> tuple[KnownFloor, ...]:
    """What one cell's check measures, on both paths; nothing where the model's kind is not known. `own` is the floor
    of the CPU's own paths, beside which it is trusted or not."""
    if not what.architecture or not what.quantisation:
        return ()
    device = device_of(plan, engine)
    pair = floors.pair_of(plan.condition.backend, device)
    found = []
    for path, seen in ((Path.PROMPT, check.seen), (Path.DECODE, check.decode)):
        if seen is not None and math.isfinite(seen.kl_mean):
            verdict, _ = divergence.verdict(seen, own.get(path), what.quantisation)
            fine = floors.trusted(pair, what.quantisation, verdict)
            found.append(
                KnownFloor(
                    what.architecture, what.quantisation, what.name, device, pair, path, seen, run, check.trial, fine
                )
            )
    return tuple(found)


def of_reference(
    trial: str, device: str, what: Weights, run: str, own: Mapping[Path, Divergence | None]
) -> tuple[KnownFloor, ...]:
    """The CPU's second path against its first, as the check `trial` measured it."""
    if not what.architecture or not what.quantisation:
        return ()
    return tuple(
        KnownFloor(
            what.architecture, what.quantisation, what.name, f"{device}, second path", Pair.CPU_PATH, path, seen, run,
            trial, True,
        )
        for path, seen in own.items()
        if seen is not None
    )  # fmt: skip


def frozen(body: Mapping[str, object]) -> tuple[KnownFloor, ...]:
    """What a run is judged by beside its own, from its first record."""
    return msgspec.convert(body.get("floors", ()), tuple[KnownFloor, ...])


def recall(store: Store, kinds: Iterable[Weights]) -> tuple[KnownFloor, ...]:
    """What earlier runs of this store measured for such weights: of each device and path the newest."""
    wanted = {(what.architecture, what.quantisation) for what in kinds if what.architecture and what.quantisation}
    if not wanted:
        return ()
    newest: dict[tuple[str, ...], KnownFloor] = {}
    for record in store.records(kind=RECORD):
        for floor in msgspec.convert(record.body.get("floors", ()), tuple[KnownFloor, ...]):
            place = floor.architecture, floor.quantisation, floor.pair.value, floor.device, floor.path.value
            if place[:2] in wanted:
                newest[place] = floor
    return tuple(newest.values())
