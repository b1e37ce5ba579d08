"""The devices of an Ollama server: what discovery lists (in all its ages), what runners list, and their memory."""

from __future__ import annotations

from msgspec.structs import replace

from stillruns.model.backend import Backend
from stillruns.model.expression import Expression
from stillruns.model.server_facts import Event
from stillruns.model.server_log import LogDevice
from stillruns.normalise.logs import slog
from stillruns.normalise.logs.ollama_state import OllamaState

_DRIVER = Expression(
    r"\((radv|AMD open-source driver|AMD proprietary driver|[^()]{0,40}Mesa driver|NVIDIA|llvmpipe)\)"
)
_LIBRARIES = {
    "rocm": Backend.ROCM,
    "cuda": Backend.CUDA,
    "vulkan": Backend.VULKAN,
    "metal": Backend.METAL,
    "oneapi": Backend.SYCL,
    "cpu": Backend.CPU,
}
_MAX_LISTED = 64


def backend_of_library(library: str) -> Backend:
    """`ROCm`, `cuda_v12`, `Vulkan`."""
    return _LIBRARIES.get(library.split("_")[0].lower(), Backend.UNKNOWN)


def listed(state: OllamaState, event: Event) -> None:
    """`inference compute`: what discovery found (from 0.1.35)."""
    known = slog.attributes(event.fields["attributes"])
    backend = backend_of_library(known.get("library", ""))
    name = known.get("name", "") or known.get("id", "")
    if backend is Backend.CPU:
        state.note("fallback", "discovery found no GPU that this server can use: it lists only the CPU", event.ref)
    compute = known.get("compute", "")
    target = compute if compute.startswith("gfx") else None
    if backend is Backend.CUDA and compute.replace(".", "").isdecimal():
        target = "sm_" + compute.replace(".", "")
    driver = known.get("driver", "")
    device = LogDevice(
        backend,
        name,
        known.get("description", "") or name,
        target,
        event.ref,
        size_mib(known.get("total", "")),
        "" if driver == "0.0" else driver,
        size_mib(known.get("available", "")),
    )
    _keep(state, known.get("id", "") + name, device)


def _keep(state: OllamaState, key: str, device: LogDevice) -> None:
    if len(state.listed) < _MAX_LISTED or key in state.listed:
        state.listed[key] = device


def compute_capability(state: OllamaState, event: Event) -> None:
    """`CUDA Compute Capability detected: 6.1` (to 0.1.32): the only thing those releases say of an NVIDIA card."""
    target = "sm_" + event.fields["compute"].replace(".", "")
    _keep(state, "cuda", LogDevice(Backend.CUDA, "", "", target, event.ref))


def amdgpu(state: OllamaState, event: Event) -> None:
    """`amdgpu [0] gfx900 is supported`, `msg="amdgpu is supported" gpu=0 gpu_type=gfx900` (0.1.29 to 0.1.34), and the
    lines of its memory; each adds to the device of its number."""
    key = f"amdgpu{event.fields['index']}"
    before = state.listed.get(key) or LogDevice(Backend.ROCM, "", "", None, event.ref)
    total = _amount(event.fields.get("total"))
    free = _amount(event.fields.get("free"))
    device = replace(
        before,
        target=event.fields.get("target") or before.target,
        memory_mib=before.memory_mib if total is None else total,
        free_mib=before.free_mib if free is None else free,
    )
    _keep(state, key, device)


def _amount(text: str | None) -> float | None:
    """`8176M` or `8.0 GiB` in MiB."""
    if not text:
        return None
    return float(text[:-1]) if text.endswith("M") and text[:-1].isdecimal() else size_mib(text)


def size_mib(text: str) -> float | None:
    """`7.0 GiB` in MiB; None for anything else."""
    number, _, unit = text.partition(" ")
    factor = {"B": 1 / 1048576, "KiB": 1 / 1024, "MiB": 1.0, "GiB": 1024.0, "TiB": 1048576.0}.get(unit)
    try:
        return float(number) * factor if factor else None
    except ValueError:
        return None


def before_load(state: OllamaState, event: Event) -> None:
    """`gpu memory`: what was free on a device before the load; with several devices, each."""
    load = state.latest()
    if load is None or load.ready:
        return
    known = slog.attributes(event.fields["attributes"])
    free = size_mib(known.get("free", ""))
    if free is not None and len(state.free) < _MAX_LISTED:
        state.free.setdefault(known.get("id", ""), (backend_of_library(known.get("library", "")), free))
    shown = f"{known.get('library', '')} {known.get('available', '')}".strip()
    before = load.settings.get("device_free", "")
    if len(before) < 200:
        load.settings["device_free"] = f"{before}, {shown}" if before else shown


def reported(state: OllamaState, event: Event) -> None:
    """`... memory reporting free: 8043999232 total: 8573157376`: bytes, as a backend asked the driver."""
    total, free = (float(event.fields[name][:18]) / 1048576 for name in ("total", "free"))
    own = (Backend.VULKAN,) if "_vk_" in event.fields["function"] else (Backend.CUDA, Backend.ROCM)
    for backend in own:
        state.seen.memory(backend, total, free)


def devices(state: OllamaState) -> tuple[LogDevice, ...]:
    """What the runners list, then what only discovery found."""
    found: list[LogDevice] = []
    for seen in state.seen.all():
        driver = _DRIVER.search(seen.description)
        found.append(
            LogDevice(
                seen.backend,
                seen.name,
                seen.description,
                seen.target,
                seen.ref,
                seen.memory_mib,
                driver[1] if driver else seen.driver,
                seen.free_mib,
            )
        )
    runners = len(found)
    for device in state.listed.values():
        alone = sum(other.backend is device.backend for other in state.listed.values()) == 1
        _merge(found, device, runners, alone)
    return tuple(_with_free(found, state))


def _merge(found: list[LogDevice], listed: LogDevice, runners: int, alone: bool) -> None:
    """Add what discovery lists to the device of a runner that it is, or as a device of its own. The first `runners`
    of `found` are the runners'; `alone` says that discovery lists no other of its backend."""
    same = [place for place, device in enumerate(found[:runners]) if _same(device, listed, found, alone)]
    if len(same) == 1:
        device = found[same[0]]
        found[same[0]] = replace(
            device,
            target=device.target or listed.target,
            memory_mib=device.memory_mib if listed.memory_mib is None else listed.memory_mib,
            free_mib=device.free_mib if listed.free_mib is None else listed.free_mib,
            driver=device.driver or listed.driver,
        )
    elif not same and (listed.name or all(device.backend is not listed.backend for device in found)):
        found.append(listed)


def _same(device: LogDevice, listed: LogDevice, found: list[LogDevice], alone: bool) -> bool:
    """Whether what a runner lists is what discovery listed: by name, by description, or as the only one."""
    if device.backend is not listed.backend:
        return False
    alone = alone and sum(other.backend is device.backend for other in found) == 1
    return device.name == listed.name or device.description == listed.description or alone


def _with_free(found: list[LogDevice], state: OllamaState) -> list[LogDevice]:
    """The free memory that the server saw before a load, where one device of that backend is all there is."""
    for backend in {backend for backend, _ in state.free.values()}:
        amounts = [free for of, free in state.free.values() if of is backend]
        places = [place for place, device in enumerate(found) if device.backend is backend]
        if len(amounts) == 1 and len(places) == 1 and found[places[0]].free_mib is None:
            found[places[0]] = replace(found[places[0]], free_mib=amounts[0])
    return found
