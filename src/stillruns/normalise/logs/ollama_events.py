"""The kinds of lines of an Ollama server's log: what each adds to the state."""

from __future__ import annotations

from collections.abc import Callable

from stillruns.model.backend import backend_of_device
from stillruns.model.evidence import line_of
from stillruns.model.phase import Phase
from stillruns.model.server_facts import Event
from stillruns.model.server_log import LoadedBackend
from stillruns.normalise.crash import signs
from stillruns.normalise.logs import ollama_devices, slog
from stillruns.normalise.logs.llama_cpp_devices import LISTING
from stillruns.normalise.logs.ollama_requests import PATHS, ServedRequest, assign, seconds, times
from stillruns.normalise.logs.ollama_runner import Plan, arguments, built_for
from stillruns.normalise.logs.ollama_state import MAX_REQUESTS, OllamaState

_IDLE = {"listening", "idle", "request_end", "slots"}
_AFTER_READY = {"request_start", "timing_prompt", "timing_decode", "gpu_error_where", "idle", "slots"}
"""Of a runner that is ready, only these lines of llama.cpp are its own for sure: the server itself prints a model's
vocabulary while it prepares the next load."""


def take(state: OllamaState, event: Event, phase: Phase | None) -> None:
    """One line that Ollama's grammar knows."""
    state.keep(event.ref, event.text)
    handler = _HANDLERS.get(event.kind)
    if handler:
        handler(state, event)
    if phase is Phase.DECODE or phase is Phase.DISCOVER or (phase is Phase.LOAD and not state.is_ready()):
        state.phases.mark(phase, event.ref)


def take_llama(state: OllamaState, event: Event, phase: Phase | None) -> None:
    """One line of a runner that llama.cpp's grammar knows."""
    handler = _DEVICES.get(event.kind)
    if handler:
        state.keep(event.ref, event.text)
        handler(state, event)
    load = state.child
    if load is None and not state.probing and event.kind in ("offloaded", "buffer"):
        load = state.implicit(event)
    if load is None or (load.ready and event.kind not in _AFTER_READY):
        return
    state.keep(event.ref, event.text)
    load.llama.take(event, phase)
    if event.kind in _IDLE:
        state.phases.idle()
    elif phase is not None and phase is not Phase.TEARDOWN:
        # what a probe discovers, a runner that loads a model initialises
        state.phases.mark(Phase.INIT if phase is Phase.DISCOVER else phase, event.ref)


def _listening(state: OllamaState, event: Event) -> None:
    state.versions.state(event.fields["version"])
    state.phases.idle()


def _override(state: OllamaState, event: Event) -> None:
    text = f"HSA_OVERRIDE_GFX_VERSION={event.fields['value']} is set: the printed target is not the card's own"
    state.note("override", text, event.ref)


def _refused(state: OllamaState, event: Event) -> None:
    target = slog.attributes(event.fields.get("attributes", "")).get("gpu_type", "")
    card = f" ({target})" if target else ""
    state.note("device", f"the server passes a device over: {event.fields['what']}{card}", event.ref)


def _no_gpu(state: OllamaState, event: Event) -> None:
    state.note(
        "fallback", "discovery found no GPU that this server can use: what it runs, it runs on the CPU", event.ref
    )


def _discovery_failed(state: OllamaState, event: Event) -> None:
    load = state.latest()
    if load is not None and load.died and state.probing > 1:
        state.note(
            "misleading",
            "'failure during GPU discovery' after a runner's death: the server polls for freed memory with "
            "probes that time out; this is not where the fault was",
            event.ref,
        )
    else:
        sign = signs.read(event.text)
        how = f"crashed with {sign.signal}" if sign is not None and sign.signal else "failed"
        state.note("discovery", f"a probe of the GPUs {how}: devices that it was to find may be missing", event.ref)


def _runner_start(state: OllamaState, event: Event) -> None:
    command = slog.value(event.fields["cmd"]) if event.fields["cmd"].startswith('"') else event.fields["cmd"]
    known = arguments(command)
    if "model" not in known:
        state.child = None
        state.probing += 1
        load = state.latest()
        if load is None or (load.ready and not load.died):
            state.phases.mark(Phase.DISCOVER, event.ref)
        elif load.died:
            state.phases.idle()
            state.polled_from = state.now if state.polled_from is None else state.polled_from
        return
    load = state.add_load(event.ref, known["engine"])
    load.model, load.port = known["model"], known.get("port", "")
    load.settings.update({k: v for k, v in known.items() if k not in ("model", "port", "layers", "engine")})
    load.plan_comes = event.rule == "ollama-runner-start"
    if load.plan_comes:
        state.estimate = None
    if state.estimate:
        load.follow(state.estimate)
        state.estimate = None
    elif known["engine"] == "llama.cpp":
        # old runners were given the server's own estimate in place of what was asked, upstream's only what was asked
        layers = known.get("layers", "-1")
        load.ask(int(layers[:9]) if layers.isdecimal() else -1, event.ref)
    load.built = built_for(command)
    state.child = load
    state.phases.mark(Phase.LOAD, event.ref)


def _runner_library(state: OllamaState, event: Event) -> None:
    load = state.add_load(event.ref, "llama runner")
    if state.estimate:
        load.follow(state.estimate)
        state.estimate = None
    load.built = built_for(event.fields["library"])
    state.child = load


def _estimate(state: OllamaState, event: Event) -> None:
    total, load = event.fields.get("total"), state.latest()
    plan = Plan(
        int(event.fields["requested"]),
        None if total is None else int(total),
        event.ref,
        event.fields.get("library") or event.fields.get("library2") or "",
        int(event.fields["offload"]),
    )
    if load is not None and load.plan_comes and not load.ready and not load.died:
        load.follow(plan)
    else:
        state.estimate = plan


def _library_asked(state: OllamaState, event: Event) -> None:
    """OLLAMA_LLM_LIBRARY names the runner: one for the CPU is then no change of the plan, but what was asked."""
    if state.estimate and event.fields["library"].startswith("cpu"):
        state.estimate = state.estimate._replace(layers=0)


def _engine(state: OllamaState, event: Event) -> None:
    load = state.latest()
    if load is not None and not load.ready and state.child is load:
        load.engine = "ollama engine" if "ollama" in event.fields["engine"] else "llama runner"


def _load_start(state: OllamaState, event: Event) -> None:
    load = state.load_of(event)
    if "requested" in event.fields:
        load.total = int(event.fields["total"])
        load.ask(int(event.fields["requested"]), event.ref)
    elif load.model is None:
        load.model = slog.value(event.fields["model"])


def _load_request(state: OllamaState, event: Event) -> None:
    load, rest = state.load_of(event), event.fields["rest"]
    words = dict(part.split(":", 1) for part in rest.split(" ") if ":" in part and not part.startswith("Layers:"))
    for key, name in (
        ("KvSize", "context"),
        ("BatchSize", "batch"),
        ("FlashAttention", "flash_attention"),
        ("NumThreads", "threads"),
        ("Parallel", "parallel"),
    ):
        if words.get(key):
            load.settings[name] = words[key][:40]
    layers = words.get("GPULayers", "").split("[", 1)[0]
    if words.get("GPULayers", "").startswith("[]"):
        layers = "0"
    if layers.isdecimal():
        load.gpu_layers = (int(layers[:9]), event.ref)


def _offloaded(state: OllamaState, event: Event) -> None:
    load = state.loading(event)
    load.offloaded = (int(event.fields["offloaded"]), int(event.fields["total"]), event.ref)


def _architecture(state: OllamaState, event: Event) -> None:
    """The engine says which kind of model it opened."""
    load = state.latest()
    if load is not None and not load.ready and load.architecture is None:
        load.architecture = event.fields["architecture"]


def _memory(state: OllamaState, event: Event) -> None:
    if event.fields["kind"] == "model weights":
        weights = state.loading(event).weights
        if len(weights) < 64:
            weights.append((event.fields["device"], event.ref))


def _device_bus(state: OllamaState, event: Event) -> None:
    """Which device on the bus the server asks for its free memory."""
    if len(state.buses) < 16:
        state.buses.add(event.fields["bus"])


def _ready(state: OllamaState, event: Event) -> None:
    load = state.load_of(event)
    load.ready = load.ready or event.ref
    state.phases.idle()


def _loaded_runners(state: OllamaState, event: Event) -> None:
    load = state.latest()
    if load is not None and int(event.fields["count"]) == 1:
        load.alone = True


def _option_dropped(state: OllamaState, event: Event) -> None:
    state.note("option", f"the server knows no option {event.fields['option'][:60]} and ignores it", event.ref)


def _access(state: OllamaState, event: Event) -> None:
    """The end of a request."""
    fields = event.fields
    path = fields["path"].split("?", 1)[0]
    if fields["method"] != "POST" or path not in PATHS:
        state.texts.pop(event.ref, None)
        return
    if len(state.requests) >= MAX_REQUESTS and fields["status"] == "200":
        # kept nowhere: only counted, so that a journal of a million requests costs no more than its first thousands
        state.requests_dropped += 1
        state.access_line = line_of(event.ref)
        state.phases.idle()
        del state.texts[event.ref]
        return
    taken = seconds(fields["duration"])
    begins, ends, started, ended = times(fields["date"], fields["time"], taken)
    request = ServedRequest(
        id=f"q{len(state.requests) + state.requests_dropped + 1}",
        ref=event.ref,
        line=line_of(event.ref),
        status=int(fields["status"]),
        path=path,
        duration=taken,
        begins=begins,
        ends=ends,
        started=started,
        ended=ended,
    )
    died = state.deaths.of_request(request.id, begins, state.access_line)
    request.died = died.ref if died else None
    assign(request, state.loads, state.access_line)
    _timing(state, request)
    state.access_line = request.line
    if request.status >= 500:
        state.deaths.http(event.ref, event.text, request.id, ended, died)
    elif died is not None and request.status == 200:
        state.note("misleading", "an access line says 200 although the runner had died under the request", event.ref)
    if len(state.requests) < MAX_REQUESTS:
        state.requests.append(request)
    else:
        state.requests_dropped += 1
    state.phases.idle()


def _timing(state: OllamaState, request: ServedRequest) -> None:
    """llama.cpp's own timings, where one request can have printed them."""
    load = state.child
    if load is None:
        return
    new = load.llama.timings[state.timings_seen :]
    state.timings_seen = len(load.llama.timings)
    if len(new) == 1:
        last = new[0]
        request.timing = (last.prompt_tokens, last.prompt_ms, last.predicted_tokens, last.predicted_ms)


def _eof(state: OllamaState, event: Event) -> None:
    text = slog.value(event.fields["error"])
    load = next((x for x in reversed(state.loads) if x.port and f":{x.port}/" in text), state.latest())
    state.deaths.eof(event.ref, event.text, load, state.at, "EOF" in text or "connection reset" in text)


def _terminated(state: OllamaState, event: Event) -> None:
    phase = state.phase()
    if phase is Phase.UNKNOWN and "error loading llama server" in event.text:
        phase = Phase.LOAD  # the scheduler says so while it waits for the runner to be ready
    state.deaths.terminated(event.ref, event.text, event.fields["error"], state.latest(), state.at, phase)


def _load_timeout(state: OllamaState, event: Event) -> None:
    state.deaths.other("timeout", event.ref, event.text, state.latest(), state.at, Phase.LOAD)


def _load_failed(state: OllamaState, event: Event) -> None:
    if "timed out waiting for llama" in event.text or "process has terminated" in event.text:
        return  # the same line says more, and another rule reads it
    state.deaths.other("exception", event.ref, event.text, state.latest(), state.at, Phase.LOAD)


def _backend_loaded(state: OllamaState, event: Event) -> None:
    backend = backend_of_device(event.fields["backend"])
    library = event.fields["library"]
    if state.child is not None and not state.child.ready and len(state.child.libraries) < 32:
        state.child.libraries.append((backend, event.ref))
    if all((b.backend, b.library) != (backend, library) for b in state.libraries) and len(state.libraries) < 64:
        state.libraries.append(LoadedBackend(backend, library, event.ref))


def _listing(state: OllamaState, event: Event) -> None:
    LISTING[event.kind](state.seen, event)


_Handler = Callable[[OllamaState, Event], object]
_HANDLERS: dict[str, _Handler] = {
    "listening": _listening,
    "device": ollama_devices.listed,
    "compute_capability": ollama_devices.compute_capability,
    "amdgpu": ollama_devices.amdgpu,
    "device_memory": ollama_devices.reported,
    "override": _override,
    "device_refused": _refused,
    "no_gpu": _no_gpu,
    "discovery_failed": _discovery_failed,
    "runner_start": _runner_start,
    "runner_start_library": _runner_library,
    "engine": _engine,
    "estimate": _estimate,
    "library_asked": _library_asked,
    "load_start": _load_start,
    "load_request": _load_request,
    "offloaded_engine": _offloaded,
    "architecture": _architecture,
    "memory": _memory,
    "gpu_memory": ollama_devices.before_load,
    "device_bus": _device_bus,
    "ready": _ready,
    "loaded_runners": _loaded_runners,
    "option_dropped": _option_dropped,
    "request_end": _access,
    "runner_eof": _eof,
    "runner_terminated": _terminated,
    "load_timeout": _load_timeout,
    "load_failed": _load_failed,
}
_DEVICES: dict[str, _Handler] = {
    "backend_loaded": _backend_loaded,
    **dict.fromkeys(LISTING, _listing),
    "device_used": lambda state, event: state.seen.used(event),
}
