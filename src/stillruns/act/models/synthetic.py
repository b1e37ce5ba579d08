"""`synth:ARCH?layers=4&type=Q8_0&seed=0`: a tiny random-weight model file that a real llama-server loads and runs.

The same spec gives the same bytes on every machine; F16 and Q8_0 of one spec hold the very same weights
(act/models/weights.py). Changing what a spec produces needs a new GENERATION and new digests in the tests.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stillruns.act.models import architectures, gguf_writer, weights
from stillruns.act.models.architectures import Dimensions, Matrix, Vector
from stillruns.act.runtimes.digests import digest_file
from stillruns.errors import EnvironmentLacks, SpecError

SCHEME = "synth:"
GENERATION = 1
ARCHITECTURES = ("llama", "qwen3", "qwen35")
TYPES = ("F16", "Q8_0", "Q4_0")

BOUNDS: dict[str, tuple[int, int, int]] = {
    "seed": (0, 2**63 - 1, 1),
    "layers": (1, 256, 1),
    "embd": (32, 16_384, 32),
    "ff": (32, 65_536, 32),
    "heads": (1, 256, 1),
    "kv": (1, 256, 1),
    "head_dim": (32, 256, 32),
    "ctx": (16, 1 << 20, 1),
    "state": (32, 256, 32),
}
"""Key -> (least, most, multiple of). Rows must divide into blocks of 32, hence the multiples."""

STALE_SECONDS = 3600.0
"""A half-written file that is older than this was left by a killed writer."""


@dataclass(frozen=True, slots=True)
class SyntheticModel:
    """A checked spec. Units: `embd`, `ff`, `head_dim`, `state` in elements, `ctx` in tokens; `type` one of TYPES."""

    arch: str
    type: str = "Q8_0"
    seed: int = 0
    layers: int = 4
    embd: int = 64
    ff: int = 128
    heads: int = 2
    kv: int = 1
    head_dim: int = 32
    ctx: int = 512
    state: int = 32

    @property
    def name(self) -> str:
        """The canonical spec: layers, type and seed always, other keys where they differ from the default."""
        shown = ["layers", "type", "seed"]
        shown += [f.name for f in dataclasses.fields(self) if f.name in BOUNDS and getattr(self, f.name) != f.default]
        keys = "&".join(f"{key}={getattr(self, key)}" for key in dict.fromkeys(shown))
        return f"{SCHEME}{self.arch}?{keys}"

    @property
    def file_name(self) -> str:
        """A plain file name, unique for the spec and for what this version makes of it."""
        plain = self.name.removeprefix(SCHEME).replace("?", "-").replace("&", "-").replace("=", "")
        return f"{plain}-g{GENERATION}.gguf"

    @property
    def dimensions(self) -> Dimensions:
        """The sizes, for the architecture table."""
        return Dimensions(*(getattr(self, f.name) for f in dataclasses.fields(Dimensions)))

    def plan(self) -> tuple[Matrix | Vector, ...]:
        """Every tensor in file order."""
        return tuple(architectures.tensors(self.arch, self.type, self.dimensions))

    def weight_bytes(self) -> int:
        """Bytes of weights in the file; the header adds some 10 KB."""
        return sum(tensor.entry.bytes for tensor in self.plan())


def parse(text: str) -> SyntheticModel:
    """Read `synth:ARCH?key=value&...`; SpecError says what is accepted."""
    if not text.startswith(SCHEME):
        raise SpecError(f"model {text!r} does not begin with {SCHEME!r}")
    arch, _, query = text.removeprefix(SCHEME).partition("?")
    if arch not in ARCHITECTURES:
        raise SpecError(f"model {text!r}: unknown architecture {arch!r}; accepted are {', '.join(ARCHITECTURES)}")
    seen: dict[str, str] = {}
    for part in query.split("&") if query else ():
        key, _, value = part.partition("=")
        if key != "type" and key not in BOUNDS:
            raise SpecError(f"model {text!r}: unknown key {key!r}; accepted are type, {', '.join(BOUNDS)}")
        if key in seen:
            raise SpecError(f"model {text!r}: {key} is given twice; give it once")
        seen[key] = value
    kind = seen.pop("type", "Q8_0")
    if kind not in TYPES:
        raise SpecError(f"model {text!r}: unknown type {kind!r}; accepted are {', '.join(TYPES)}")
    return _consistent(text, SyntheticModel(arch, kind, **{key: _number(text, key, seen[key]) for key in seen}))


def write(model: SyntheticModel, path: Path) -> str:
    """Write the model to `path` and return its `sha256:<hex>`. The file appears whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns():x}.partial")
    try:
        with temporary.open("xb") as stream:
            digest = gguf_writer.write(
                stream,
                architectures.metadata(model.arch, model.name, model.type, model.dimensions),
                ((tensor.entry, _data(model, tensor)) for tensor in model.plan()),
                [tensor.entry for tensor in model.plan()],
            )
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        need = f"{model.weight_bytes() / 1e6:.0f} MB"
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise EnvironmentLacks(
                f"no room for the synthetic model in {path.parent}: it needs {need}; free some or use another folder"
            ) from error
        raise EnvironmentLacks(f"the synthetic model cannot be written to {path}: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)  # also on Ctrl-C; after the rename there is nothing to remove
    return digest


def ensure(model: SyntheticModel, folder: Path) -> Path:
    """The model's file in `folder`, written unless it is there and still has the digest it was written with."""
    path = folder / model.file_name
    note = path.with_name(f"{path.name}.sha256")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(".*.partial"):
            if time.time() - left.stat().st_mtime > STALE_SECONDS:
                left.unlink(missing_ok=True)
        if path.exists() and note.exists() and note.read_text().strip() == digest_file(path):
            return path
        digest = write(model, path)
        temporary = note.with_name(f".{note.name}.{os.getpid()}.{time.monotonic_ns():x}.partial")
        temporary.write_text(digest + "\n")
        temporary.replace(note)
    except OSError as error:
        raise EnvironmentLacks(
            f"the folder for synthetic models {folder} cannot be used: {error.strerror}"
        ) from error
    return path


def _number(text: str, key: str, value: str) -> int:
    least, most, step = BOUNDS[key]
    number = int(value) if value.isascii() and value.isdigit() and len(value) < 20 else -1
    if not least <= number <= most or number % step:
        multiple = f" that is a multiple of {step}" if step > 1 else ""
        raise SpecError(f"model {text!r}: {key}={value!r} must be a number from {least} to {most}{multiple}")
    return number


def _consistent(text: str, model: SyntheticModel) -> SyntheticModel:
    if model.heads % model.kv:
        raise SpecError(f"model {text!r}: kv={model.kv} must divide heads={model.heads}")
    if model.arch == "qwen35" and model.layers < architectures.FULL_ATTENTION_INTERVAL:
        raise SpecError(
            f"model {text!r}: qwen35 needs layers=4 or more; llama.cpp aborts on a hybrid model without a full "
            "attention layer, which every fourth is"
        )
    return model


def _data(model: SyntheticModel, tensor: Matrix | Vector) -> Iterator[bytes]:
    """A tensor's bytes, chunk by chunk."""
    entry = tensor.entry
    if isinstance(tensor, Vector):
        yield weights.f32(model.seed, entry.name, entry.elements, tensor.centre, tensor.k)
        return
    encode = weights.encoder(model.type, *weights.grid(tensor.std))
    columns = entry.shape[0]
    start = 0
    for chunk in weights.draw(model.seed, entry.name, entry.elements):
        yield encode(_blanked(chunk, start, columns, tensor.rows) if tensor.rows is not None else chunk)
        start += len(chunk)


def _blanked(chunk: bytes, start: int, columns: int, rows: frozenset[int]) -> bytes:
    """The chunk (which begins at element `start` of the matrix) with all rows but `rows` set to zero weights."""
    out = bytearray(chunk)
    for row in range(start // columns, -(-(start + len(chunk)) // columns)):
        if row not in rows:
            low, high = max(0, row * columns - start), min(len(chunk), (row + 1) * columns - start)
            out[low:high] = bytes([weights.ZERO]) * (high - low)
    return bytes(out)
