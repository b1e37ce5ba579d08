"""Everything that defines a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from stillruns.model.backend import Backend, Runtime

Layers = int | str
"""A number of offloaded layers, or `"all"`; `"none"` is a cpu cell: no device at all; `"server"` is whatever an
attached server was started with, since a request cannot ask for layers."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One cell's condition: what is asked of the runtime. Matched trials of one cell share it.

    `backend_id` is the spec's name of the side; `device` is ggml's device name (`Vulkan0`; `none` for the cpu
    reference; empty when the first device of the backend is to be used). `binary` and `url` are exclusive.
    `axes` holds the values of further matrix axes by name. `env` and `args` are added to what the adapter pins.
    `prefix` is an argument list to put before the binary (a container, a wrapper). `log` is the log file of an
    attached server.
    """

    backend_id: str
    backend: Backend
    runtime: Runtime
    gpu_layers: Layers
    model: str
    prompt: str
    seed: int
    predict: int
    context: int
    batch: int
    ubatch: int
    threads: int
    flash_attention: str
    device: str = ""
    binary: str = ""
    url: str = ""
    expect_library: str = ""
    env: dict[str, str] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    axes: dict[str, str | int | float | bool] = field(default_factory=dict)
    is_reference: bool = False
    log: str = ""
    epochs: int = 1
    """How often one server is asked, again and again."""
    duration: float = 0.0
    """Seconds for which one server is asked, again and again; 0 leaves it to `epochs`."""
    concurrency: int = 1
    """Requests at a time, on as many slots; `context` is that of one slot."""
    prompt_tokens: int = 0
    """Tokens of the prompt, whose text is repeated and cut to that; 0 takes it as it is."""
    forced: tuple[int, ...] = ()
    """Teacher forcing: the reference's tokens; one request a position asks what comes after each prefix of them."""
    forced_texts: tuple[str, ...] = ()
    """The same after each prefix of these texts, up to `forced_positions` of each."""
    forced_positions: int = 0
