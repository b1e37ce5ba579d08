"""The promise: a model is known by all of its files, and a part that is missing or another's is told in one sentence
before any server is started."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from experiments import small
from program import stillruns
from split_models import split
from stillruns.act.models import synthetic
from stillruns.errors import EnvironmentLacks, SpecError, StillrunsError
from stillruns.lab.runs import models
from stillruns.lab.runs.preparing import Prepared
from stillruns.lab.runs.unchanged import Unchanged
from stillruns.lab.specs import spec_file
from stillruns.store.opening import open_store
from stillruns.store.store import Store


@pytest.fixture()
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return open_store(tmp_path / "store")


@pytest.fixture()
def whole(tmp_path: Path) -> Path:
    """A model in one file."""
    return synthetic.ensure(synthetic.parse("synth:llama?layers=3&type=Q8_0"), tmp_path)


def sha256(data: bytes) -> str:
    """Hex digits."""
    return hashlib.sha256(data).hexdigest()


def test_a_model_in_one_file(whole: Path, store: Store) -> None:
    """Its digest is that of the file, whatever else lies beside it."""
    split(whole, whole.with_suffix(""), 3)
    found = models.resolve(str(whole), store)
    assert found.sha256 == f"sha256:{sha256(whole.read_bytes())}" and found.parts == ()
    assert found.bytes == whole.stat().st_size and [file.path for file in found.files] == [found.path]


def test_all_parts_make_the_digest(whole: Path, store: Store, tmp_path: Path) -> None:
    """The digest is the one of the parts' digests, as sha256sum prints them; type and size are those of the whole."""
    one = models.resolve(str(whole), store)
    parts = split(whole, tmp_path / "model", 3)
    found = models.resolve(str(parts[0]), store)
    lines = "".join(f"{sha256(part.read_bytes())}\n" for part in parts)
    assert found.sha256 == f"sha256:{sha256(lines.encode())}"
    assert [part.path for part in found.parts] == [str(part) for part in parts] and found.path == str(parts[0])
    assert found.bytes == sum(part.stat().st_size for part in parts)
    assert (found.architecture, found.quantisation) == (one.architecture, one.quantisation) == ("llama", "Q8_0")


def test_a_change_in_any_part_changes_the_digest(whole: Path, store: Store, tmp_path: Path) -> None:
    """One byte of the weights in the last part."""
    parts = split(whole, tmp_path / "model", 3)
    before = models.resolve(str(parts[0]), store)
    data = bytearray(parts[2].read_bytes())
    data[-1] ^= 1
    parts[2].write_bytes(data)
    after = models.resolve(str(parts[0]), store)
    assert after.sha256 != before.sha256
    assert [a.sha256 == b.sha256 for a, b in zip(after.parts, before.parts, strict=True)] == [True, True, False]


@pytest.mark.parametrize(
    ("gone", "says"),
    [
        ((1,), "has 3 parts, and part 2 is missing (no file {1})"),
        ((2,), "has 3 parts, and part 3 is missing (no file {2})"),
        ((1, 2), "has 3 parts, and parts 2 and 3 are missing (no file {1})"),
    ],
)
def test_a_missing_part(gone: tuple[int, ...], says: str, whole: Path, store: Store, tmp_path: Path) -> None:
    """Which one, and where it is looked for."""
    parts = split(whole, tmp_path / "model", 3)
    for number in gone:
        parts[number].unlink()
    with pytest.raises(EnvironmentLacks) as caught:
        models.resolve(str(parts[0]), store)
    assert says.format(*parts) in str(caught.value) and "\n" not in str(caught.value)


def test_a_part_on_a_mount_that_is_gone(whole: Path, store: Store, tmp_path: Path) -> None:
    """A folder lists a link whose target is not there: the sentence says where it leads."""
    parts = split(whole, tmp_path / "model", 3)
    parts[2].unlink()
    parts[2].symlink_to("/mnt/gone/blob")
    with pytest.raises(EnvironmentLacks) as caught:
        models.resolve(str(parts[0]), store)
    assert f"part 3 is missing ({parts[2]} is a link to /mnt/gone/blob)" in str(caught.value)


def refused(path: Path, store: Store) -> str:
    """The sentence."""
    with pytest.raises(SpecError) as caught:
        models.resolve(str(path), store)
    return str(caught.value)


def test_parts_that_do_not_belong_together(whole: Path, store: Store, tmp_path: Path) -> None:
    """What llama.cpp would refuse in each trial is refused before the first."""
    parts = split(whole, tmp_path / "model", 3)
    assert "is part 2 of 3; give the first part" in refused(parts[1], store)
    renamed = parts[0].rename(tmp_path / "model.gguf")
    assert "does not end in -00001-of-00003.gguf" in refused(renamed, store)
    swapped = split(whole, tmp_path / "swapped", 3, numbers=(0, 2, 1))
    assert f"{swapped[1]} should be part 2" in refused(swapped[0], store)
    other = split(whole, tmp_path / "other", 3, tensors=7)
    assert "not the 7 that the first one names" in refused(other[0], store)
    cut = split(whole, tmp_path / "cut", 3)
    cut[2].write_bytes(cut[2].read_bytes()[:-40])
    assert f"{cut[2]} ends" in refused(cut[0], store)
    single = split(whole, tmp_path / "single", 3)
    single[1].write_bytes(whole.read_bytes())
    assert "says that it is no part of a split model" in refused(single[0], store)


def test_a_first_part_that_cannot_be_read(whole: Path, store: Store, tmp_path: Path) -> None:
    """Its digest would stand for parts that nobody looked at; a model in one file is left to the server."""
    parts = split(whole, tmp_path / "model", 3)
    data = bytearray(parts[0].read_bytes())
    data[4:8] = (9).to_bytes(4, "little")  # a version of GGUF that is not known here
    parts[0].write_bytes(data)
    said = refused(parts[0], store)
    assert "one of 3 parts by its name" in said and "version 9" in said and "llama-gguf-split --merge" in said
    assert models.resolve(str(parts[0].rename(tmp_path / "one.gguf")), store).parts == ()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_part(whole: Path, store: Store, tmp_path: Path) -> None:
    """The sentence names that part."""
    parts = split(whole, tmp_path / "model", 2)
    parts[1].chmod(0)
    with pytest.raises(StillrunsError, match=str(parts[1])):
        models.resolve(str(parts[0]), store)


def test_a_part_that_changes_is_noticed(whole: Path, store: Store, tmp_path: Path) -> None:
    """While a run goes on, each part is looked at; one that was only touched is the same."""
    parts = split(whole, tmp_path / "model", 3)
    place = small(tmp_path / "spec.toml", model=parts[0], reference="none")
    found = models.resolve(str(parts[0]), store)
    files = Unchanged(Prepared(spec_file.load(place), (), {}, found, tmp_path, {}, {}))
    os.utime(parts[1])
    assert files.first_changed() == ""
    parts[2].write_bytes(parts[2].read_bytes() + bytes(32))
    assert files.first_changed() == f"a part of the model {parts[2]}"


def test_every_model_of_a_run_is_watched(whole: Path, store: Store, tmp_path: Path) -> None:
    """Those of an axis and the twin too, not only the one that the spec names first."""
    place = small(tmp_path / "spec.toml", model=whole, reference="none")
    others = [tmp_path / "axis.gguf", tmp_path / "twin.gguf"]
    for other in others:
        shutil.copyfile(whole, other)
    first, axis, twin = (models.resolve(str(path), store) for path in (whole, *others))
    spec = spec_file.load(place)
    for other in others:
        files = Unchanged(Prepared(spec, (), {}, first, tmp_path, {}, {}, twin, {"axis": axis}))
        other.write_bytes(b"another")
        assert files.first_changed() == f"the model {other}"
        shutil.copyfile(whole, other)


@pytest.mark.engine
def test_a_run_of_a_split_model(whole: Path, tmp_path: Path) -> None:
    """The run's first record has every part with its digest; when one is missing the next run ends with one sentence
    before any trial."""
    parts = split(whole, tmp_path / "model", 3)
    place = small(tmp_path / "spec.toml", model=parts[0], reference="none")
    words = ("run", place, "--store", tmp_path / "store")
    assert stillruns(*words).returncode == 0
    with open_store(tmp_path / "store", create=False) as kept:
        (started,) = kept.records(kind="run_started")
        assert [part["sha256"] for part in started.body["model"]["parts"]] == [
            f"sha256:{sha256(part.read_bytes())}" for part in parts
        ]
        before = len(list(kept.records(kind="trial_started")))
    parts[1].unlink()
    ended = stillruns(*words, "--new")
    assert ended.returncode == 1 and "part 2 is missing" in ended.stderr and ended.stderr.strip().count("\n") == 0
    with open_store(tmp_path / "store", create=False) as kept:
        assert len(list(kept.records(kind="trial_started"))) == before
