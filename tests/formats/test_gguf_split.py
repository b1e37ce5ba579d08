"""The promise: the parts of a split model are found as llama.cpp finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from split_models import split
from stillruns.act.models import synthetic
from stillruns.errors import FormatError
from stillruns.formats import gguf, gguf_split


def head(path: Path) -> gguf.Gguf:
    """What a file says of itself."""
    data = path.read_bytes()
    return gguf.read(lambda offset, size: data[offset : offset + size], len(data))


def test_parts_say_what_they_are(tmp_path: Path) -> None:
    """Each part has its number, and all of them how many there are; a model in one file has neither."""
    whole = synthetic.ensure(synthetic.parse("synth:llama?layers=2"), tmp_path)
    assert gguf_split.of(head(whole)) is None and gguf_split.index(head(whole)) is None
    parts = split(whole, tmp_path / "model", 3)
    count = len(head(whole).tensors)
    assert [gguf_split.of(head(part)) for part in parts] == [gguf_split.Split(n, 3, count) for n in range(3)]
    assert gguf_split.paths(str(parts[0]), 3) == tuple(str(part) for part in parts)
    assert [part.name for part in parts] == [f"model-0000{n}-of-00003.gguf" for n in (1, 2, 3)]


@pytest.mark.parametrize("count", [0, 1])
def test_one_part_is_no_split(count: int, tmp_path: Path) -> None:
    """llama.cpp looks for others only where the count is above 1."""
    whole = synthetic.ensure(synthetic.parse("synth:llama?layers=1"), tmp_path)
    found = head(split(whole, tmp_path / "model", 1)[0])
    assert gguf_split.of(gguf.Gguf(3, False, {**found.metadata, "split.count": count}, (), 32, 0, 0)) is None


@pytest.mark.parametrize(
    ("first", "count", "second"),
    [
        ("/m/a-00001-of-00002.gguf", 2, "/m/a-00002-of-00002.gguf"),
        ("/m/a-00001-of-00002-00001-of-00012.gguf", 12, "/m/a-00001-of-00002-00002-of-00012.gguf"),
        ("/m/-00001-of-00002.gguf", 2, "/m/-00002-of-00002.gguf"),
        ("/m/a-00001-of-100000.gguf", 100_000, "/m/a-00002-of-100000.gguf"),
    ],
)
def test_names(first: str, count: int, second: str) -> None:
    """Five digits at least, and only the last ending counts."""
    assert gguf_split.paths(first, count)[1] == second


@pytest.mark.parametrize(
    "first", ["/m/a.gguf", "/m/a-00002-of-00003.gguf", "/m/a-00001-of-00002.gguf", "-00001-of-00003.gguf"]
)
def test_other_names_are_refused(first: str) -> None:
    """A name that llama.cpp refuses for a model in three parts."""
    with pytest.raises(FormatError):
        gguf_split.paths(first, 3)
