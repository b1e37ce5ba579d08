"""Asks a runtime's binary who it is and what it can do, before anything depends on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stillruns.act.runtimes import adapters, digests, openai
from stillruns.act.runtimes.adapter import FoundRuntime
from stillruns.collect import host_cpu as cpu_files
from stillruns.errors import EnvironmentLacks
from stillruns.judge.gates import host_cpu as cpu_judge
from stillruns.model.absence import Absence
from stillruns.model.backend import Backend, Runtime, backend_of_device
from stillruns.model.condition import Condition
from stillruns.model.engine import Engine
from stillruns.model.evidence import Evidence
from stillruns.model.spec import BackendSpec
from stillruns.normalise import engine as engine_text
from stillruns.normalise import host_cpu as cpu_facts
from stillruns.proc import Finished
from stillruns.store.store import Store


@dataclass(frozen=True, slots=True)
class Questioned:
    """`backend` is the spec's with its device filled in (empty when the binary lists none of that backend)."""

    backend: BackendSpec
    engine: Engine
    evidence: tuple[Evidence, ...]
    notes: tuple[str, ...]


def question(backend: BackendSpec, store: Store, environ: Mapping[str, str]) -> Questioned:
    """Find the binary, run its own `--help`, `--list-devices` and `--version`, and read what it says.

    Raises EnvironmentLacks when no binary is found or it does not start.
    """
    adapter = adapters.of(backend.runtime)
    found = adapter.find(backend.url or backend.binary, environ)
    output = adapter.probe(found, backend.prefix, environ=environ, env=backend.env, args=backend.args)
    outputs = (output.help, output.devices, output.version, output.system)
    _must_start(found, outputs)
    evidence = []
    for number, finished in enumerate(outputs):
        blob = store.put_bytes(finished.stdout + b"\n" + finished.stderr)
        evidence.append(Evidence(f"s{number}", "probe", blob.sha256, blob.bytes, " ".join(finished.argv)))
    if backend.runtime is Runtime.OPENAI:
        return Questioned(backend, openai.ADAPTER.engine(found, output), tuple(evidence), ())
    engine = _engine(found, outputs, store)
    notes = [] if backend.prefix else cpu_notes(backend.id, engine)
    device = backend.device or first_device(backend.backend, engine)
    if not device:
        notes.append(no_device(backend, engine))
    return Questioned(dataclasses.replace(backend, device=device), engine, tuple(evidence), tuple(notes))


def _must_start(found: FoundRuntime, outputs: Sequence[Finished]) -> None:
    """A program that the dynamic loader refuses whatever it is asked can run no trial: no result of a condition."""
    why = [engine_text.refusal(finished.stderr) if finished.status == 127 else "" for finished in outputs]
    if why and all(why):
        raise EnvironmentLacks(f"{found.binary} does not start: {why[0]}")


def _engine(found: FoundRuntime, outputs: Sequence[Finished], store: Store) -> Engine:
    text = engine_text.read(*(finished.stdout + b"\n" + finished.stderr for finished in outputs))
    try:
        sha256, libraries = digests.identity(Path(found.binary), dict(found.env), store.cache_dir("digests"))
    except OSError as error:
        raise EnvironmentLacks(f"cannot read {found.binary} to take its digest: {error.strerror}") from error
    return Engine(
        binary=found.binary,
        sha256=sha256,
        libraries=libraries,
        version="" if isinstance(text.version, Absence) else text.version,
        flags=text.flags,
        values=text.values,
        devices=text.devices,
        system_info=text.system_info,
        found_by=found.found_by,
        env=dict(found.env),
    )


def choose(condition: Condition, backends: Sequence[BackendSpec], found: Mapping[str, Engine]) -> Engine | None:
    """The engine that runs a condition: that of its backend; a reference borrows the binary of one."""
    if condition.backend_id in found:
        return found[condition.backend_id]
    for backend in backends:
        if backend.id in found and (backend.binary, backend.prefix) == (condition.binary, condition.prefix):
            return found[backend.id]
    return None


def first_device(backend: Backend, engine: Engine) -> str:
    """ggml's name of the first device of a backend that the binary lists; `none` for the cpu, empty for no device."""
    if backend is Backend.CPU:
        return "none"
    if isinstance(engine.devices, Absence):
        return ""
    return next((d.name for d in engine.devices if backend_of_device(d.name) is backend), "")


_SOFTWARE = "; a software driver (llvmpipe) is listed only with env = { GGML_VK_VISIBLE_DEVICES = '0' }"


def no_device(backend: BackendSpec, engine: Engine) -> str:
    """One sentence: the binary lists no device of that backend; its trials will show what it does then."""
    hint = ""
    if isinstance(engine.devices, Absence):
        what = f"cannot list its devices ({engine.devices.detail or engine.devices.reason.value})"
    else:
        what = f"lists no {backend.backend.value} device"
        seen = backend.backend is not Backend.VULKAN or "GGML_VK_VISIBLE_DEVICES" in backend.env
        hint = "" if seen else _SOFTWARE
    return f"{backend.id}: {engine.binary} {what}{hint}; trials run without --device and are void if they use the CPU"


def cpu_notes(backend_id: str, engine: Engine) -> list[str]:
    """What the binary was built for and this CPU lacks, as one sentence, or nothing."""
    cpu = cpu_facts.parse(cpu_files.read())
    if isinstance(cpu, Absence):
        return []
    sentence = cpu_judge.compare(engine.system_info, cpu.flags)
    if not sentence:
        return []
    return [f"{backend_id}: {sentence} ({engine.binary})"]
