"""What is run once and kept: the slow reference, and the warming of a cold shader cache."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import msgspec

from stillruns.errors import StoreError
from stillruns.lab.runs.host import describe as describe_host
from stillruns.lab.runs.preparing import Prepared
from stillruns.model.absence import Absence
from stillruns.model.backend import Backend
from stillruns.model.cell_plan import CellPlan
from stillruns.model.trial import TrialRecord
from stillruns.model.verdict import TrialVerdict
from stillruns.store.ids import digest
from stillruns.store.store import Store
from stillruns.store.view import decode_trial


def recall(store: Store, plan: CellPlan, prepared: Prepared) -> dict[str, object] | None:
    """The record of the same reference from an earlier run: same binary, place, libraries, model, condition, CPU."""
    if not plan.is_reference:
        return None
    try:
        kept = json.loads(_place(store, plan, prepared).read_text())
        for record in store.records(run=kept["run"], kind="trial_ended"):
            if record.body.get("trial") == kept["trial"]:
                for evidence in decode_trial(record.body["record"]).evidence:
                    store.read_blob(evidence.sha256)
                return {
                    "trial": kept["trial"],
                    "cell": plan.id,
                    "from_run": kept["run"],
                    "record": record.body["record"],
                }
    except (OSError, ValueError, KeyError, StoreError):
        pass  # not there, damaged, or its run or evidence was removed; the reference is simply run again
    return None


def remember(store: Store, plan: CellPlan, prepared: Prepared, record: TrialRecord, verdict: TrialVerdict) -> None:
    """Keep a reference that ran well for the next run; a failed one is not kept."""
    if verdict.passed:
        _write(_place(store, plan, prepared), {"run": record.run, "trial": record.trial})


def cold(prepared: Prepared) -> list[CellPlan]:
    """One cell a Vulkan backend whose shaders were never compiled for this binary, model and device: the cell with
    the most offloaded layers, since the others use a part of its shaders."""
    if not prepared.spec.warm:
        return []
    plans = []
    for backend in prepared.spec.backends:
        mine = [p for p in prepared.plans if p.condition.backend_id == backend.id and not p.is_reference]
        if backend.backend is not Backend.VULKAN or not mine or not mine[0].condition.device:
            continue
        most = max(mine, key=lambda p: 1 << 30 if p.condition.gpu_layers == "all" else int(p.condition.gpu_layers))
        if not _warm_mark(prepared, most).exists():
            plans.append(most)
    return plans


def mark_warm(prepared: Prepared, plan: CellPlan, record: TrialRecord) -> None:
    """Note that the cache is warm, unless the warming trial never answered."""
    if record.exchange is not None and record.exchange.status == 200:
        _write(_warm_mark(prepared, plan), {"run": record.run, "trial": record.trial})


def _place(store: Store, plan: CellPlan, prepared: Prepared) -> Path:
    engine = prepared.engine_of(plan.condition)
    host = describe_host()
    model = prepared.model_of(plan.condition)
    body = {
        "condition": msgspec.to_builtins(plan.condition),
        # its path too: a trial is proved by the program on its own command line
        "engine": [engine.binary, engine.sha256, engine.libraries] if engine else None,
        "model": model.sha256 if model else None,
        "host": [host["cpu"], host["machine"], host["libc"]],
    }
    return store.cache_dir("references") / (digest(body).removeprefix("sha256:") + ".json")


def _warm_mark(prepared: Prepared, plan: CellPlan) -> Path:
    engine = prepared.engine_of(plan.condition)
    devices = engine.devices if engine and not isinstance(engine.devices, Absence) else ()
    names = [d.description for d in devices if d.name == plan.condition.device]
    model = prepared.model_of(plan.condition)
    body = {
        "libraries": engine.libraries if engine else None,
        "model": model.sha256 if model else None,
        "device": names,
        "backend": plan.condition.backend_id,
    }
    return prepared.shaders / ("warm-" + digest(body).removeprefix("sha256:")[:16] + ".json")


def _write(place: Path, body: dict[str, str]) -> None:
    with contextlib.suppress(OSError):  # it saves time only
        place.write_text(json.dumps(body))
