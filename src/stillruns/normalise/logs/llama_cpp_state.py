"""What a llama.cpp log has said so far."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from stillruns.model.absence import Absence
from stillruns.model.backend import Backend, backend_of_device
from stillruns.model.evidence import Ref, line_of
from stillruns.model.outcome import OutcomeKind
from stillruns.model.pattern import CrashPattern
from stillruns.model.phase import Phase
from stillruns.model.server_facts import Buffer, Event, Offload, Timing, Trouble
from stillruns.normalise.logs.llama_cpp_devices import LISTING, SeenDevices
from stillruns.normalise.logs.llama_cpp_load import Load, Phases
from stillruns.normalise.logs.matcher import trouble
from stillruns.normalise.system_info import features

NOTE_PROMPT_OR_DECODE = (
    "the log ends after a prompt was taken up and before its timings: it cannot tell the prompt's batch from the "
    "first decode steps"
)
NOTE_SECOND_INTERRUPT = (
    "the server received a second stop signal while it shut down, and ends at once then: an abort after that line is "
    "this exit, not a fault of the GPU"
)
NOTE_QUIET_LOAD = (
    "at this verbosity nothing is shown between the load's start and readiness: load, reserve and warmup look alike"
)
NOTE_RETRIED = "the first reservation of compute buffers did not fit and was tried again without pipeline parallelism"
RETRIED = 6
"""The lines of a failed reservation stand within so many lines before the one that says that it is tried again."""
NOTE_NO_GPU_BACKEND = "the binary says that it has no usable GPU and ignores the number of layers"

_IDLE = {"listening", "idle", "request_end", "slots", "client_ready"}
"""After these the server waits (for its slots, then for a request): no phase."""
_AFTER_LOAD = {
    "context",
    "setting",
    "memory",
    "reserve",
    "warmup",
    "slots",
    "model_loaded",
    "request_start",
}
_PURPOSES = {"model": "model", "KV": "kv", "compute": "compute", "output": "output", "RS": "rs", "input": "compute"}
_DESCRIBES = tuple(
    f"{where}: {what}" for where in ("print_info", "llm_load_print_meta") for what in ("arch ", "general.name")
)
_HEADER = ("llama_model_loader: ", "llm_load_print_meta: ", "llm_load_vocab: ", "print_info: ", "load: ")
"""What stands in the model, printed in one go before anything is asked of a device. A log whose last known line is
one of these (`in_header`) was cut there: no load hangs or dies between them without a word."""
_BEFORE_HEADER = ("gguf", "ggml_file", "device_used")
NOTE_PIECE = "ends among the lines that describe the model: a piece of a log, whose end says nothing"
_MAX_AWAITING = 64
_MAX_TROUBLES = 200
"""A flood of one error keeps its first lines; how many more there were is a note."""


@dataclass
class State:
    """Everything gathered from the lines so far; `take` adds one recognised line."""

    source: str
    lines: int = 0
    version: str | None = None
    builds: int = 0
    verbosity: int | None = None
    stamped: bool = False
    informs: bool = False
    seen: SeenDevices = field(default_factory=SeenDevices)
    backends: list[tuple[Backend, str, Ref]] = field(default_factory=list)
    load: Load = field(default_factory=Load)
    main_path: str | None = None
    side_load: bool = False
    phases: Phases = field(default_factory=Phases)
    troubles: list[Trouble] = field(default_factory=list)
    troubles_left_out: int = 0
    timings: list[Timing] = field(default_factory=list)
    system_info: dict[str, str] = field(default_factory=dict)
    model_loaded: Ref | None = None
    clean_end: Ref | None = None
    cut_at: Ref | None = None
    lost_devices: bool = False
    second_interrupt: bool = False
    described: bool = False
    in_header: bool = False
    awaiting: list[Event] = field(default_factory=list)
    prompt_open: bool = False
    loads: int = 0
    load_ref: Ref | None = None
    notes: list[str] = field(default_factory=list)

    def phase(self) -> Phase:
        """The phase of the last line that told one; UNKNOWN when idle."""
        return self.phases.current or Phase.UNKNOWN

    def form(self, form: str, level: str) -> None:
        """The prefix of a line: time stamps mark the newer builds, levels tell what is shown at all."""
        self.stamped = self.stamped or form == "stamp"
        self.informs = self.informs or level in ("I", "D")

    def torn(self, ref: Ref) -> None:
        """A hole in the log; before the tensors are loaded, the devices in use may stand in it."""
        self.cut_at = ref
        self.lost_devices = not self.load.tensors

    def metadata(self, text: str) -> None:
        """A line that tells what stands in the model. Its name comes after its architecture, and the devices of this
        load before both."""
        self.described = self.described or text.startswith(_DESCRIBES)
        self.in_header = text.startswith(_HEADER)
        if not self.side_load:
            self.load.describe(text)

    def quiet(self) -> bool:
        """Whether the verbosity hides the load's lines (below 4 on builds with time stamps, b9246 and later)."""
        if self.verbosity is not None:
            return self.verbosity < 4
        return self.stamped and not self.informs

    def take(self, event: Event, phase: Phase | None) -> None:
        """One recognised line."""
        self.in_header = event.kind in _BEFORE_HEADER and not self.load.tensors
        handler = _HANDLERS.get(event.kind)
        if handler:
            handler(self, event)
        if event.kind in _AFTER_LOAD and not self.side_load:
            self.load.beyond = True
        if event.kind in _IDLE:
            self.phases.idle()
            self.prompt_open = False
        elif phase is None and event.kind == "buffer":
            fits = self.phases.current in (Phase.LOAD, Phase.RESERVE)
            named = Phase.LOAD if event.fields.get("purpose", "model") == "model" else Phase.RESERVE
            if fits or self.phases.current is None:
                self.phases.mark(named, event.ref)
        elif (
            phase is Phase.TEARDOWN and self.model_loaded is None and self.phases.current not in (None, Phase.WARMUP)
        ):
            pass  # "cleaning up" after a load that failed: where it failed stays the phase
        elif phase is not None:
            self.phases.mark(phase, event.ref)

    def trouble(self, pattern: CrashPattern, match: re.Match[str], ref: Ref, text: str) -> None:
        """A line that a crash pattern explains; none counts after a second stop signal (NOTE_SECOND_INTERRUPT)."""
        if self.second_interrupt:
            return
        if len(self.troubles) >= _MAX_TROUBLES:
            self.troubles_left_out += 1
            return
        self.troubles.append(trouble(pattern, match, ref, text, self.phase()))

    def stamp_trouble(self, ref: Ref, at: str) -> None:
        """The time of the envelope of the line that was just read."""
        if at and self.troubles and self.troubles[-1].ref == ref:
            self.troubles[-1] = replace(self.troubles[-1], at=at)

    def offload(self) -> Offload | Absence:
        """The layers of the load that counts, or why they are not there."""
        return self.load.offload_or_absence(self.lines, self.quiet(), self.cut_at is not None, self.phase())

    def hidden(self) -> tuple[str, ...]:
        """What the verbosity does not show."""
        missing = []
        load = self.load
        past = load.beyond or self.quiet()
        if past and not load.tensors:
            missing.append("offload")
        if past and not load.buffers:
            missing.append("buffers")
        if (self.stamped and past and not self.seen.all()) or (self.lost_devices and not self.seen.any_used()):
            missing.append("devices")
        return tuple(missing)

    def close(self) -> None:
        """Notes that depend on how the log ends."""
        if self.prompt_open and self.phases.current is Phase.PROMPT:
            self.notes.append(NOTE_PROMPT_OR_DECODE)
        if self.quiet() and self.phases.current is Phase.LOAD:
            self.notes.append(NOTE_QUIET_LOAD)
        if self.second_interrupt:
            self.notes.append(NOTE_SECOND_INTERRUPT)
        if self.loads > 1:
            self.notes.append(f"the model was loaded {self.loads} times; the last load counts")
        if self.troubles_left_out:
            self.notes.append(f"{self.troubles_left_out} further lines of trouble are left out")
        if self.cut_at:
            self.notes.append(f"a part of the log was cut out at {self.cut_at}")


def _build(state: State, event: Event) -> None:
    state.builds += 1
    if state.version is None:
        state.version = f"{event.fields['build']} ({event.fields['commit']})"


def _verbosity(state: State, event: Event) -> None:
    state.verbosity = int(event.fields["level"][:6])


def _system_info(state: State, event: Event) -> None:
    if "n_threads" in event.fields:
        state.load.settings["n_threads"] = (event.fields["n_threads"], event.ref)
    elif state.model_loaded:
        return  # a line without a stamp, which a model's text could imitate by then
    state.system_info = features(event.text) or state.system_info


def _backend_loaded(state: State, event: Event) -> None:
    backend = backend_of_device(event.fields["backend"])
    state.backends.append((backend, event.fields["library"], event.ref))


def _gguf(state: State, event: Event) -> None:
    path = event.fields["path"]
    if state.main_path is None:
        state.main_path = path
    if path != state.main_path:
        state.side_load = True
        state.notes.append("a second model is loaded too (draft or projector); its lines are left out")
        return
    state.side_load = False
    state.described = False
    state.loads += 1
    if state.loads > 1:
        kept = {key: value for key, value in state.load.settings.items() if key == "n_threads"}
        state.load = Load(path=path, settings=kept, overflow=state.load.overflow)
        state.seen.forget_used()
    for waiting in state.awaiting:
        state.seen.used(waiting)
    state.awaiting.clear()
    state.load.path = path
    state.load_ref = event.ref


def _load_tensors(state: State, event: Event) -> None:
    if not state.side_load:
        state.load.begin_tensors()
        if "load_mode" in event.fields:
            state.load.settings["load_mode"] = (event.fields["load_mode"], event.ref)


def _repeating(state: State, event: Event) -> None:
    if not state.side_load:
        state.load.repeating = int(event.fields["layers"][:9])


def _output(state: State, event: Event) -> None:
    if not state.side_load:
        state.load.output = True


def _offloaded(state: State, event: Event) -> None:
    if not state.side_load:
        state.load.tensors = True
        state.load.offloaded = (int(event.fields["offloaded"][:9]), int(event.fields["total"][:9]), event.ref)


def _overflow(state: State, event: Event) -> None:
    state.load.overflow[event.fields["device"]] = int(event.fields["overflowing"][:9])


def _buffer(state: State, event: Event) -> None:
    if not state.side_load:
        purpose = _PURPOSES[event.fields.get("purpose", "model")]
        mib = float(event.fields["mib"][:24])
        state.load.buffers.append(Buffer(event.fields["device"].strip(), purpose, mib, event.ref))


def _setting(state: State, event: Event) -> None:
    if not state.side_load:
        state.load.settings[event.fields["key"]] = (event.fields["value"], event.ref)


def _flash_attention(state: State, event: Event) -> None:
    if not state.side_load:
        state.load.settings["flash_attn_used"] = (event.fields["state"], event.ref)


def _model_loaded(state: State, event: Event) -> None:
    state.model_loaded = event.ref
    state.side_load = False


def _listening(state: State, event: Event) -> None:
    """Builds without a `model loaded` line listen after the load; those that listen first have it."""
    if state.load.beyond and state.model_loaded is None:
        _model_loaded(state, event)


def _cleanup(state: State, event: Event) -> None:
    if state.model_loaded or event.rule == "log-end":
        state.clean_end = event.ref


def _second_interrupt(state: State, event: Event) -> None:
    state.second_interrupt = True
    state.clean_end = None


def _request_start(state: State, event: Event) -> None:
    state.prompt_open = True


def _timing_prompt(state: State, event: Event) -> None:
    state.prompt_open = False
    tokens, ms = int(event.fields["tokens"][:9]), float(event.fields["ms"][:24])
    state.timings.append(Timing(tokens, ms, None, None, event.ref))


def _timing_decode(state: State, event: Event) -> None:
    tokens, ms = int(event.fields["tokens"][:9]), float(event.fields["ms"][:24])
    if state.timings and state.timings[-1].predicted_ms is None:
        state.timings[-1] = replace(state.timings[-1], predicted_tokens=tokens, predicted_ms=ms)
    else:
        state.timings.append(Timing(None, None, tokens, ms, event.ref))


def _gpu_error_where(state: State, event: Event) -> None:
    """`current device: D` belongs to the error line just before it."""
    if state.troubles and state.troubles[-1].device is None:
        last = state.troubles[-1]
        if line_of(event.ref) - line_of(last.ref) <= 3:
            kind = "ROCm" if state.seen.kind == "ROCm" or last.text.startswith("ROCm") else "CUDA"
            state.troubles[-1] = replace(last, device=f"{kind}{event.fields['index']}")


def _reserve_retry(state: State, event: Event) -> None:
    """What could not be allocated is tried again in another way: the lines before are no failure."""
    line = line_of(event.ref)
    kept = [t for t in state.troubles if t.outcome is not OutcomeKind.OOM or line - line_of(t.ref) > RETRIED]
    if len(kept) < len(state.troubles):
        state.troubles = kept
        state.notes.append(NOTE_RETRIED)


def _device_used(state: State, event: Event) -> None:
    """Printed before the model is described. Later it is the beginning of the next load (builds that name the device
    before they open the file), or a text of the model's that imitates it: the next load's head tells."""
    if state.side_load:
        return
    if state.described or state.load.tensors:
        state.awaiting.append(event)
        del state.awaiting[:-_MAX_AWAITING]
    else:
        state.seen.used(event)


def _no_gpu(state: State, event: Event) -> None:
    if NOTE_NO_GPU_BACKEND not in state.notes:
        state.notes.append(NOTE_NO_GPU_BACKEND)


def _listing(state: State, event: Event) -> None:
    LISTING[event.kind](state.seen, event)


_HANDLERS: dict[str, Callable[[State, Event], object]] = {
    "build": _build,
    "verbosity": _verbosity,
    "system_info": _system_info,
    "features": _system_info,
    "backend_loaded": _backend_loaded,
    "gguf": _gguf,
    "load_tensors": _load_tensors,
    "offload_repeating": _repeating,
    "offload_output": _output,
    "offloaded": _offloaded,
    "overflow": _overflow,
    "buffer": _buffer,
    "setting": _setting,
    "flash_attention": _flash_attention,
    "model_loaded": _model_loaded,
    "listening": _listening,
    "cleanup": _cleanup,
    "second_interrupt": _second_interrupt,
    "request_start": _request_start,
    "timing_prompt": _timing_prompt,
    "timing_decode": _timing_decode,
    "gpu_error_where": _gpu_error_where,
    "reserve_retry": _reserve_retry,
    "no_gpu": _no_gpu,
    "file_type": lambda state, event: state.load.has_type(event),
    "draft": lambda state, event: state.load.draft_follows(),
    **dict.fromkeys(LISTING, _listing),
    "device_used": _device_used,
    "main_device": lambda state, event: state.seen.main(event),
    "backend_used": lambda state, event: state.seen.backend_used(event),
}
