"""What a server's log says about one server process."""

from __future__ import annotations

import msgspec

from stillruns.model.absence import Absence
from stillruns.model.backend import Backend, Runtime
from stillruns.model.component import Component
from stillruns.model.evidence import Ref
from stillruns.model.outcome import OutcomeKind
from stillruns.model.phase import Phase


class Event(msgspec.Struct, frozen=True):
    """One recognised log line: `kind` is the grammar rule's event name, `fields` its named groups as text.

    `seconds` is the line's own time stamp relative to the server's start where it has one.
    """

    kind: str
    fields: dict[str, str]
    ref: Ref
    text: str
    rule: str
    seconds: float | None = None


class SeenDevice(msgspec.Struct, frozen=True):
    """A device that the log lists. `used` is the line `using device X`, if any; memory in MiB, as first printed."""

    name: str
    backend: Backend
    description: str
    ref: Ref
    used: Ref | None = None
    target: str | None = None
    memory_mib: float | None = None
    free_mib: float | None = None
    driver: str = ""


class Offload(msgspec.Struct, frozen=True):
    """`offloaded/total` as printed, `repeating` and `output` from the lines before it (None when not printed).

    `overflowing` counts layers that are only partly on the device.
    """

    offloaded: int
    total: int
    repeating: int | None
    output: bool | None
    overflowing: int
    ref: Ref


CACHE = ("kv", "rs")
"""Purposes of buffers that lie where their layers are: keys and values, and the state of recurrent layers."""


class Buffer(msgspec.Struct, frozen=True):
    """A buffer line: `device` as printed (`Vulkan0`, `CPU_Mapped`), `purpose` model, kv, compute, output or rs."""

    device: str
    purpose: str
    mib: float
    ref: Ref


class PhaseSpan(msgspec.Struct, frozen=True):
    """`first` and `last` line of a phase."""

    phase: Phase
    first: Ref
    last: Ref


class Trouble(msgspec.Struct, frozen=True):
    """A line that a crash pattern explains: `pattern` is the catalogue id, `rank` higher is more telling, `at` the
    time that the journal or the container put before it, or that the server printed last."""

    pattern: str
    outcome: OutcomeKind
    components: tuple[Component, ...]
    rank: int
    ref: Ref
    text: str
    phase: Phase
    device: str | None = None
    at: str = ""


class Timing(msgspec.Struct, frozen=True):
    """Tokens and milliseconds of prompt and generation, as the server itself measured them."""

    prompt_tokens: int | None
    prompt_ms: float | None
    predicted_tokens: int | None
    predicted_ms: float | None
    ref: Ref


class ServerFacts(msgspec.Struct, frozen=True):
    """One server's log, read. `hidden` names what its verbosity does not show (`offload`, `buffers`, `devices`).

    `settings` are numbers the server printed about itself (`n_ctx`, `n_batch`, `n_ubatch`, `flash_attn`,
    `n_threads`), each with its ref. `last_phase` is the phase of the last line that tells one.
    """

    runtime: Runtime
    version: str | None
    verbosity: int | None
    devices: tuple[SeenDevice, ...]
    backends_loaded: tuple[tuple[Backend, str, Ref], ...]
    offload: Offload | Absence
    buffers: tuple[Buffer, ...]
    settings: dict[str, tuple[str, Ref]]
    phases: tuple[PhaseSpan, ...]
    last_phase: Phase
    troubles: tuple[Trouble, ...]
    timings: tuple[Timing, ...]
    system_info: dict[str, str]
    model_loaded: Ref | None
    clean_end: Ref | None
    hidden: tuple[str, ...] = ()
    lines: int = 0
    notes: tuple[str, ...] = ()
    file_type: str = ""
    """The type of the weights of the model that was loaded last (`Q4_0`, `F16`); empty where no line tells it."""
    builds: int = 0
    """Lines that name a build: a program prints one as it starts, so more than one tell of several programs."""
