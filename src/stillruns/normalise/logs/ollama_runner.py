"""One runner of an Ollama server: a child that loaded a model, as its lines and its parent's lines tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from stillruns.model.backend import Backend, backend_of_device
from stillruns.model.evidence import Ref, line_of
from stillruns.model.expression import Expression
from stillruns.model.server_facts import CACHE
from stillruns.model.server_log import Layers, LogDevice, Runner
from stillruns.normalise.logs.llama_cpp_state import State

_FLAGS = {
    "--model": "model",
    "-m": "model",
    "--port": "port",
    "--n-gpu-layers": "layers",
    "--gpu-layers": "layers",
    "-ngl": "layers",
    "--ctx-size": "context",
    "-c": "context",
    "--batch-size": "batch",
    "-b": "batch",
    "--ubatch-size": "ubatch",
    "-ub": "ubatch",
    "--threads": "threads",
    "-t": "threads",
    "--parallel": "parallel",
    "-np": "parallel",
    "--flash-attn": "flash_attention",
}
_BUILT_FOR = Expression(
    r"[/\\](?P<kind>cpu|cuda|rocm|metal)(?:[_v][\w.]{0,20})?[/\\]{1,2}(?:ollama_llama_server|(?:lib)?ext_server)"
)
"""Ollama to 0.5 had one runner for each backend, in a folder of that name."""
_SWITCHES = ("--flash-attn", "--ollama-engine", "--no-mmap", "--mlock", "--verbose")
_PRINTED = {
    "context": "n_ctx",
    "batch": "n_batch",
    "ubatch": "n_ubatch",
    "threads": "n_threads",
    "flash_attention": "flash_attn",
}
"""What llama.cpp calls them when it prints them."""
SHOWN = ("context", "batch", "ubatch", "flash_attention", "threads", "parallel", "device_free", "device_bus")
"""Settings that a runner shows, by the names of model.server_log.Runner; `device_free` is the memory that the server
saw free on the device before the load, `device_bus` the only device on the bus that it asked."""


def built_for(path: str) -> Backend:
    """The backend in the path of a runner (to 0.5) or of a library (to 0.1.31): `runners/cpu_avx2/...`. UNKNOWN for
    every other path."""
    found = _BUILT_FOR.search(path)
    return Backend(found["kind"]) if found else Backend.UNKNOWN


def arguments(command: str) -> dict[str, str]:
    """A runner's command line: known flags by our names for them, and `engine`."""
    words = command.split(" ")
    found: dict[str, str] = {}
    for place, word in enumerate(words):
        name, equals, given = word.partition("=")
        if name in _FLAGS:
            follows = words[place + 1] if place + 1 < len(words) else ""
            value = given if equals else follows
            if name in _SWITCHES and not equals and value not in ("on", "off", "auto"):
                value = "on"
            found.setdefault(_FLAGS[name], value)
    if "--ollama-engine" in words or "--ollama-engine" in command:
        found["engine"] = "ollama engine"
    elif words and words[0].rsplit("/", 1)[-1].startswith("llama-server"):
        found["engine"] = "llama.cpp"
    else:
        found["engine"] = "llama runner"
    return found


def is_device(name: str) -> bool:
    """Whether a buffer of this name lies on a device of its own: `Vulkan0`, but not `CPU` nor `ROCm_Host`."""
    return backend_of_device(name) not in (Backend.CPU, Backend.UNKNOWN) and "Host" not in name


class Plan(NamedTuple):
    """What the server means to do with a model (0.1.38 to 0.12.10): `requested` is num_gpu, `layers` of `total` go to
    `library` (`cuda`, `rocm`, `cpu` ...; empty where the line says only that it is a GPU)."""

    requested: int
    total: int | None
    ref: Ref
    library: str = ""
    layers: int = 0


@dataclass(eq=False)
class Load:
    """What is known of one runner so far. `at` is its start in seconds of the host's clock (None: not told)."""

    id: str
    engine: str
    started: Ref
    line: int
    at: float | None
    llama: State
    clock: str = ""
    model: str | None = None
    port: str = ""
    requested: Layers = None
    requested_ref: Ref | None = None
    total: int | None = None
    gpu_layers: tuple[int, Ref] | None = None
    offloaded: tuple[int, int, Ref] | None = None
    weights: list[tuple[str, Ref]] = field(default_factory=list)
    libraries: list[tuple[Backend, Ref]] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    architecture: str | None = None
    ready: Ref | None = None
    died: Ref | None = None
    died_line: int = 0
    covered: int = 0
    alone: bool = False
    headless: bool = False
    """Its start lies before the log."""
    built: Backend = Backend.UNKNOWN
    """What its path says that it was built for."""
    waited: float | None = None
    plan: Plan | None = None
    plan_comes: bool = False
    """The server tells its plan after it started the runner (0.11.5 to 0.12.10), not before."""

    def follow(self, plan: Plan) -> None:
        """The server's plan for it; told again when another model had to go first."""
        self.plan = plan
        self.total = plan.total if plan.total is not None else self.total
        self.ask(plan.requested, plan.ref)

    def ask(self, layers: int, ref: Ref) -> None:
        """`num_gpu` as the server prints it: negative means that the server decides."""
        self.requested = layers if layers >= 0 else "auto"
        self.requested_ref = ref

    def setting(self, name: str) -> str:
        """A setting as it was used: flash attention as llama.cpp resolved it, else as the command line or the engine
        has it, else as llama.cpp prints it; empty where nothing tells."""
        printed = {key: value for key, (value, _) in self.llama.load.settings.items()}
        resolved = printed.get("flash_attn_used", "") if name == "flash_attention" else ""
        return resolved or self.settings.get(name, "") or printed.get(_PRINTED.get(name, ""), "")

    def number(self, name: str) -> int | None:
        """A setting as a number."""
        text = self.setting(name)
        return int(text[:9]) if text.isdecimal() else None

    def context(self) -> int | None:
        """Tokens of context of one sequence: the cache's size is for all that run in parallel."""
        size, parallel = self.number("context"), self.number("parallel") or 1
        return size // parallel if size is not None else None

    def applied(self) -> tuple[int | None, int | None, Ref | None]:
        """(offloaded, total, where it is said)."""
        if self.offloaded:
            return self.offloaded
        if self.llama.load.offloaded:
            return self.llama.load.offloaded
        if self.gpu_layers and self.gpu_layers[0] == 0:
            return 0, self.total, self.gpu_layers[1]
        left = self.left_on_cpu()
        return (0 if left else None), self.total, left

    def left_on_cpu(self) -> Ref | None:
        """The line that shows that it computes on the CPU although the server planned layers for a GPU; None where
        nothing shows it. A runner without a GPU library prints no count of offloaded layers, so what it was built for
        tells, or else its weights, all in the host's memory, where it loaded no GPU library."""
        plan = self.plan
        if plan is None or not plan.requested or not plan.layers or plan.library == "cpu":
            return None
        if self.offloaded or self.llama.load.offloaded or self.built not in (Backend.CPU, Backend.UNKNOWN):
            return None
        if self.built is Backend.CPU:
            return self.started
        buffers = ((b.device, b.ref) for b in self.llama.load.buffers if b.purpose == "model")
        placed = [*self.weights, *buffers]
        gpus = [backend for backend, _ in self.libraries if backend is not Backend.CPU]
        host = all(backend_of_device(name) is Backend.CPU for name, _ in placed)
        return placed[0][1] if placed and host and not gpus else None

    def layout(self) -> Ref | None:
        """The line of its layout, where no line counts the offloaded layers."""
        counted = self.offloaded or self.llama.load.offloaded or self.left_on_cpu()
        return None if counted else self.applied()[2]

    def backends(self) -> tuple[Backend, ...]:
        """Where its weights went: by its buffer lines, else by the only GPU library that it loaded; before any line
        tells, what the runner was built for."""
        applied = self.applied()[0]
        if applied == 0 or self.built is Backend.CPU:
            return (Backend.CPU,)
        placed = [name for name, _ in self.weights]
        placed += [buffer.device for buffer in self.llama.load.buffers if buffer.purpose == "model"]
        on_devices = dict.fromkeys(backend_of_device(name) for name in placed if is_device(name))
        if on_devices:
            return tuple(on_devices)
        if placed:
            return (Backend.CPU,)
        cached = [b.device for b in self.llama.load.buffers if b.purpose in CACHE]
        held = dict.fromkeys(backend_of_device(name) for name in cached if is_device(name))
        if held and applied is None:
            return tuple(held)  # a layer's cache is where the layer is
        loaded = {backend for backend, _ in self.libraries if backend not in (Backend.CPU, Backend.UNKNOWN)}
        if self.plan is not None and self.plan.library == "cpu" and not loaded and applied is None:
            return (Backend.CPU,)  # the server found nothing else to load it on
        if applied is None and self.built is not Backend.UNKNOWN:
            return (self.built,)
        return tuple(loaded) if applied and len(loaded) == 1 else ()

    def device(self) -> str | None:
        """The one device that holds weights; None when there are several, or none is named."""
        names = {name for name, _ in self.weights if is_device(name)}
        names |= {b.device for b in self.llama.load.buffers if b.purpose == "model" and is_device(b.device)}
        return next(iter(names)) if len(names) == 1 and self.applied()[0] != 0 else None

    def kind(self) -> str | None:
        """The model's architecture, as the engine or llama.cpp's loader names it."""
        return self.architecture or self.llama.load.architecture

    def refs(self) -> tuple[Ref, ...]:
        """The lines that a statement about it rests on, in their order."""
        found = [self.started, self.requested_ref, self.applied()[2], self.ready, self.died]
        found += [ref for name, ref in self.weights if is_device(name)][:1]
        return tuple(sorted({ref for ref in found if ref}, key=line_of))

    def noun(self, devices: tuple[LogDevice, ...]) -> Runner:
        """As the report wants it."""
        offloaded, total, _ = self.applied()
        backends, device = self.backends(), self.device()
        target = next((d.target for d in devices if d.name == device and d.target), None)
        if target is None and len(backends) == 1:
            targets = {d.target for d in devices if d.backend is backends[0] and d.target}
            target = next(iter(targets)) if len(targets) == 1 else None
        shown = [(name, value) for name in SHOWN if (value := self.setting(name))]
        resolved = "flash_attn_used" in self.llama.load.settings
        return Runner(
            id=self.id,
            engine=self.engine,
            started=self.started,
            model=self.model,
            requested_layers=self.requested,
            applied_layers=offloaded,
            total_layers=total,
            overflowing=sum(self.llama.load.overflow.values()),
            backend=backends[0] if len(backends) == 1 else Backend.UNKNOWN,
            backends=backends,
            device=device,
            target=target,
            settings=tuple(shown),
            ready=self.ready,
            refs=self.refs(),
            at=self.clock,
            libraries=tuple(self.libraries),
            layout=self.layout(),
            waited=self.waited,
            asked_flash_attention=self.settings.get("flash_attention", "") if resolved else "",
        )
