"""Debian's own ROCm packages: targets, kernel folders in every state, time and memory, on the real files.

Most of a gigabyte to fetch and eight of disk: only in `make test-real`. STILLRUNS_TEST_ROCM names a folder that
`scripts/fetch_rocm.sh` has filled (or shall fill); without it a temporary one is used.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from stillruns.collect import kernel_library as collected
from stillruns.collect.tree import FileTree
from stillruns.model.absence import Absence
from stillruns.model.code_object import CodeObjects
from stillruns.model.kernel_library import KernelLibrary, LibraryState
from stillruns.normalise import code_objects, kernel_library

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
TEN = ["gfx803", "gfx900", "gfx906", "gfx908", "gfx90a", "gfx1010", "gfx1030", "gfx1100", "gfx1101", "gfx1102"]
LIBRARIES = "usr/lib/x86_64-linux-gnu"
HOLDERS = ("libggml-hip", "librocblas", "libhipblaslt", "libamdhip64")
INDEX = "TensileLibrary_lazy_gfx906.dat"

SCAN_ALL = """
import sys, time
from pathlib import Path
from stillruns.collect import kernel_library as collected
from stillruns.collect.tree import FileTree
from stillruns.normalise import code_objects, kernel_library
tree = FileTree(Path(sys.argv[1]))
for path in sys.argv[2:]:
    with tree.ranges(path) as source:
        code_objects.read(source.read_at, source.size, path, source.ref)
for path in collected.folders(tree):
    with collected.opened(tree, path) as folder:
        kernel_library.read(folder, ("gfx906", "gfx900"))
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(time.process_time(), int(peak.split()[1]) / 1024)
"""


@pytest.fixture(scope="session")
def rocm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked packages; skips, saying so, where they cannot be had."""
    named = os.environ.get("STILLRUNS_TEST_ROCM")
    folder = Path(named) if named else tmp_path_factory.mktemp("rocm")
    if shutil.disk_usage(folder if folder.exists() else folder.parent).free < 12 << 30:
        pytest.skip("Debian's ROCm packages need 12 GB of disk")
    done = subprocess.run([ROOT / "scripts/fetch_rocm.sh", folder], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"Debian's ROCm packages cannot be had: {done.stderr.strip().splitlines()[-1:]}")
    return folder


def libraries(root: Path) -> list[str]:
    """The libraries that hold device code, as paths of that tree, each once under its own name."""
    folder = root / LIBRARIES
    found = [p for n in HOLDERS for p in (*folder.glob(f"{n}.so*"), *folder.glob(f"ggml/backends*/{n}.so*"))]
    return sorted(f"/{path.relative_to(root)}" for path in found if not path.is_symlink())


def code(root: Path, path: str) -> CodeObjects:
    with FileTree(root).ranges(path) as source:
        assert not isinstance(source, Absence), source
        found = code_objects.read(source.read_at, source.size, path, source.ref)
    assert isinstance(found, CodeObjects), found
    return found


def library(root: Path, name: str, closely: tuple[str, ...] = ()) -> KernelLibrary:
    tree = FileTree(root)
    for path in collected.folders(tree):
        with collected.opened(tree, path) as folder:
            assert not isinstance(folder, Absence)
            found = kernel_library.read(folder, closely)
        if found.library == name:
            return found
    raise AssertionError(f"no {name} below {root}")


@pytest.mark.parametrize(
    ("suite", "pattern", "bundles", "version"),
    [("sid", "libggml-hip.so", 140, 6), ("sid", "librocblas.so", 66, 6), ("trixie", "librocblas.so", 65, 4)],
)
def test_targets_equal_llvm_objdumps(
    rocm: Path, tmp_path: Path, suite: str, pattern: str, bundles: int, version: int
) -> None:
    """Ten targets in every bundle; the multiset equals what llvm-objdump --offloading extracts."""
    (path,) = (p for p in libraries(rocm / suite) if pattern in p)
    found = code(rocm / suite, path)
    assert [t.target for t in found.targets] == TEN
    assert (found.bundles, found.wrappers, found.problems) == (bundles, bundles, ())
    assert {t.code_object_version for t in found.targets} == {version}
    (tmp_path / "x").symlink_to((rocm / suite).resolve() / path.lstrip("/"))
    tool = rocm / "bin/llvm-objdump"
    done = subprocess.run([tool, "--offloading", "x"], cwd=tmp_path, capture_output=True, text=True, check=True)
    theirs = Counter(re.findall(r"^Extracting offload bundle: .*-(gfx[\w:+-]+)$", done.stdout, re.MULTILINE))
    assert theirs == {t.target: t.count for t in found.targets}


def test_gfx906_has_all_kernels_of_rocblas_and_none_of_hipblaslt(rocm: Path) -> None:
    """sid's rocBLAS: 38 own and 50 fallback groups; gfx1010 fallback only; hipBLASLt has nothing for gfx906."""
    found = library(rocm / "sid", "rocBLAS")
    assert (found.layout, found.problems) == ("lazy", ())
    assert [t.target for t in found.targets] == TEN
    assert {t.target for t in found.targets if t.state is LibraryState.COMPLETE} == set(TEN) - {"gfx1010"}
    assert (found.of("gfx906").own, found.of("gfx906").fallback) == (38, 50)
    assert found.of("gfx1010").state is LibraryState.FALLBACK_ONLY
    lt = library(rocm / "sid", "hipBLASLt")
    assert lt.of("gfx906").state is LibraryState.ABSENT
    assert {t.state for t in lt.targets} == {LibraryState.COMPLETE}


def test_the_merged_index_of_trixie(rocm: Path) -> None:
    """117 MB of index are walked past; nine targets have rows, gfx1010 falls back."""
    found = library(rocm / "trixie", "rocBLAS")
    assert found.layout == "merged"
    assert {t.target for t in found.targets if t.state is LibraryState.COMPLETE} == set(TEN) - {"gfx1010"}
    assert found.of("gfx1010").state is LibraryState.FALLBACK_ONLY


@pytest.fixture
def farm(rocm: Path, tmp_path: Path) -> Path:
    """sid's rocBLAS folder as hard links, or copies: a tree whose names may be spoiled."""
    (source,) = (rocm / "sid" / LIBRARIES / "rocblas").glob("*/library")
    folder = tmp_path / LIBRARIES / "rocblas/4.4.1/library"
    folder.mkdir(parents=True)
    for path in source.resolve().iterdir():
        try:
            os.link(path, folder / path.name)
        except OSError:  # another file system
            shutil.copyfile(path, folder / path.name)
    return folder


def root_of(farm: Path) -> Path:
    return farm.parents[5]


def test_three_kinds_of_damage_are_three_verdicts(rocm: Path, farm: Path) -> None:
    """gfx906's files removed, the index truncated, another release's files copied in: told apart, files named."""
    kept = {path.name: path for path in farm.glob("*gfx906*")}
    spare = farm.parents[1] / "spare"
    spare.mkdir()
    for name, path in kept.items():
        path.rename(spare / name)
    assert library(root_of(farm), "rocBLAS").of("gfx906").state is LibraryState.ABSENT
    (spare / INDEX).rename(farm / INDEX)
    removed = library(root_of(farm), "rocBLAS").of("gfx906")
    assert removed.state is LibraryState.FILES_MISSING
    compiled = {f"{name[:-3]}.hsaco" for name in kept if name.endswith(".co")}  # only solutions ask for these
    assert set(removed.missing) == set(kept) - {INDEX} - compiled
    for name in set(kept) - {INDEX}:
        (spare / name).rename(farm / name)
    lost = sorted(compiled & set(kept))
    for name in lost:
        (farm / name).rename(spare / name)
    assert set(library(root_of(farm), "rocBLAS", ("gfx906",)).of("gfx906").missing) == set(lost)
    for name in lost:
        (spare / name).rename(farm / name)
    assert library(root_of(farm), "rocBLAS", ("gfx906",)).of("gfx906").state is LibraryState.COMPLETE
    whole = (farm / INDEX).read_bytes()
    (farm / INDEX).unlink()  # a hard link: the original stays as it is
    (farm / INDEX).write_bytes(whole[:5000])
    cut = library(root_of(farm), "rocBLAS").of("gfx906")
    assert (cut.state, cut.suspect) == (LibraryState.INDEX_DAMAGED, (INDEX,))
    (farm / INDEX).write_bytes(whole)
    (other,) = (rocm / "trixie" / LIBRARIES / "rocblas").glob("*/library")
    copied = {path.name for path in other.glob("*gfx906*")}
    for name in copied:
        (farm / name).unlink(missing_ok=True)
        (farm / name).symlink_to("/other/" + name)
    (root_of(farm) / "other").mkdir()
    for name in copied:
        shutil.copyfile(other / name, root_of(farm) / "other" / name)
    mixed = library(root_of(farm), "rocBLAS").of("gfx906")
    assert mixed.state is LibraryState.MIXED
    assert set(mixed.suspect) == copied == {"Kernels.so-000-gfx906.hsaco", "TensileLibrary_gfx906.co"}
    assert "linked by Debian LLD 17.0.6" in mixed.detail


def test_everything_in_two_seconds_and_sixty_megabytes(rocm: Path) -> None:
    """All libraries and folders of sid and trixie, in a process of its own, with a warm cache. Processor time, the
    interpreter's start included, since other work on the machine is not our cost; the peak is that of the process
    itself (a child's ru_maxrss is at least what its parent had when it was started)."""
    for suite in ("sid", "trixie"):
        best = []
        for _ in range(3):
            argv = [sys.executable, "-c", SCAN_ALL, str(rocm / suite), *libraries(rocm / suite)]
            seconds, megabytes = map(float, subprocess.run(argv, capture_output=True, check=True).stdout.split())
            best.append(seconds)
            assert megabytes < 60
        assert min(best) < 2
