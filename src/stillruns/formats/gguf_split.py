"""A model that is split over several GGUF files: what each part says of itself, and how the others are called.

llama.cpp is given the first part and finds the others by its name, which has to end in `-00001-of-0000N.gguf`
(`llama_split_prefix` and `llama_split_path` in src/llama.cpp, `llama_get_list_splits` in src/llama-model-loader.cpp,
read at b11434). Metadata decides whether a model is split at all: `split.count` above 1. Each part has its number in
`split.no`, counted from 0; `split.tensors.count` are the tensors of all parts together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from stillruns.errors import FormatError
from stillruns.formats.gguf import Gguf

MOST = 65_535
"""`split.count` is a 16-bit number."""
_NAME = re.compile(r"-\d{5}-of-(\d{5})\.gguf\Z")


@dataclass(frozen=True, slots=True)
class Split:
    """What a part says: there are `count` parts, of which it is number `index`, counted from 0, with `tensors` in
    all of them together. None where its metadata does not say it as a number."""

    index: int | None
    count: int
    tensors: int | None


def of(part: Gguf) -> Split | None:
    """What a file says of its parts; None for a model in one file."""
    count = _number(part, "split.count")
    if count is None or not 1 < count <= MOST:
        return None
    return Split(index(part), count, _number(part, "split.tensors.count"))


def index(part: Gguf) -> int | None:
    """Which part a file says it is, counted from 0."""
    return _number(part, "split.no")


def ending(index: int, count: int) -> str:
    """How the name of a part ends: `-00002-of-00003.gguf` for index 1 of 3."""
    return f"-{index + 1:05d}-of-{count:05d}.gguf"


def named(name: str) -> int | None:
    """How many parts there are by a part's file name; None for a name that is not of that form."""
    found = _NAME.search(name)
    count = int(found[1]) if found else 0
    return count if 1 < count <= MOST else None


def paths(first: str, count: int) -> tuple[str, ...]:
    """The paths of all parts by that of the first. FormatError for a name from which llama.cpp cannot tell them."""
    prefix = first.removesuffix(ending(0, count))
    if prefix in (first, ""):
        raise FormatError(f"the name of the first of {count} parts does not end in {ending(0, count)}")
    return tuple(prefix + ending(number, count) for number in range(count))


def _number(part: Gguf, key: str) -> int | None:
    value = part.metadata.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
