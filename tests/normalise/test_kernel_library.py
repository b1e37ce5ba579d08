"""Folders of kernels: complete, fallback only, files missing, index damaged or missing, mixed, absent: each told
apart, each naming its files."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

import device_code as make
from stillruns.collect import kernel_library as collected
from stillruns.collect.tree import FileTree
from stillruns.model.absence import Absence
from stillruns.model.kernel_library import KernelLibrary, LibraryState, TargetFiles
from stillruns.normalise import kernel_library

OLD = ("name", "index", "ideals")
NEW = (*OLD, "taskPredicate")
LAZY = "opt/rocm/lib/rocblas/library"


def rocblas(
    folder: Path, targets: tuple[str, ...] = ("gfx900", "gfx906", "gfx90a", "gfx1030"), **kind: object
) -> None:
    """A lazy folder: two own groups and one fallback group a target; gfx90a's files bear xnack marks."""
    fields = NEW if kind.get("new", True) else OLD
    maker = str(kind.get("maker", "LLD 21.1.8"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "T_fallback.dat").write_bytes(make.solutions(fields, source=True))
    for target in targets:
        own = [] if target == "gfx1030" else [f"T_{target}", f"T_CU60_{target}"]
        (folder / f"TensileLibrary_lazy_{target}.dat").write_bytes(make.lazy_index(target, own, ["T_fallback"]))
        for prefix in own:
            (folder / f"{prefix}.dat").write_bytes(make.solutions(fields))
            (folder / f"{prefix}.co").write_bytes(make.code(target, version=4, maker=maker))
        marks = ("-xnack+", "-xnack-") if target == "gfx90a" else ("",)
        for stem in (f"Kernels.so-000-{target}", f"T_fallback_{target}"):
            for mark in marks:
                (folder / f"{stem}{mark}.hsaco").write_bytes(make.code(target, version=6, maker=maker))


def read(root: Path, closely: tuple[str, ...] = ()) -> KernelLibrary:
    tree = FileTree(root)
    (path,) = collected.folders(tree)
    with collected.opened(tree, path) as folder:
        assert not isinstance(folder, Absence)
        return kernel_library.read(folder, closely)


def state(root: Path, target: str = "gfx906", closely: tuple[str, ...] = ()) -> TargetFiles:
    return read(root, closely).of(target)


def test_a_whole_lazy_folder(tmp_path: Path) -> None:
    """Own kernels: complete; none of its own: fallback only; not mentioned: absent."""
    rocblas(tmp_path / LAZY)
    found = read(tmp_path)
    assert (found.library, found.layout, found.problems) == ("rocBLAS", "lazy", ())
    assert {t.target: t.state for t in found.targets} == {
        "gfx900": LibraryState.COMPLETE,
        "gfx906": LibraryState.COMPLETE,
        "gfx90a": LibraryState.COMPLETE,
        "gfx1030": LibraryState.FALLBACK_ONLY,
    }
    assert (found.of("gfx906").own, found.of("gfx906").fallback, found.of("gfx906").files) == (2, 1, 7)
    assert found.of("gfx803").state is LibraryState.ABSENT
    index = next(ref for ref in found.evidence if "gfx906" in ref.path)
    assert index.ranges[0].sha256.startswith("sha256:")


def test_files_of_a_target_removed(tmp_path: Path) -> None:
    """Everything named gfx906 gone but its index: files missing, each of them named."""
    folder = tmp_path / LAZY
    rocblas(folder)
    for path in folder.glob("*gfx906*"):
        if "_lazy_" not in path.name:
            path.unlink()
    found = state(tmp_path)
    assert found.state is LibraryState.FILES_MISSING
    assert set(found.missing) == {
        "T_gfx906.dat", "T_gfx906.co", "T_CU60_gfx906.dat", "T_CU60_gfx906.co", "T_fallback_gfx906.hsaco",
        "Kernels.so-000-gfx906.hsaco",
    }  # fmt: skip
    assert state(tmp_path, "gfx900").state is LibraryState.COMPLETE


def test_one_code_file_cut_short(tmp_path: Path) -> None:
    """A copy that ended early: the file is named and the reason given."""
    folder = tmp_path / LAZY
    rocblas(folder)
    path = folder / "T_gfx906.co"
    path.write_bytes(path.read_bytes()[:-40])
    found = state(tmp_path)
    assert found.state is LibraryState.FILES_MISSING
    assert found.suspect == ("T_gfx906.co",)
    assert "T_gfx906.co: the table of its sections" in found.detail


def test_what_only_solutions_ask_for_is_found_when_read_closely(tmp_path: Path) -> None:
    """Solutions of compiled kernels need an .hsaco beside the .co; a cut file of solutions is damaged. Both are seen
    for the targets that are read closely."""
    folder = tmp_path / LAZY
    rocblas(folder)
    both = [{"sizeMapping": {"sourceKernel": source}} for source in (True, False)]
    (folder / "T_gfx906.dat").write_bytes(msgspec.msgpack.encode({"solutions": both}))
    assert state(tmp_path).state is LibraryState.COMPLETE
    assert state(tmp_path, closely=("gfx906",)).missing == ("T_gfx906.hsaco",)
    (folder / "T_gfx906.hsaco").write_bytes(make.code("gfx906", version=6, maker="LLD 21.1.8"))
    assert state(tmp_path, closely=("gfx906",)).state is LibraryState.COMPLETE
    (folder / "T_gfx906.dat").write_bytes(msgspec.msgpack.encode({"solutions": both})[:-2])
    cut = state(tmp_path, closely=("gfx906",))
    assert (cut.state, cut.suspect) == (LibraryState.FILES_MISSING, ("T_gfx906.dat",))
    assert "truncated" in cut.detail


def test_the_index_truncated(tmp_path: Path) -> None:
    """The index is there and cannot be read: its name, and where it ends."""
    folder = tmp_path / LAZY
    rocblas(folder)
    index = folder / "TensileLibrary_lazy_gfx906.dat"
    index.write_bytes(index.read_bytes()[:-20])
    found = state(tmp_path)
    assert found.state is LibraryState.INDEX_DAMAGED
    assert found.suspect == (index.name,)
    assert "truncated" in found.detail


def test_the_index_removed(tmp_path: Path) -> None:
    """Kernel files and nothing that leads to them: all of them are named."""
    rocblas(tmp_path / LAZY)
    (tmp_path / LAZY / "TensileLibrary_lazy_gfx906.dat").unlink()
    found = state(tmp_path)
    assert found.state is LibraryState.INDEX_MISSING
    assert len(found.suspect) == found.files == 6


def test_files_of_another_release_copied_in(tmp_path: Path) -> None:
    """All gfx906 files from an older release: mixed, by the linker and by the solutions' fields, files named."""
    other = tmp_path / "other"
    rocblas(other, ("gfx906",), new=False, maker="LLD 17.0.6")
    root = tmp_path / "root"
    rocblas(root / LAZY, ("gfx900", "gfx90a", "gfx1030"))
    for path in other.glob("*gfx906*"):
        (root / LAZY / path.name).write_bytes(path.read_bytes())
    found = state(root)
    assert found.state is LibraryState.MIXED
    assert set(found.suspect) == {
        "T_gfx906.co", "T_CU60_gfx906.co", "Kernels.so-000-gfx906.hsaco", "T_fallback_gfx906.hsaco", "T_gfx906.dat",
        "T_CU60_gfx906.dat",
    }  # fmt: skip
    assert "linked by LLD 17.0.6, where most of the folder has LLD 21.1.8" in found.detail
    assert "less: taskPredicate" in found.detail
    assert state(root, "gfx900").state is LibraryState.COMPLETE


def test_another_targets_index_under_this_name(tmp_path: Path) -> None:
    """A well-known trick: gfx900's files renamed. The index speaks of gfx900, the code is for gfx900."""
    folder = tmp_path / LAZY
    rocblas(folder, ("gfx900", "gfx90a", "gfx1030"))
    for path in list(folder.glob("*gfx900*")):
        (folder / path.name.replace("gfx900", "gfx906")).write_bytes(path.read_bytes())
    found = state(tmp_path)
    assert found.state is LibraryState.MIXED
    assert "TensileLibrary_lazy_gfx906.dat" in found.suspect
    assert "is written for gfx900" in found.detail
    assert "holds code for gfx900" in found.detail


def test_files_that_nothing_leads_to_are_told_and_harmless(tmp_path: Path) -> None:
    """A file of an older layout beside a whole set: still complete, with the loose file named."""
    rocblas(tmp_path / LAZY)
    (tmp_path / LAZY / "TensileLibrary_gfx906.co").write_bytes(make.code("gfx906", version=4, maker="LLD 21.1.8"))
    found = state(tmp_path)
    assert found.state is LibraryState.COMPLETE
    assert found.suspect == ("TensileLibrary_gfx906.co",)


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    """A symlink farm with a file removed behind it: missing, and the link is a problem of the folder."""
    rocblas(tmp_path / "pool")
    folder = tmp_path / LAZY
    folder.mkdir(parents=True)
    for path in (tmp_path / "pool").iterdir():
        (folder / path.name).symlink_to(Path("/pool") / path.name)
    assert state(tmp_path).state is LibraryState.COMPLETE
    (tmp_path / "pool/T_gfx906.co").unlink()
    assert state(tmp_path).missing == ("T_gfx906.co",)
    assert read(tmp_path).problems == (f"/{LAZY}/T_gfx906.co is a link that leads to no file",)


def test_fifos_and_folders_in_the_place_of_files(tmp_path: Path) -> None:
    """A FIFO is not opened; what it stands for is missing."""
    rocblas(tmp_path / LAZY)
    path = tmp_path / LAZY / "T_gfx906.co"
    path.unlink()
    os.mkfifo(path)
    assert state(tmp_path).missing == ("T_gfx906.co",)


def test_fallback_files_named_after_their_target(tmp_path: Path) -> None:
    """AMD's wheels name the fallback's index part per target; Debian's share one. Both are complete."""
    folder = tmp_path / LAZY
    rocblas(folder)
    name = "T_fallback_gfx900"
    (folder / "TensileLibrary_lazy_gfx900.dat").write_bytes(make.lazy_index("gfx900", ["T_gfx900"], [name]))
    (folder / f"{name}.dat").write_bytes(make.solutions(NEW))
    assert state(tmp_path, "gfx900").state is LibraryState.COMPLETE


def merged(folder: Path, rows: tuple[str, ...]) -> None:
    folder.mkdir(parents=True)
    listed = [
        {"predicate": {"type": "AMDGPU", "value": {"type": "Processor", "value": row}}, "library": {}} for row in rows
    ]
    listed.append({"predicate": {"type": "TruePred"}, "library": {"rows": []}})
    solutions = [{"name": "x" * 200, "index": i} for i in range(2000)]
    document = {"solutions": solutions, "library": {"type": "Hardware", "rows": listed}}
    (folder / "TensileLibrary.dat").write_bytes(msgspec.msgpack.encode(document))
    for target in rows:
        (folder / f"TensileLibrary_{target}.co").write_bytes(make.code(target, version=4))
    for target in (*rows, "gfx1010"):
        known = "gfx1030" if target == "gfx1010" else target
        (folder / f"Kernels.so-000-{target}.hsaco").write_bytes(make.code(known, version=4))


def test_the_merged_layout(tmp_path: Path) -> None:
    """One index for all: rows make complete, the row for all makes fallback only, a lost code file is named."""
    folder = tmp_path / "usr/lib/x86_64-linux-gnu/rocblas/2.47.0/library"
    merged(folder, ("gfx900", "gfx906"))
    (folder / "Kernels.so-000-gfx1010.hsaco").unlink()
    (folder / "Kernels.so-000-gfx1030.hsaco").write_bytes(make.code("gfx1030", version=4))
    found = read(tmp_path)
    assert found.layout == "merged"
    assert {t.target: t.state.value for t in found.targets} == {
        "gfx900": "complete", "gfx906": "complete", "gfx1030": "fallback only",
    }  # fmt: skip
    (folder / "TensileLibrary_gfx906.co").unlink()
    assert state(tmp_path).missing == ("TensileLibrary_gfx906.co",)
    index = folder / "TensileLibrary.dat"
    index.write_bytes(index.read_bytes()[:300_000])
    found2 = state(tmp_path)
    assert (found2.state, found2.suspect) == (LibraryState.INDEX_DAMAGED, ("TensileLibrary.dat",))
    assert "ends after 300000 bytes" in found2.detail


def test_hipblaslt(tmp_path: Path) -> None:
    """Its mapping names the prefixes; a target that it does not speak of is absent, which gfx906 is by design."""
    folder = tmp_path / "opt/rocm-7.0/lib/hipblaslt/library"
    folder.mkdir(parents=True)
    prefixes = [f"TensileLibrary_{kind}_{target}" for kind in ("HH", "SS") for target in ("gfx90a", "gfx1100")]
    (folder / "TensileLiteLibrary_lazy_Mapping.dat").write_bytes(msgspec.msgpack.encode(dict(enumerate(prefixes))))
    plain = make.bundle([("gfx90a", make.code("gfx90a"))])
    for prefix in prefixes:
        (folder / f"{prefix}.dat").write_bytes(b"\x80")
        (folder / f"{prefix}.co").write_bytes(make.compressed(plain, 2))
    found = read(tmp_path)
    assert (found.library, found.layout) == ("hipBLASLt", "lazy")
    assert {t.target: (t.state.value, t.own) for t in found.targets} == {
        "gfx90a": ("complete", 2),
        "gfx1100": ("complete", 2),
    }
    assert found.of("gfx906").state is LibraryState.ABSENT
    cut = folder / f"{prefixes[0]}.co"
    cut.write_bytes(cut.read_bytes()[:-1])
    assert state(tmp_path, "gfx90a").suspect == (cut.name,)


@pytest.mark.parametrize(
    "junk", [b"", b"\xc1", b"\x91" * 5000, b"\xdf\xff\xff\xff\xff", b"\x80", b"\x81\xa7library\x80"]
)
def test_hostile_indexes(tmp_path: Path, junk: bytes) -> None:
    """Nesting, counts of four thousand million, emptiness: damaged, in one sentence that names the index."""
    rocblas(tmp_path / LAZY)
    (tmp_path / LAZY / "TensileLibrary_lazy_gfx906.dat").write_bytes(junk)
    found = state(tmp_path)
    assert found.state is LibraryState.INDEX_DAMAGED
    assert found.detail.startswith("TensileLibrary_lazy_gfx906.dat")
    assert "\n" not in found.detail


def test_one_folder_under_several_names_is_one(tmp_path: Path) -> None:
    """/opt/rocm is a link to /opt/rocm-6.4: one folder, under the shorter name; a loop of links is none."""
    rocblas(tmp_path / "opt/rocm-6.4/lib/rocblas/library")
    (tmp_path / "opt/rocm").symlink_to("rocm-6.4")
    (tmp_path / "opt/rocm-loop").symlink_to("rocm-loop")
    assert collected.folders(FileTree(tmp_path)) == ("/opt/rocm/lib/rocblas/library",)


def test_folders_that_the_environment_names(tmp_path: Path) -> None:
    """ROCBLAS_TENSILE_LIBPATH may point at any folder that holds kernels; another kind of folder is left alone."""
    rocblas(tmp_path / "srv/kernels")
    (tmp_path / "srv/other").mkdir()
    assert collected.folders(FileTree(tmp_path), ("/srv/kernels", "/srv/other")) == ("/srv/kernels",)
