"""The conductor of `trace`: read the trees, use and fill the cache, follow the option, compare two revisions."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from stillruns import __version__
from stillruns.catalogue.trace_specs import bridges, specs
from stillruns.collect import source_tree
from stillruns.errors import StoreError, UsageError
from stillruns.lab.specs.home import expanded
from stillruns.model.trace import Bridges, SourceRef, Trace, TraceSpec
from stillruns.normalise.source import tracing as source_tracing
from stillruns.normalise.source.ir import DIALECT, FileFacts
from stillruns.normalise.source.program import SUFFIXES
from stillruns.store.opening import open_store

EXTRA_FILES = ("LLAMA_CPP_VERSION",)
"""Read besides the sources: which llama.cpp an Ollama tree runs."""


@dataclass(frozen=True, slots=True)
class Source:
    """One `--source NAME=PATH[@REV]`."""

    name: str
    path: Path
    rev: str


def parse_source(text: str) -> Source:
    """`ollama=DIR@v0.17.5`; without `NAME=` the folder's name, without `@REV` the files as they lie there."""
    name, equals, rest = text.partition("=")
    if not equals or "/" in name:
        name, rest = "", text
    path, rev = expanded(rest), ""
    if not path.exists() and "@" in rest:
        head, _, rev = rest.rpartition("@")
        path = expanded(head)
    if not rest:
        raise UsageError(f"--source {text!r} names no folder; write --source NAME=PATH or NAME=PATH@REV.")
    return Source(name or path.resolve().name, path, rev)


def trace(option: str, sources: Sequence[Source], store_dir: Path | None) -> Trace:
    """Follow `option` through the sources."""
    if not option.strip() or any(c in option for c in "\n\0"):
        raise UsageError("an option is one word, such as num_gpu, --split-mode or OLLAMA_FLASH_ATTENTION.")
    if len({s.name for s in sources}) != len(sources):
        raise UsageError("two sources have the same name; give each its own: --source NAME=PATH.")
    trees = [source_tree.read(s.name, s.path, s.rev, (*SUFFIXES, *EXTRA_FILES)) for s in sources]
    refs, spec = [t.ref for t in trees], specs().get(option)
    folder = _folder(store_dir)
    answer = folder / f"{_key(option, refs, spec)}.json" if folder is not None else None
    kept = _kept(answer)
    if kept is not None:
        return kept
    files = [f for tree in trees for f in tree.load()]
    with _cache(folder, trees) as known:
        found = source_tracing.trace(option, refs, files, bridges(), spec, known)
    left_out = [f"{t.ref.name}: {m} was left out." for t in trees for m in t.missing[:10]]
    found = replace(found, notes=(*found.notes, *left_out))
    if answer is not None:
        _write(answer, msgspec.json.encode(found))
    return found


def _key(option: str, refs: Sequence[SourceRef], spec: TraceSpec | None) -> str:
    """What an answer depends on: the option, the trees, the shipped knowledge and this program."""
    rules = (DIALECT, source_tracing.RULES, __version__)
    parts = (option, rules, [repr(r) for r in refs], repr(spec), _stable(bridges()))
    return "answer-" + hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _stable(known: Bridges) -> str:
    return repr([sorted(v) if isinstance(v, frozenset) else v for v in (getattr(known, f) for f in known.__slots__)])


def _kept(path: Path | None) -> Trace | None:
    """An answer that was worked out before; None when there is none or it cannot be read."""
    if path is None:
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=Trace)
    except (OSError, msgspec.MsgspecError):
        return None


def _folder(store_dir: Path | None) -> Path | None:
    """The store's cache for traces; None without a store that can be written."""
    try:
        return open_store(store_dir).cache_dir("trace")
    except StoreError:
        return None


def _write(path: Path, data: bytes) -> None:
    """Replace the cache file at once; a full disk costs only the cache."""
    with contextlib.suppress(OSError):
        work = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        work.write_bytes(data)
        work.replace(path)


def diff(option: str, sources: Sequence[Source], old: str, new: str, store_dir: Path | None) -> tuple[Trace, Trace]:
    """The option at two revisions of the sources that name none (the first source, when all do)."""
    moved = {s.name for s in sources if not s.rev and all(source_tree.has(s.path, rev) for rev in (old, new))}
    if not moved:
        raise UsageError(f"none of the sources has both {old} and {new}; give one without @REV: --source NAME=PATH.")

    def at(rev: str) -> list[Source]:
        return [Source(s.name, s.path, rev) if s.name in moved else s for s in sources]

    return trace(option, at(old), store_dir), trace(option, at(new), store_dir)


class _Known(MutableMapping[str, FileFacts]):
    """Lowered files by blob digest: encoded until they are asked for."""

    def __init__(self, encoded: dict[str, bytes]) -> None:
        self.encoded, self.live, self.grown = encoded, dict[str, FileFacts](), set[str]()

    def __getitem__(self, key: str) -> FileFacts:
        if key not in self.live:
            self.live[key] = msgspec.msgpack.decode(self.encoded[key], type=FileFacts)
        return self.live[key]

    def __setitem__(self, key: str, value: FileFacts) -> None:
        self.live[key] = value
        self.encoded[key] = msgspec.msgpack.encode(value)
        self.grown.add(key)

    def __delitem__(self, key: str) -> None:
        self.live.pop(key, None)
        del self.encoded[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.encoded)

    def __len__(self) -> int:
        return len(self.encoded)

    def get(self, key: str, default: object = None) -> FileFacts | None:  # type: ignore[override]
        """The lowered file, or None; a damaged entry counts as absent."""
        if key not in self.live and key not in self.encoded:
            return None
        try:
            return self[key]
        except msgspec.MsgspecError:
            del self[key]
            return None


@contextlib.contextmanager
def _cache(folder: Path | None, trees: Sequence[source_tree.Tree]) -> Iterator[_Known]:
    """The store's cache of lowered files, one file a tree; without a writable store, a cache in memory only."""
    if folder is None:
        yield _Known({})
        return
    paths = [folder / f"{t.ref.tree.removeprefix('sha256:')[:32]}-{DIALECT}.msgpack" for t in trees]
    held: dict[str, bytes] = {}
    for path in paths:
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            held.update(msgspec.msgpack.decode(path.read_bytes(), type=dict[str, bytes]))
    known = _Known(held)
    yield known
    for path, tree in zip(paths, trees, strict=True):
        mine = {f.blob: known.encoded[f.blob] for f in tree.files if f.blob in known.encoded}
        if known.grown & mine.keys():
            _write(path, msgspec.msgpack.encode(mine))
