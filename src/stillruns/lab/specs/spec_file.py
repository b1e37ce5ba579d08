"""Reads a spec: TOML text to a checked `Spec`, every complaint one sentence that names the place.

The file's fields are those of DESIGN, section 4 (`run` spec), and docs/spec.md.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from stillruns.errors import SpecError
from stillruns.lab.specs import hypothesis_file, toml_file
from stillruns.lab.specs.home import expanded
from stillruns.lab.specs.hypothesis_file import HypothesisTable
from stillruns.lab.specs.server_load import check_load
from stillruns.lab.specs.stop_table import FUTILITY as FUTILITY
from stillruns.lab.specs.stop_table import StopTable, stop_rule
from stillruns.lab.specs.taken import refuse_taken
from stillruns.model.backend import Backend, Runtime
from stillruns.model.condition import Layers
from stillruns.model.spec import DEFAULT_PROMPT, AxisValue, BackendSpec, Settings, Spec, Timeouts
from stillruns.store.ids import spec_digest

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    """Tables refuse unknown keys: a misspelt field must not be a silent default."""


class _Experiment(Settings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: str
    model: str
    question: str = ""
    prompt: str | None = None
    prompt_file: str | None = None
    check_texts: tuple[str, ...] = ()
    twin: str = ""


class _Backend(_Table):
    id: str
    backend: str | None = None
    runtime: str = "llama.cpp"
    binary: str = ""
    device: str = ""
    url: str = ""
    log: str = ""
    expect_library: str = ""
    env: dict[str, str] = {}
    args: list[str] = []
    prefix: list[str] = []


class _Timeouts(_Table):
    load: float = 300.0
    first_token: float = 120.0
    token: float = 60.0
    teardown: float = 20.0


class _Document(_Table):
    experiment: _Experiment
    backend: list[_Backend]
    matrix: dict[str, Any] = {}
    stop: StopTable = msgspec.field(default_factory=StopTable)
    timeouts: _Timeouts = msgspec.field(default_factory=_Timeouts)
    hypothesis: list[HypothesisTable] = []


def load(path: Path) -> Spec:
    """Read and check a spec file.

    Raises SpecError when the file cannot be read, is no TOML, or a field is unknown, missing or makes no sense.
    """
    return parse(toml_file.text(path, "the spec"), path)


def parse(text: str, path: Path) -> Spec:
    """Check a spec's text; relative paths in it (binary, prompt_file, model, log) are relative to `path`'s folder."""
    raw = toml_file.tables(text, path)
    try:
        document = msgspec.convert(raw, _Document)
    except msgspec.ValidationError as error:
        raise SpecError(f"{path}: {_readable(str(error))}") from error
    spec = Spec(
        name=document.experiment.name,
        question=document.experiment.question,
        model=_model(document.experiment.model, path),
        prompt=_prompt(document.experiment, path),
        backends=tuple(_backend(b, path) for b in document.backend),
        gpu_layers=_layers(document.matrix.pop("gpu_layers", None), path),
        axes=_axes(document.matrix, path),
        stop=stop_rule(document.stop, path),
        timeouts=Timeouts(**msgspec.structs.asdict(document.timeouts)),
        hypotheses=hypothesis_file.check(document.hypothesis, str(path)),
        check_texts=document.experiment.check_texts,
        twin=_model(document.experiment.twin, path) if document.experiment.twin else "",
        path=str(path),
        **{name: getattr(document.experiment, name) for name in Settings.__struct_fields__},
    )
    _check(spec, path)
    return freeze(spec)


def freeze(spec: Spec) -> Spec:
    """The spec with the digest of its canonical form, which leaves out the path that it was read from."""
    return msgspec.structs.replace(spec, sha256=spec_digest(msgspec.to_builtins(spec)))


def _readable(message: str) -> str:
    """msgspec's words, without its sigils: ``Expected `int` - at `$.stop.trials` `` -> `... at stop.trials`."""
    return message.replace("`$.", "`").replace("`$[", "`[").replace("`", "")


def _model(model: str, path: Path) -> str:
    if not model:
        raise SpecError(
            f"{path}: experiment.model is empty; give a GGUF file, a model's name, or synth:llama?layers=4"
        )
    if model.startswith("synth:"):
        return model
    near = path.parent / model
    return str(near.resolve()) if near.is_file() else model


def _prompt(experiment: _Experiment, path: Path) -> str:
    if experiment.prompt is not None and experiment.prompt_file is not None:
        raise SpecError(f"{path}: experiment has both prompt and prompt_file; keep one of them")
    if experiment.prompt_file is None:
        prompt = DEFAULT_PROMPT if experiment.prompt is None else experiment.prompt
    else:
        place = path.parent / experiment.prompt_file
        try:
            prompt = place.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(f"{path}: cannot read experiment.prompt_file {place}: {error}") from error
    if not prompt:
        raise SpecError(f"{path}: the prompt is empty; a trial needs at least one token to evaluate")
    return prompt


def _backend(table: _Backend, path: Path) -> BackendSpec:
    place = f"{path}: backend {table.id!r}"
    if not _ID.match(table.id):
        raise SpecError(f"{place}: an id is letters, digits, '.', '_' and '-'")
    kind = table.backend if table.backend is not None else table.id
    try:
        backend = Backend(kind)
    except ValueError:
        known = ", ".join(b.value for b in Backend if b is not Backend.UNKNOWN)
        raise SpecError(f"{place}: which backend is that? add backend = one of {known}") from None
    try:
        runtime = Runtime(table.runtime)
    except ValueError:
        raise SpecError(f"{place}: runtime = {table.runtime!r} is not known; use llama.cpp or openai") from None
    if runtime in (Runtime.OLLAMA, Runtime.VLLM):
        raise SpecError(
            f"{place}: this version starts llama.cpp servers and attaches to running servers with "
            f'runtime = "openai"; it has no adapter for {runtime.value} yet'
        )
    if runtime is Runtime.OPENAI and not table.url:
        raise SpecError(f"{place}: runtime = 'openai' needs url = 'http://127.0.0.1:PORT'")
    if runtime is Runtime.LLAMA_CPP and table.url:
        raise SpecError(
            f"{place}: a llama.cpp backend is started by stillruns; for a running one use runtime = 'openai'"
        )
    if any(not _ENV_NAME.match(name) or "\0" in value for name, value in table.env.items()):
        raise SpecError(f"{place}: env has a name or value that no process can be given")
    if runtime is Runtime.LLAMA_CPP:
        for word in (*table.args, *table.env):
            refuse_taken(word, place)
    binary = table.binary
    if binary and "/" in binary:
        binary = str((path.parent / expanded(binary)).resolve())
    return BackendSpec(
        id=table.id,
        backend=backend,
        runtime=runtime,
        binary=binary,
        device=table.device,
        url=table.url,
        log=str((path.parent / table.log).resolve()) if table.log else "",
        expect_library=table.expect_library,
        env=dict(table.env),
        args=tuple(table.args),
        prefix=tuple(table.prefix),
    )


def _layers(value: object, path: Path) -> tuple[Layers, ...]:
    if value is None:
        return ("all",)
    values = value if isinstance(value, list) else [value]
    for item in values:
        if item == "all" or (isinstance(item, int) and not isinstance(item, bool) and item >= 0):
            continue
        raise SpecError(f"{path}: matrix.gpu_layers has {item!r}; give numbers from 0 on, or 'all'")
    if not values or len({str(v) for v in values}) != len(values):
        raise SpecError(f"{path}: matrix.gpu_layers is empty or has the same value twice")
    return tuple(values)


def _flatten(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """`[matrix] env.NAME = [...]` is a nested table in TOML; its axis is called `env.NAME`."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat.update(_flatten(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat


AXES = tuple(
    """
    context batch ubatch threads flash_attention predict seed device model epochs duration concurrency prompt_tokens
    """.split()
)
"""Axes besides gpu_layers and env.NAME that vary a field of the condition; `arg.--FLAG` adds a flag with a value."""


def _axes(table: dict[str, Any], path: Path) -> dict[str, tuple[AxisValue, ...]]:
    axes: dict[str, tuple[AxisValue, ...]] = {}
    for name, values in _flatten(table).items():
        if not (name in AXES or name.startswith(("env.", "arg."))):
            known = ", ".join(("gpu_layers", *AXES, "env.NAME", '"arg.--flag"'))
            raise SpecError(f"{path}: matrix.{name} is not an axis; known are {known}")
        if not isinstance(values, list) or not values:
            raise SpecError(f"{path}: matrix.{name} must be a list of at least one value")
        if not all(isinstance(v, (str, int, float, bool)) for v in values):
            raise SpecError(f"{path}: matrix.{name} may hold texts, numbers and true/false only")
        if name.startswith(("env.", "arg.")):
            refuse_taken(name[4:], f"{path}: matrix")
        axes[name] = tuple(_model(str(v), path) for v in values) if name == "model" else tuple(values)
    return axes


def _check(spec: Spec, path: Path) -> None:
    """What holds between fields."""
    if not spec.backends:
        raise SpecError(f"{path}: no [[backend]]; give at least one, for example id = 'vulkan'")
    ids = [b.id for b in spec.backends]
    for identity in ids:
        if ids.count(identity) > 1:
            raise SpecError(f"{path}: backend id {identity!r} is given twice")
    if spec.reference not in ("cpu", "none"):
        raise SpecError(f"{path}: experiment.reference is {spec.reference!r}; give 'cpu' or 'none'")
    if spec.cover not in ("auto", "whole", "pairwise"):
        raise SpecError(f"{path}: experiment.cover is {spec.cover!r}; give 'auto', 'whole' or 'pairwise'")
    if spec.flash_attention not in ("on", "off", "auto"):
        raise SpecError(f"{path}: experiment.flash_attention is {spec.flash_attention!r}; give 'on', 'off' or 'auto'")
    least = {"predict": 1, "context": 8, "batch": 1, "ubatch": 1, "threads": 1, "check_positions": 1}
    for name, low in least.items():
        if getattr(spec, name) < low:
            raise SpecError(f"{path}: experiment.{name} must be at least {low}")
    check_load(spec, path)
    if spec.predict >= spec.context:
        raise SpecError(f"{path}: experiment.predict ({spec.predict}) leaves no room in context ({spec.context})")
    if spec.stop.trials < 1 or spec.stop.max_voids < 1 or spec.stop.max_minutes < 0:
        raise SpecError(f"{path}: [stop] needs trials >= 1, max_voids >= 1 and max_minutes >= 0")
    for name in ("load", "first_token", "token", "teardown"):
        if not 0 < getattr(spec.timeouts, name) <= 7 * 86400:
            raise SpecError(f"{path}: timeouts.{name} must be between 0 and 604800 seconds")
