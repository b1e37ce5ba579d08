"""From the spec's `model` text to a file, or the files of a split model, with a digest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stillruns.act.models import synthetic
from stillruns.act.runtimes.digests import digest_file
from stillruns.errors import EnvironmentLacks, FormatError, SpecError
from stillruns.formats import gguf, gguf_split
from stillruns.lab.specs.home import expanded
from stillruns.store.ids import sha256_of
from stillruns.store.store import Store

SHOWN = 5
"""So many missing parts are named."""


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a split model, with its own digest (`sha256:...`)."""

    path: str
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model as used: `name` is what the spec says, `path` the file, `sha256` its digest (`sha256:...`).

    Of a split model `path` is the first part, `bytes` counts all parts, and `sha256` is the digest of the parts'
    digests in their order, each as hex digits and a newline: `sha256sum PARTS | cut -d ' ' -f 1 | sha256sum`.
    """

    name: str
    path: str
    sha256: str
    bytes: int
    architecture: str = ""
    """As the file says it; empty where it does not."""
    quantisation: str = ""
    """The type that most of its weights have, in bytes."""
    parts: tuple[Part, ...] = ()
    """All files of a split model in their order; empty for a model in one file."""

    @property
    def files(self) -> tuple[Part, ...]:
        """Every file of the model, with the digest of its content."""
        return self.parts or (Part(self.path, self.sha256, self.bytes),)


def resolve(name: str, store: Store) -> ModelFile:
    """Find or make the model file.

    `synth:...` is written into the store's cache once. Raises SpecError for a synthetic model that cannot be made and
    for parts that are not those of one model, EnvironmentLacks when no such file is here or a part is missing.
    """
    if name.startswith("synth:"):
        path = synthetic.ensure(synthetic.parse(name), store.cache_dir("models"))
    else:
        path = expanded(name)
    if path.is_dir():
        raise SpecError(f"the model {path} is a folder; give the .gguf file in it")
    if not path.is_file():
        raise EnvironmentLacks(
            f"no model file at {path}; give a GGUF file, or synth:llama?layers=4 for one made here"
        )
    cache = store.cache_dir("digests")
    try:
        head = _whole(path)
        if isinstance(head, FormatError):
            _alone(path, head)
        split = gguf_split.of(head) if isinstance(head, gguf.Gguf) else None
        if isinstance(head, gguf.Gguf) and split is not None:
            return _joined(name, path, head, split, cache)
        return ModelFile(
            name,
            str(path.resolve()),
            digest_file(path, cache),
            path.stat().st_size,
            (head.architecture or "") if isinstance(head, gguf.Gguf) else "",
            _quantisation([head]) if isinstance(head, gguf.Gguf) else "",
        )
    except PermissionError as error:
        raise EnvironmentLacks(
            f"the model {error.filename or path} is not readable; run as a user who may read it"
        ) from error


def _alone(path: Path, error: FormatError) -> None:
    """A head that we cannot read does not say whether there are other parts; the name may, and then one part's digest
    would stand for all of them."""
    count = gguf_split.named(path.name)
    if count is not None:
        raise SpecError(
            f"the model {path} is one of {count} parts by its name, and its head cannot be read ({error}), so which "
            "files belong to it is unknown; copy or download it again, or join the parts into one file with "
            "llama-gguf-split --merge"
        )


def _joined(name: str, path: Path, head: gguf.Gguf, split: gguf_split.Split, cache: Path) -> ModelFile:
    """A split model, whole and with the digest of all parts. A link to the first part stays one: its name is how the
    others are found."""
    files = _found(path, split)
    heads = [head, *_heads(path, files[1:])]
    known = [part for part in heads if part is not None]
    tensors = sum(len(part.tensors) for part in known)
    if len(known) == len(heads) and split.tensors is not None and tensors != split.tensors:
        raise SpecError(
            f"the {split.count} parts of the model {path} hold {tensors} tensors, not the {split.tensors} that the "
            "first one names: they are not of one model; copy or download them again"
        )
    parts = tuple(Part(str(file), digest_file(file, cache), file.stat().st_size) for file in files)
    return ModelFile(
        name,
        parts[0].path,
        sha256_of("".join(part.sha256.removeprefix("sha256:") + "\n" for part in parts).encode()),
        sum(part.bytes for part in parts),
        head.architecture or "",
        _quantisation(known),
        parts,
    )


def _found(path: Path, split: gguf_split.Split) -> tuple[Path, ...]:
    """The files of all parts; every one is here."""
    first = path.parent.resolve() / path.name
    if split.index not in (0, None):
        raise SpecError(
            f"the model {path} is part {split.index + 1} of {split.count}; give the first part, whose name ends in "
            f"{gguf_split.ending(0, split.count)}"
        )
    try:
        files = tuple(Path(part) for part in gguf_split.paths(str(first), split.count))
    except FormatError:
        raise SpecError(
            f"the model {path} is the first of {split.count} parts, and its name does not end in "
            f"{gguf_split.ending(0, split.count)}, by which llama.cpp finds the others; give it its own name again"
        ) from None
    missing = [number for number, file in enumerate(files, 1) if not file.is_file()]
    if missing:
        which = f"part {missing[0]} is" if len(missing) == 1 else f"parts {_listed(missing)} are"
        raise EnvironmentLacks(
            f"the model {path} has {split.count} parts, and {which} missing ({_absent(files[missing[0] - 1])}); copy "
            "or download what is missing into the same folder"
        )
    return files


def _absent(file: Path) -> str:
    return f"{file} is a link to {file.readlink()}" if file.is_symlink() else f"no file {file}"


def _listed(numbers: Sequence[int]) -> str:
    """`2, 3 and 5`, or the first few and how many more."""
    if len(numbers) > SHOWN:
        return f"{', '.join(map(str, numbers[:SHOWN]))} and {len(numbers) - SHOWN} more"
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def _heads(path: Path, files: Sequence[Path]) -> list[gguf.Gguf | None]:
    """The heads of the further parts, each in its place; None for one that only the server may be able to read."""
    heads: list[gguf.Gguf | None] = []
    for index, file in enumerate(files, 1):
        head = _whole(file)
        if isinstance(head, gguf.Gguf) and gguf_split.index(head) != index:
            says = gguf_split.index(head)
            instead = "no part of a split model" if says is None else f"part {says + 1}"
            raise SpecError(
                f"{file} should be part {index + 1} of the model {path} and says that it is {instead}; copy or "
                "download it again"
            )
        heads.append(head if isinstance(head, gguf.Gguf) else None)
    return heads


def _quantisation(heads: Iterable[gguf.Gguf]) -> str:
    bytes_of: Counter[str] = Counter()
    for head in heads:
        for tensor in head.tensors:
            bytes_of[tensor.type_name] += tensor.bytes or 0
    return bytes_of.most_common(1)[0][0] if bytes_of else ""


def _whole(path: Path) -> gguf.Gguf | FormatError:
    """Every cell would fail in load with a model that is none, or that ends early, and none of them by its fault.

    Other damage is left to the server, which may read what we cannot: what it is, is returned.
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
                return error
            raise SpecError(f"the model {path} is no GGUF file: {error}; give one that llama.cpp can load") from error
    if head.missing:
        raise SpecError(
            f"the model {path} ends {head.missing} bytes before its last tensor does; copy or download it again"
        )
    return head
