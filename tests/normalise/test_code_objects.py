"""Device code of a file: real compilers' containers, half-built libraries, archives beside the library, damage."""

from __future__ import annotations

import hashlib
import json
import struct
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import device_code as make
from stillruns.collect import code_objects as collected
from stillruns.collect.tree import FileTree
from stillruns.formats import bundles
from stillruns.model.absence import Absence
from stillruns.model.code_object import CodeObjects, Feature
from stillruns.normalise import code_objects

GOLDEN = Path(__file__).parents[1] / "golden" / "code_objects"
SAMPLES = sorted(path.name.removesuffix(".raw") for path in GOLDEN.glob("*.raw"))


def read(data: bytes, path: str = "/lib/libx.so") -> CodeObjects:
    found = code_objects.read(lambda offset, n: data[offset : offset + n], len(data), path)
    assert isinstance(found, CodeObjects), found
    return found


def library(bundles: list[bytes], wrappers: int | None = None) -> bytes:
    count = len(bundles) if wrappers is None else wrappers
    return make.elf([(".hip_fatbin", make.padded(bundles)), (".hipFatBinSegment", make.wrappers(count))])


@pytest.mark.parametrize("name", SAMPLES)
def test_golden(name: str) -> None:
    """What real compilers wrote is read as their own tools list it."""
    expected = json.loads((GOLDEN / f"{name}.expect.json").read_text())
    found = read((GOLDEN / f"{name}.raw").read_bytes(), name)
    assert {
        "format": found.format,
        "bundles": found.bundles,
        "wrappers": found.wrappers,
        "compressed": found.compressed,
        "soname": found.linking.soname,
        "build_id": bool(found.file.build_id),
        "targets": {
            t.target: [t.count, t.code_object_version, t.sramecc.value, t.xnack.value] for t in found.targets
        },
    } == {key: value for key, value in expected.items() if key not in ("origin", "made_by")}
    assert found.problems == ()


def test_there_are_golden_samples() -> None:
    """An empty folder would let the test above pass."""
    assert len(SAMPLES) >= 7


def test_a_target_in_some_bundles_only_is_counted() -> None:
    """gfx906 in one of two units: 1 of 2."""
    found = read(library([make.bundle([("gfx900", make.code("gfx900")), ("gfx906", make.code("gfx906"))]),
                          make.bundle([("gfx900", make.code("gfx900"))])]))  # fmt: skip
    assert {t.target: t.count for t in found.targets} == {"gfx900": 2, "gfx906": 1}
    assert found.bundles == 2


def test_fewer_bundles_than_registrations_is_a_problem() -> None:
    """Three registrations and one bundle: something was not found, and it is said."""
    found = read(library([make.bundle([("gfx900", make.code("gfx900"))])], wrappers=3))
    assert found.wrappers == 3
    assert found.problems == ("3 bundles are registered and 1 were found",)


def test_code_that_is_not_what_its_label_says() -> None:
    """An entry labelled gfx906 that holds gfx900 code is a mismatch."""
    (target,) = read(library([make.bundle([("gfx906", make.code("gfx900"))])])).targets
    assert (target.target, target.mismatches) == ("gfx906", 1)


def test_the_newest_version_and_the_features_of_several_bundles() -> None:
    """Versions 4 and 6 in one library: 6 counts; features that differ are unknown."""
    off = make.code("gfx906", version=4, features=2 << 8)
    on = make.code("gfx906", version=6, features=1 << 8)
    (target,) = read(library([make.bundle([("gfx906", off)]), make.bundle([("gfx906", on)])])).targets
    assert target.code_object_version == 6
    assert target.xnack is Feature.UNKNOWN


def test_targets_are_in_natural_order() -> None:
    """gfx900 stands before gfx1030, whatever the order in the file."""
    names = ["gfx1030", "gfx90a", "gfx900"]
    found = read(library([make.bundle([(name, make.code(name)) for name in names])]))
    assert [t.target for t in found.targets] == ["gfx900", "gfx90a", "gfx1030"]


def test_code_in_archives_beside_the_library(tmp_path: Path) -> None:
    """A library whose code was moved to KPACK archives does not look empty: the archives' targets are its own."""
    reference = msgspec.msgpack.encode(
        {"kernel_name": "lib/libx.so", "kpack_search_paths": ["../k/x_@GFXARCH@.kpack"]}
    )
    moved = (".hipFatBinSegment", make.wrappers(2, b"HIPK"))
    data = make.elf([(".hip_fatbin", bytes(1 << 20)), moved, (".rocm_kpack_ref", reference)])
    (tmp_path / "lib").mkdir()
    (tmp_path / "k").mkdir()
    (tmp_path / "lib/libx.so").write_bytes(data)
    for target in ("gfx906", "gfx1100"):
        toc = {"gfx_arches": [target], "toc": {"lib/libx.so#0": {target: {}}, "lib/other.so#0": {"gfx942": {}}}}
        head = b"KPAK" + struct.pack("<IQ", 1, 64) + bytes(48)
        (tmp_path / f"k/x_{target}.kpack").write_bytes(head + msgspec.msgpack.encode(toc))
    (tmp_path / "k/x_gfx000.kpack").write_bytes(b"KPAK junk")
    tree = FileTree(tmp_path)
    found = read(data)
    assert found.kpack is not None
    assert found.bundles == 0
    assert found.wrappers == 0
    assert found.problems == ()
    with collected.archives(tree, code_objects.archive_patterns(found)) as opened:
        found = code_objects.with_archives(found, [(s.read_at, s.size, s.path) for s in opened])
    assert found.kpack is not None
    assert found.kpack.targets == ("gfx1100", "gfx906")
    assert len(found.problems) == 1
    assert "/k/x_gfx000.kpack" in found.problems[0]


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\x7fELF\x01\x01" + bytes(80)])
def test_files_whose_header_is_damaged_are_absent(data: bytes) -> None:
    """Empty, cut within the header, 32 bits: an absence with the path, no exception and no empty list of targets."""
    found = code_objects.read(lambda offset, n: data[offset : offset + n], len(data), "/opt/x.so")
    assert isinstance(found, Absence)
    assert "/opt/x.so" in found.detail


def test_a_library_without_device_code() -> None:
    """Host code alone is no damage."""
    found = read(make.elf([(".text", b"\x90" * 40)]))
    assert (found.format, found.targets, found.problems) == ("ELF without device code", (), ())


def test_relocatable_parts_of_nvidia_promise_nothing() -> None:
    """PTX that only the device linker's input holds is never loaded; in an object file it is all there is."""
    linked, parts = make.fatbin([(2, 61, b"x")]), make.fatbin([(2, 61, b"x"), (1, 61, b"ptx")])
    both = read(make.elf([("__nv_relfatbin", parts), (".nv_fatbin", linked)]))
    assert [t.target for t in both.targets] == ["sm_61"]
    alone = read(make.elf([("__nv_relfatbin", parts)]))
    assert [t.target for t in alone.targets] == ["compute_61", "sm_61"]


def test_a_section_beyond_the_end_of_the_file() -> None:
    """A library cut in the middle of a copy: what is left is read, the rest is counted in bytes."""
    whole = library([make.bundle([("gfx900", make.code("gfx900"))])])
    table = struct.unpack_from("<Q", whole, 40)[0]
    broken = bytearray(whole)
    struct.pack_into("<Q", broken, table + 64 + 32, 1 << 30)
    found = read(bytes(broken))
    assert any("beyond the end of the file" in problem for problem in found.problems)
    assert [t.target for t in found.targets] == ["gfx900"]


@pytest.mark.parametrize(
    "data",
    [
        make.elf([(".hip_fatbin", (bundles.MAGIC + bytes(8)) * 100_000)]),
        make.elf([(".nv_fatbin", make.fatbin([]) * 200_000)]),
        make.elf([(".llvm.offloading", make.offload_binary([], 2) * 100_000)]),
        make.elf([(".hip_fatbin", b"\x01" * 1000)] * 2000),
        make.elf([(".hip_fatbin", b"CCOB" * 200_000)]),
        make.elf([(".hip_fatbin", (make.compressed(b"x" * 40, 1) + b"junk") * 10_000)]),
        make.elf([(".nv_fatbin", (make.fatbin([]) + b"junk") * 100_000)]),
    ],
    ids=["bundles", "fat binaries", "offload binaries", "sections", "magics", "credible magics", "junk between"],
)
def test_absurd_counts_end_soon(data: bytes) -> None:
    """Hundreds of thousands of empty containers are not walked to the end; it is said that there are too many."""
    started = time.process_time()
    assert read(data).problems
    assert time.process_time() - started < 10


def test_the_ranges_that_were_read_are_the_evidence(tmp_path: Path) -> None:
    """Ranges carry the digests of what was read, most of a big file is never read, and a second reading asks for the
    same ranges: a snapshot of them is enough."""
    data = library([make.bundle([("gfx900", make.code("gfx900") + bytes(1 << 20))]) for _ in range(4)])
    (tmp_path / "libx.so").write_bytes(data)
    tree = FileTree(tmp_path)
    files = []
    for _ in range(2):
        with tree.ranges("/libx.so") as source:
            assert not isinstance(source, Absence)
            found = code_objects.read(source.read_at, source.size, "/libx.so", source.ref)
        assert isinstance(found, CodeObjects)
        files.append(found.file)
    assert files[0] == files[1]
    assert sum(r.length for r in files[0].ranges) < len(data) // 20
    for part in files[0].ranges:
        digest = hashlib.sha256(data[part.offset : part.offset + part.length]).hexdigest()
        assert part.sha256 == f"sha256:{digest}"


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SAMPLES), st.data())
def test_damaged_files_give_sentences(name: str, data: st.DataObject) -> None:
    """Any damage to a real file ends as a result or an absence."""
    raw = bytearray((GOLDEN / f"{name}.raw").read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + 8] = data.draw(st.sampled_from([b"\xff" * 8, bytes(8), b"\x01", b"\x80" * 4]))
    cut = bytes(raw[: data.draw(st.integers(1, len(raw)))])
    found = code_objects.read(lambda offset, n: cut[offset : offset + n], len(cut), "/x")
    assert isinstance(found, (CodeObjects, Absence))
