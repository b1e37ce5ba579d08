"""`stillruns demo`: the main job on what this machine has, with a synthetic model and no download."""

from __future__ import annotations

import os
from collections.abc import Mapping

from stillruns.lab.runs import engines
from stillruns.lab.runs.progress import Progress
from stillruns.lab.specs import spec_file
from stillruns.model.absence import Absence
from stillruns.model.backend import Backend, backend_of_device
from stillruns.model.engine import Device, Engine
from stillruns.model.spec import DEFAULT_PROMPT, BackendSpec, Spec, StopRule, Timeouts
from stillruns.store.store import Store

MODEL = "synth:llama?layers=4&type=Q8_0&seed=0"
TRIALS = 6
SOFTWARE = {"GGML_VK_VISIBLE_DEVICES": "0"}
"""ggml skips CPU-type Vulkan devices (llvmpipe) unless they are named."""


def spec(store: Store, progress: Progress, *, trials: int = TRIALS, environ: Mapping[str, str] = os.environ) -> Spec:
    """The demo's experiment on the devices that the binary lists here; raises EnvironmentLacks without a binary."""
    cpu = BackendSpec(id="cpu", backend=Backend.CPU)
    asked = engines.question(cpu, store, environ)
    backends = [cpu]
    for device in _first_of_each(asked.engine):
        backends.append(BackendSpec(id=backend_of_device(device.name).value, backend=backend_of_device(device.name)))
    if not any(b.backend is Backend.VULKAN for b in backends):
        software = software_vulkan(store, environ, progress)
        if software is not None:
            backends.append(software)
    return spec_file.freeze(
        Spec(
            name="demo",
            question="Does what this machine has run a small model, layer by layer, as the CPU does?",
            model=MODEL,
            prompt=DEFAULT_PROMPT,
            backends=tuple(backends),
            gpu_layers=(0, 2, "all"),
            predict=32,
            context=512,
            stop=StopRule(trials=trials),
            timeouts=Timeouts(load=120, first_token=60, token=30, teardown=10),
        )
    )


def _first_of_each(engine: Engine) -> list[Device]:
    """The first listed device of each backend."""
    if isinstance(engine.devices, Absence):
        return []
    seen: dict[Backend, Device] = {}
    for device in engine.devices:
        kind = backend_of_device(device.name)
        if kind not in (Backend.CPU, Backend.UNKNOWN):
            seen.setdefault(kind, device)
    return list(seen.values())


def software_vulkan(store: Store, environ: Mapping[str, str], progress: Progress) -> BackendSpec | None:
    """Mesa's software Vulkan driver as a second backend, where there is one."""
    backend = BackendSpec(id="vulkan", backend=Backend.VULKAN, env=dict(SOFTWARE))
    asked = engines.question(backend, store, environ)
    if not asked.backend.device:
        progress.note(
            "no Vulkan driver found, so only the cells above run; "
            "apt install mesa-vulkan-drivers adds a software one that needs no GPU"
        )
        return None
    described = "" if isinstance(asked.engine.devices, Absence) else asked.engine.devices[0].description
    progress.note(f"Vulkan here is a software driver on the CPU ({described}): it shows the tool, not a GPU")
    return backend
