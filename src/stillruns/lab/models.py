"""From the spec's `model` text to a file with a digest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from stillruns.act.models import synthetic
from stillruns.act.runtimes.digests import digest_file
from stillruns.errors import EnvironmentLacks, FormatError, SpecError
from stillruns.formats import gguf
from stillruns.store.store import Store


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model as used: `name` is what the spec says, `path` the file, `sha256` its digest (`sha256:...`)."""

    name: str
    path: str
    sha256: str
    bytes: int
    architecture: str = ""
    """As the file says it; empty where it does not."""
    quantisation: str = ""
    """The type that most of its weights have, in bytes."""


def resolve(name: str, store: Store) -> ModelFile:
    """Find or make the model file.

    `synth:...` is written into the store's cache once. Raises SpecError for a synthetic model that cannot be made,
    EnvironmentLacks when no such file is here.
    """
    if name.startswith("synth:"):
        path = synthetic.ensure(synthetic.parse(name), store.cache_dir("models"))
    else:
        path = Path(name).expanduser()
    if path.is_dir():
        raise SpecError(f"the model {path} is a folder; give the .gguf file in it")
    if not path.is_file():
        raise EnvironmentLacks(
            f"no model file at {path}; give a GGUF file, or synth:llama?layers=4 for one made here"
        )
    try:
        head = _whole(path)
        return ModelFile(
            name,
            str(path.resolve()),
            digest_file(path, store.cache_dir("digests")),
            path.stat().st_size,
            (head.architecture or "") if head else "",
            _quantisation(head) if head else "",
        )
    except PermissionError as error:
        raise EnvironmentLacks(f"the model {path} is not readable; run as a user who may read it") from error


def _quantisation(head: gguf.Gguf) -> str:
    bytes_of: Counter[str] = Counter()
    for tensor in head.tensors:
        bytes_of[tensor.type_name] += tensor.bytes or 0
    return bytes_of.most_common(1)[0][0] if bytes_of else ""


def _whole(path: Path) -> gguf.Gguf | None:
    """Every cell would fail in load with a model that is none, or that ends early, and none of them by its fault.

    Other damage is left to the server: it may read what we cannot.
    """
    size = path.stat().st_size
    with path.open("rb") as file:

        def read_at(offset: int, count: int) -> bytes:
            file.seek(offset)
            return file.read(count)

        try:
            head = gguf.read(read_at, size)
        except FormatError as error:
            if error.offset != 0:
                return None
            raise SpecError(f"the model {path} is no GGUF file: {error}; give one that llama.cpp can load") from error
    if head.missing:
        raise SpecError(
            f"the model {path} ends {head.missing} bytes before its last tensor does; copy or download it again"
        )
    return head
