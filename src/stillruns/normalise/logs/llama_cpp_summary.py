"""From what one llama.cpp process printed to its ServerLog: runners, devices, what was applied, endings."""

from __future__ import annotations

import re

from msgspec.structs import replace

from stillruns.model.absence import Absence
from stillruns.model.applied import Answer
from stillruns.model.backend import Backend, Runtime, backend_of_device, on_host
from stillruns.model.evidence import Ref
from stillruns.model.expression import Expression
from stillruns.model.phase import Phase
from stillruns.model.server_facts import CACHE, Offload, SeenDevice, ServerFacts, Trouble
from stillruns.model.server_log import (
    Ending,
    Layers,
    LoadedBackend,
    LogDevice,
    LogRequest,
    Note,
    Runner,
    ServerLog,
    VersionRange,
)
from stillruns.normalise.logs import llama_cpp, llama_cpp_cards
from stillruns.normalise.logs.llama_cpp_life import Life
from stillruns.normalise.logs.llama_cpp_state import NOTE_PIECE
from stillruns.normalise.logs.reader import visible

_DRIVER = Expression(
    r"^(?P<name>.*?) ?\((?P<driver>radv|RADV|AMD open-source driver|AMD proprietary driver|[^()]{0,40}"
    r"(?:driver|NVIDIA|llvmpipe|turnip|nvk|anv)[^()]{0,20}|llvmpipe)\)$"
)
_BENCH_BACKENDS = {
    "ROCm": Backend.ROCM,
    "CUDA": Backend.CUDA,
    "Vulkan": Backend.VULKAN,
    "SYCL": Backend.SYCL,
    "Metal": Backend.METAL,
    "CPU": Backend.CPU,
    "RPC": Backend.RPC,
}


def summary(life: Life, id: str, name: str) -> ServerLog:
    """Close the process and report it."""
    facts = llama_cpp.facts(life.state)
    runner = _runner(life, facts)
    requests = tuple(_request(r, runner, life) for r in life.requests.all())
    endings = tuple(_placed(e, life, facts) for e in life.deaths.close())
    notes = [*life.notes, *(Note("log", text) for text in facts.notes)]
    if facts.hidden and "offload" in facts.hidden:
        notes.append(
            Note("hidden", "the load's lines are not shown at this verbosity: layers and buffers are unknown")
        )
    fallback = _fallback(facts, runner, life.asked)
    devices = _devices(life, facts)
    cards = (
        llama_cpp_cards.software(devices),
        llama_cpp_cards.no_code(facts.system_info.get("CUDA.ARCHS", ""), devices),
    )
    notes += [note for note in (fallback, *cards) if note]
    if life.state.in_header:
        notes.append(Note("excerpt", NOTE_PIECE, tuple(span.last for span in facts.phases[-1:])))
    if life.override:
        notes.append(
            Note(
                "override",
                "HSA_OVERRIDE_GFX_VERSION is set: the printed target is not the card's own",
                (life.override,),
            )
        )
    return ServerLog(
        id=id,
        name=name,
        runtime=Runtime.LLAMA_CPP if life.decisive else Runtime.UNKNOWN,
        version=VersionRange(facts.version, facts.version, "line") if facts.version else VersionRange(),
        program=life.program or ("llama-server" if life.requests.all() else ""),
        backends_loaded=tuple(LoadedBackend(*b) for b in facts.backends_loaded),
        devices=devices,
        runners=(runner,) if runner else (),
        requests=requests,
        phases=facts.phases,
        last_phase=facts.last_phase,
        troubles=_troubles(life, facts),
        endings=_cut(endings, life, facts),
        clean_end=facts.clean_end or (life.bench_rows[-1][0] if life.bench_rows else None) or _answered(facts),
        notes=tuple(notes),
        pids=tuple(sorted(life.pids)),
        lines=life.last - life.first + 1,
        texts=tuple(life.texts.items()),
    )


def _answered(facts: ServerFacts) -> Ref | None:
    """llama-cli's timings come after its answer."""
    return next((t.ref for t in reversed(facts.timings) if t.predicted_ms is not None), None)


def _devices(life: Life, facts: ServerFacts) -> tuple[LogDevice, ...]:
    found = [_device(d) for d in facts.devices]
    if life.named_target and not any(d.target for d in found):
        target, ref = life.named_target
        found.append(LogDevice(Backend.ROCM, "", "", target, ref))
    return tuple(found)


def _device(seen: SeenDevice) -> LogDevice:
    split = _DRIVER.match(seen.description)
    name, driver = (split["name"], split["driver"]) if split else (seen.description, seen.driver)
    if not driver and "RADV" in seen.description:
        driver = "radv"
    return LogDevice(seen.backend, seen.name, name, seen.target, seen.ref, seen.memory_mib, driver, seen.free_mib)


def _of_devices(facts: ServerFacts) -> list[str]:
    """Whose the model's buffers are that lie on a device; until 2023 these had no name but `VRAM`."""
    names = [b.device for b in facts.buffers if b.purpose == "model" and not on_host(b.device)]
    return [name for name in names if name != "VRAM"]


def _backend_of(device: str, facts: ServerFacts) -> Backend:
    """Of a buffer's device name: ggml's own, or in 2024 the card's description."""
    known = backend_of_device(device)
    if known is not Backend.UNKNOWN:
        return known
    return next(
        (d.backend for d in facts.devices if d.description.startswith(device) or d.name == device), Backend.UNKNOWN
    )


def used_backends(facts: ServerFacts) -> tuple[Backend, ...]:
    """Where weights went: the backends of model buffers, else of devices in use; the CPU only when it is told."""
    offload = facts.offload
    if isinstance(offload, Offload) and offload.offloaded == 0:
        return (Backend.CPU,)
    on = [_backend_of(device, facts) for device in _of_devices(facts)]
    on += [d.backend for d in facts.devices if d.used is not None]
    found = tuple(dict.fromkeys(b for b in on if b not in (Backend.UNKNOWN, Backend.CPU)))
    if found:
        return found
    gpus = {d.backend for d in facts.devices if d.backend is not Backend.CPU}
    if _all_on_host(facts) and "devices" not in facts.hidden:
        return (Backend.CPU,) if not isinstance(offload, Offload) or not gpus else ()
    if isinstance(offload, Offload) and len(gpus) == 1:
        return tuple(gpus)
    weights_are_told = any(b.purpose == "model" for b in facts.buffers)
    return () if weights_are_told or isinstance(offload, Offload) else _beside_weights(facts)


def _beside_weights(facts: ServerFacts) -> tuple[Backend, ...]:
    """Where no line of the weights is there: a layer's cache is where the layer is, and a compute buffer belongs to a
    backend that takes part. Where the whole cache is the host's, one on a device tells nothing: builds for a GPU have
    it with no layer there, too, for large batches."""
    cache = [b for b in facts.buffers if b.purpose in CACHE]
    telling = cache or [b for b in facts.buffers if b.purpose == "compute"]
    on = [_backend_of(b.device, facts) for b in telling if not on_host(b.device)]
    return tuple(dict.fromkeys(b for b in on if b not in (Backend.UNKNOWN, Backend.CPU)))


def _runner(life: Life, facts: ServerFacts) -> Runner | None:
    offload = facts.offload
    backends = used_backends(facts)
    first = facts.phases[0].first if facts.phases else None
    if life.bench_rows:
        return _bench_runner(life, facts)
    if life.state.loads == 0 and isinstance(offload, Absence) and not backends and life.asked is None:
        return None
    requested = life.asked if life.asked is not None else _repeated(life, offload)
    device = next((d.name for d in facts.devices if d.used is not None), None)
    if device is None:
        device = next(iter(_of_devices(facts)), None)
    settings = {key: value for key, (value, _) in facts.settings.items()}
    names = {"n_ctx": "context", "n_batch": "batch", "n_ubatch": "ubatch", "n_threads": "threads"}
    shown = tuple((names[k], v) for k, v in settings.items() if k in names)
    fa = settings.get("flash_attn_used") or settings.get("flash_attn")
    shown += (("flash_attention", fa),) if fa else ()
    refs = tuple(r for r in (life.asked_ref, offload.ref if isinstance(offload, Offload) else None) if r)
    started = life.state.load_ref or first or (refs[0] if refs else f"{life.state.source}:L{life.first}")
    return Runner(
        id="load",
        engine="llama.cpp",
        started=started,
        model=life.state.load.path or life.state.main_path or None,
        requested_layers=requested,
        applied_layers=_applied(facts),
        total_layers=offload.total if isinstance(offload, Offload) else None,
        overflowing=offload.overflowing if isinstance(offload, Offload) else 0,
        backend=backends[0] if backends else Backend.UNKNOWN,
        backends=backends,
        device=device,
        settings=shown,
        ready=facts.model_loaded,
        refs=refs,
        architecture=life.state.load.architecture,
    )


def _repeated(life: Life, offload: Offload | Absence) -> Layers:
    """What was asked, where only the layer line tells: until 2025 (`llm_load_tensors`) it repeats -ngl, at most the
    number of layers. Later builds may have chosen the number themselves (-fit)."""
    if not isinstance(offload, Offload) or offload.offloaded >= offload.total:
        return None
    return offload.offloaded if life.texts.get(offload.ref, "").startswith("llm_load_tensors: ") else None


def _applied(facts: ServerFacts) -> int | None:
    """The printed number counts only where something shows that a device took part."""
    offload = facts.offload
    if not isinstance(offload, Offload):
        return None
    if _all_on_host(facts):
        return 0
    return offload.offloaded


def _all_on_host(facts: ServerFacts) -> bool:
    """All model buffers are on the host, whatever is said to be offloaded."""
    model = [b for b in facts.buffers if b.purpose == "model"]
    return bool(model) and all(on_host(b.device) for b in model)


def _fallback(facts: ServerFacts, runner: Runner | None, asked: Layers) -> Note | None:
    offload = facts.offload
    if runner is None or not isinstance(offload, Offload):
        return None
    if offload.offloaded > 0 and _all_on_host(facts):
        text = (
            f"'offloaded {offload.offloaded}/{offload.total} layers to GPU' is printed, but every model buffer is "
            "the host's: it ran on the CPU"
        )
        return Note("fallback", text, (offload.ref,))
    gpus = [d for d in facts.devices if d.backend not in (Backend.CPU, Backend.UNKNOWN)]
    if offload.offloaded == 0 and gpus and asked not in (0, None):
        return Note("fallback", f"{asked} layers were asked for and none was offloaded", (offload.ref,))
    if offload.offloaded == 0 and gpus and asked is None:
        text = (
            f"a GPU is listed ({gpus[0].description}), but no layer was offloaded; the log does not show what was "
            "asked (builds before 2025-10 offload nothing unless -ngl is given)"
        )
        return Note("fallback", text, (offload.ref,))
    return None


def _bench_runner(life: Life, facts: ServerFacts) -> Runner:
    ref, row = life.bench_rows[-1]
    names = [part.strip() for part in row.get("backend", "").split(",") if part.strip()]
    backends = tuple(dict.fromkeys(_BENCH_BACKENDS[n] for n in names if n in _BENCH_BACKENDS and n != "RPC"))
    ngl = row.get("ngl", "")
    asked: Layers = int(ngl) if re.fullmatch(r"-?\d{1,6}", ngl) else life.asked
    if asked == 0:
        backends = ()
    return Runner(
        id="load",
        engine="llama.cpp",
        started=ref,
        model=row.get("model"),
        requested_layers=asked,
        backend=backends[0] if backends else Backend.UNKNOWN,
        backends=backends,
        device=next((d.name for d in facts.devices if d.backend in backends), None),
        refs=(ref,),
    )


def _request(request: LogRequest, runner: Runner | None, life: Life) -> LogRequest:
    """The runner's condition, written into the request."""
    if runner is None:
        return replace(request, why="the log shows no load")
    settings = dict(runner.settings)
    context, batch = settings.get("context", ""), settings.get("batch", "")
    applied, why = applied_answer(runner)
    return replace(
        request,
        model=runner.model,
        context=int(context) if context.isdecimal() else None,
        batch=int(batch) if batch.isdecimal() else None,
        flash_attention=settings.get("flash_attention"),
        requested_layers=runner.requested_layers,
        applied_layers=runner.applied_layers,
        total_layers=runner.total_layers,
        applied=applied,
        why=why,
        refs=tuple(dict.fromkeys((*runner.refs, request.first, request.last))),
    )


def applied_answer(runner: Runner) -> tuple[Answer, str]:
    """Whether the layers that were asked are those that are used, as far as one log tells."""
    asked, got, total = runner.requested_layers, runner.applied_layers, runner.total_layers
    if asked is None:
        partly = (
            f"; {runner.overflowing} of {got} did not fit and lie partly on the host" if runner.overflowing else ""
        )
        return Answer.UNKNOWN, f"the log does not show how many layers were asked for{partly}"
    if got is None:
        return Answer.UNKNOWN, "the log does not show how many layers were offloaded"
    if runner.overflowing:
        return Answer.NO, f"{runner.overflowing} layers did not fit and lie partly on the host"
    if asked == "auto" or (isinstance(asked, int) and asked < 0):
        return Answer.YES, f"the runtime chose {got} of {total} layers"
    wanted = total if asked == "all" else min(int(asked), total) if total is not None else int(asked)
    if got == wanted:
        return Answer.YES, f"{got} of {total} layers, as asked"
    return Answer.NO, f"{asked} layers were asked for, {got} of {total} offloaded"


def _placed(ending: Ending, life: Life, facts: ServerFacts) -> Ending:
    """The phase of the last line that tells one may be some way before the end: unknown where it is."""
    return replace(ending, phase=Phase.UNKNOWN) if _doubtful(ending.phase, life, facts) else ending


def _doubtful(phase: Phase, life: Life, facts: ServerFacts) -> bool:
    """Whether lines that would tell a later phase may be missing."""
    if phase is Phase.RESERVE:
        return not life.announces_warmup  # builds before b4876 print nothing when they warm up
    if phase is Phase.DISCOVER:
        return not life.decisive  # llama-bench prints nothing more until its table
    # the layer line is followed by buffer lines at once; without them lines are missing: an excerpt
    return phase is Phase.LOAD and isinstance(facts.offload, Offload) and not facts.buffers


def _troubles(life: Life, facts: ServerFacts) -> tuple[Trouble, ...]:
    own = life.phased
    return tuple(
        replace(t, phase=Phase.UNKNOWN) if t.pattern not in own and _doubtful(t.phase, life, facts) else t
        for t in facts.troubles
    )


def _cut(endings: tuple[Ending, ...], life: Life, facts: ServerFacts) -> tuple[Ending, ...]:
    """A log that just ends in mid work says so; it is no proof of a death."""
    busy = (Phase.LOAD, Phase.RESERVE, Phase.WARMUP, Phase.PROMPT)
    if life.garbage:
        text = life.texts.get(life.garbage, "")
        return (*endings, Ending("garbage", life.garbage, text, phase=Phase.DECODE))
    if endings or facts.troubles or facts.last_phase not in busy or not life.decisive or life.bench_rows:
        return endings
    span = facts.phases[-1] if facts.phases else None
    if span is None or facts.clean_end or life.state.in_header or _doubtful(facts.last_phase, life, facts):
        return endings
    ref, said = life.phase_line
    text = visible(said) if ref == span.last else f"the log ends in {facts.last_phase.value}"
    return (Ending("cut", span.last, text, phase=facts.last_phase, phase_ref=span.last),)
