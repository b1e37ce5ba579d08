"""The promise: what a source tree would build is evaluated, and the line that decides is named."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import machines
from stillruns.catalogue.gate_tables import tables
from stillruns.collect import source_tree
from stillruns.model.gate import GateStatus, Layer
from stillruns.model.source_build import SourceBuild
from stillruns.model.trace import SourceFile
from stillruns.normalise import cmake, source_build
from stillruns.normalise.preprocess import evaluate, preprocess

CMAKE = """
# list(FILTER AMDGPU_TARGETS INCLUDE REGEX "^gfx900$")   a comment decides nothing
set(SKIP "^gfx(1200|1201)$" CACHE STRING "help with ) and ( in it")
if(CMAKE_HIP_COMPILER)
  if(NOT AMDGPU_TARGETS)
    find_package(hip REQUIRED)
    list(FILTER AMDGPU_TARGETS INCLUDE REGEX "^gfx(906|1030|120[01])$")
  endif()
  if(WIN32 AND SKIP)
    list(FILTER AMDGPU_TARGETS EXCLUDE REGEX ${SKIP})
  endif()
endif()
"""
PRESETS = """{"version": 3, "configurePresets": [
  {"name": "base", "hidden": true, "cacheVariables": {"CMAKE_HIP_PLATFORM": "amd"}},
  {"name": "GPU old", "inherits": ["base"], "cacheVariables": {"AMDGPU_TARGETS": "gfx900;gfx906:xnack-"}},
  {"name": "GPU new", "inherits": "base",
   "cacheVariables": {"AMDGPU_TARGETS": {"type": "STRING", "value": "gfx906:xnack-;gfx1030"}}},
  {"name": "GPU new static", "inherits": ["GPU new"]}]}"""
DOCKER = """FROM base
RUN cmake --preset 'GPU new static' && cmake --build .
RUN rm -f dist/lib/rocblas/library/*gfx90[06]*
"""
HIP_H = """
#if defined(__gfx900__) || defined(__gfx906__)
#define GCN5
#endif
#if defined(GCN5) \\
    || defined(__gfx803__)
#define GCN
#endif
#if defined(__gfx90a__)
#define CDNA
#endif
"""
COMMON = """
#if defined(GGML_USE_HIP) && defined(CDNA) && !defined(NO_MFMA)
#define AMD_MFMA_AVAILABLE
#endif
static constexpr __device__ int ggml_cuda_get_physical_warp_size() {
#if defined(GGML_USE_HIP) && (defined(__GFX9__) || defined(__GFX8__))
    return 64;
#else
    return 32;
#endif
}
static int ggml_cuda_dp4a(int a, int b, int c) {
#if defined(CDNA) || defined(__gfx906__)
    c = __builtin_amdgcn_sdot4(a, b, c, false);
#else
    asm("v_mul_i32_i24 ...");
#endif
"""
FILES = {
    "CMakeLists.txt": CMAKE, "CMakePresets.json": PRESETS, "Dockerfile": DOCKER,
    "ml/ggml-cuda/vendors/hip.h": HIP_H, "ml/ggml-cuda/common.cuh": COMMON,
    "ml/ggml-cuda/ggml-cuda.cu": 'int x;\nif (getenv("GGML_CUDA_INIT") != NULL) {\n',
    "ml/device.go": 'package ml\nenv["GGML_CUDA_INIT"] = "1"\n',
}  # fmt: skip


def build(**changes: str | None) -> SourceBuild:
    """The small tree, some files replaced or left out."""
    texts = {**FILES, **{name.replace("__", "/"): text for name, text in changes.items()}}
    files = [SourceFile("ollama", path, text.encode(), "") for path, text in texts.items() if text is not None]
    return source_build.read("ollama", "v1", files, tuple(tables().targets))


def test_default_filter_is_evaluated() -> None:
    """The list that a plain build on Linux keeps; the Windows filter does not run, the comment is none."""
    entry = next(e for e in build().lists if e.default_only)
    assert entry.targets == ("gfx906", "gfx1030", "gfx1200", "gfx1201")
    assert (entry.place.file, entry.place.line) == ("CMakeLists.txt", 7)


def test_a_filter_that_never_runs() -> None:
    """When the package sets the list before the condition asks for it, the filter is dead, and that is said."""
    early = CMAKE.replace("  if(NOT AMDGPU_TARGETS)", "  find_package(hip)\n  if(NOT AMDGPU_TARGETS)")
    files = [SourceFile("ollama", "CMakeLists.txt", early.encode(), "")]
    found = source_build.read("ollama", "", files, ("gfx900", "gfx906"))
    assert [(e.name, e.targets) for e in found.lists] == [
        ("default list (its filter never runs)", ("gfx900", "gfx906"))
    ]


def test_presets_follow_inheritance() -> None:
    """A release that configures an heir builds its parent's list."""
    lists = {e.name: e for e in build().lists}
    assert lists["preset GPU new"].builds_release and not lists["preset GPU old"].builds_release
    assert lists["preset GPU new"].targets == ("gfx906:xnack-", "gfx1030")
    assert lists["preset GPU new"].place.line == 5


def test_deletions_and_reads() -> None:
    """The recipe's rm, and a variable that one file sets and another reads, or none."""
    found = build()
    assert [(d.pattern, d.place.line) for d in found.deletions] == [("*gfx90[06]*", 3)]
    (entry,) = found.reads
    assert [p.line for p in entry.read_at] == [2] and [p.file for p in entry.set_at] == ["ml/device.go"]
    files = [SourceFile("o", "ml/device.go", FILES["ml/device.go"].encode(), "")]
    (entry,) = source_build.read("o", "", files, ()).reads
    assert entry.read_at == () and entry.set_at


def test_macros() -> None:
    """Each target's compile path, by its own macros."""
    facts = {
        t: {m.name: m.value for m in build().macros[t]} for t in ("gfx900", "gfx906", "gfx90a", "gfx803", "gfx1030")
    }
    assert facts["gfx900"]["dp4a"].startswith("emulated") and facts["gfx906"]["dp4a"].startswith("hardware")
    assert facts["gfx900"]["family"] == "GCN5" and facts["gfx803"]["family"] == "GCN"
    assert facts["gfx90a"]["matrix cores (MFMA)"] == "yes" and facts["gfx906"]["matrix cores (MFMA)"] == "no"
    assert [facts[t]["wave size"] for t in ("gfx900", "gfx803", "gfx1030")] == ["64", "64", "32"]


def test_the_gates_of_a_tree(tmp_path: Path) -> None:
    """gfx900 is dropped and its files deleted; gfx906 is built and its files deleted; gfx1030 is built."""
    machine = dataclasses.replace(machines.of(tmp_path), sources=(build(),))
    for target, status in (
        ("gfx900", GateStatus.BLOCK),
        ("gfx906", GateStatus.PARTIAL),
        ("gfx1030", GateStatus.ALLOW),
    ):
        gate = machines.gate(machines.judged(machine, target), Layer.BUILD_FILTER)
        assert gate.status is status
        assert ("Dockerfile:3" in gate.reason) == (target != "gfx1030")
    macros = machines.gate(machines.judged(machine, "gfx900"), Layer.SOURCE_MACROS)
    assert macros.status is GateStatus.PARTIAL and "common.cuh:16" in macros.reason and "is read at" in macros.reason


def test_files_decide_over_recipes(tmp_path: Path) -> None:
    """A target that the installed library holds is not stopped by what a release would have built."""
    machine = machines.with_runtime(machines.of(tmp_path), "gfx900")
    matrix = machines.judged(dataclasses.replace(machine, sources=(build(),)), "gfx900")
    assert machines.gate(matrix, Layer.BUILD_FILTER).status is GateStatus.BLOCK
    assert Layer.BUILD_FILTER not in machines.path(matrix, "rocm").stopped_by


@given(st.text(alphabet='()"[]=#\\\n ${}if else list FILTERNOT', max_size=300))
def test_hostile_cmake(text: str) -> None:
    """No text makes the evaluation raise or run on."""
    cmake.evaluate(text, {"A": "${A}"}, "AMDGPU_TARGETS", ("gfx906",))


@given(st.text(alphabet="#ifdefndelsmg()!&|<>=0x19 \\\n", max_size=300))
def test_hostile_headers(text: str) -> None:
    """The same for the preprocessor."""
    preprocess(text, {"a": "a", "b": "b + b"})
    evaluate(text, {"a": "(a)", "if": "((if))"})


def test_deep_conditions() -> None:
    """A thousand parentheses are no recursion without end."""
    evaluate("(" * 5000 + "1" + ")" * 5000, {})
    cmake.condition(tuple("(" * 5000), {})


@pytest.mark.real
def test_ollama_0_17_5(tmp_path: Path) -> None:
    """The real trees, where OLLAMA_SOURCE names a clone: gfx900's gates at v0.17.5, gfx906's at v0.30.0."""
    place = os.environ.get("OLLAMA_SOURCE", "")
    if not place or not source_tree.has(Path(place), "v0.17.5"):
        pytest.skip("set OLLAMA_SOURCE to a clone of Ollama that has v0.17.5 and v0.30.0")
    read = {}
    for rev in ("v0.17.5", "v0.30.0"):
        tree = source_tree.read("ollama", Path(place), rev, source_build.SUFFIXES)
        read[rev] = source_build.read("ollama", rev, tree.load(), tuple(tables().targets))
    machine = dataclasses.replace(machines.of(tmp_path), sources=(read["v0.17.5"],))
    gate = machines.gate(machines.judged(machine, "gfx900"), Layer.BUILD_FILTER)
    assert gate.status is GateStatus.BLOCK
    for place in ("CMakePresets.json:76", "CMakeLists.txt:127", "Dockerfile:97"):
        assert place in gate.reason
    reads = {rev: found.reads[0] for rev, found in read.items()}
    assert any(p.file.endswith("ggml-cuda.cu") and p.line == 271 for p in reads["v0.17.5"].read_at)
    assert reads["v0.30.0"].read_at == () and [p.line for p in reads["v0.30.0"].set_at] == [672]
    newer = dataclasses.replace(machines.of(tmp_path), sources=(read["v0.30.0"],))
    gate = machines.gate(machines.judged(newer, "gfx906"), Layer.BUILD_FILTER)
    assert gate.status is GateStatus.BLOCK
    for place in ("preset rocm_v7_2_linux (llama/server/CMakePresets.json:205)", "Dockerfile:135 deletes"):
        assert place in gate.reason
    assert machines.gate(machines.judged(newer, "gfx1030"), Layer.BUILD_FILTER).status is GateStatus.ALLOW
    pascal = machines.gate(machines.judged(newer, "sm_61"), Layer.BUILD_FILTER, "cuda")
    assert pascal.status is GateStatus.ALLOW and "llama_cuda_v12_linux" in pascal.reason


HIP_CMAKE = """
if(AMDGPU_TARGETS AND NOT GPU_TARGETS)
    set(GPU_TARGETS ${AMDGPU_TARGETS})
endif()
if(GPU_TARGETS AND NOT CMAKE_HIP_ARCHITECTURES)
    set(CMAKE_HIP_ARCHITECTURES ${GPU_TARGETS})
endif()
find_package(hip REQUIRED)
"""
CUDA_CMAKE = """
if (NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    if (GGML_NATIVE AND CUDAToolkit_VERSION VERSION_GREATER_EQUAL "11.6")
        set(CMAKE_CUDA_ARCHITECTURES "native")
    else()
        if (CUDAToolkit_VERSION VERSION_LESS "13")
            list(APPEND CMAKE_CUDA_ARCHITECTURES 61-virtual)
        endif()
        list(APPEND CMAKE_CUDA_ARCHITECTURES 80-virtual 86-real)
        if (CUDAToolkit_VERSION VERSION_GREATER_EQUAL "12.8")
            list(APPEND CMAKE_CUDA_ARCHITECTURES 120a-real)
        endif()
    endif()
endif()
"""
WORKFLOW = """name: release
jobs:
  windows-gpu:
    runs-on: windows-2022
    strategy:
      matrix:
        include:
          - targets: "gfx1033;gfx1153"
  linux-gpu:
    runs-on: ubuntu-24.04
    strategy:
      matrix:
        include:
          - targets: "gfx1030;gfx1100"
"""


def llama(tmp_path: Path, asked: str, path: str = "rocm", **files: str) -> tuple[GateStatus, str]:
    """The build filter of a small llama.cpp tree."""
    texts = {"ggml/src/ggml-hip/CMakeLists.txt": HIP_CMAKE, "ggml/src/ggml-cuda/CMakeLists.txt": CUDA_CMAKE}
    texts |= {name.replace("__", "/"): text for name, text in files.items()}
    listed = [SourceFile("llama.cpp", name, text.encode(), "") for name, text in texts.items()]
    found = source_build.read("llama.cpp", "", listed, tuple(tables().targets))
    machine = dataclasses.replace(machines.of(tmp_path), sources=(found,))
    gate = machines.gate(machines.judged(machine, asked), Layer.BUILD_FILTER, path)
    return gate.status, gate.reason


def test_a_job_for_windows_builds_nothing_for_linux(tmp_path: Path) -> None:
    """The release's list is the Linux job's; the job is named with its line."""
    files = {".github__workflows__release.yml": WORKFLOW}
    assert llama(tmp_path, "gfx1030", **files)[0] is GateStatus.ALLOW
    status, reason = llama(tmp_path, "gfx1153", **files)
    assert status is GateStatus.BLOCK and "job linux-gpu" in reason and "windows" not in reason
    assert "GPU_TARGETS names" in reason and "ggml-hip/CMakeLists.txt:6" in reason


def test_a_plain_build_takes_what_is_here(tmp_path: Path) -> None:
    """Without any list the machine's own GPUs are compiled for: no block."""
    status, reason = llama(tmp_path, "gfx906")
    assert status is GateStatus.PARTIAL and "GPUs of the machine" in reason


def test_cuda_defaults_go_by_the_toolkit(tmp_path: Path) -> None:
    """CUDA 12.9 keeps Pascal as PTX, 13 does not; sm_121 is not what 120a code was bound to, but PTX serves it."""
    docker = {".devops__cuda.Dockerfile": "RUN cmake -B build -DGGML_CUDA=ON\n"}
    status, reason = llama(tmp_path, "sm_61", "cuda", **docker)
    assert status is GateStatus.ALLOW and "CUDA 12.9" in reason and "ggml-cuda/CMakeLists.txt:7" in reason
    assert llama(tmp_path, "sm_50", "cuda", **docker)[0] is GateStatus.BLOCK
    assert llama(tmp_path, "sm_121", "cuda", **docker)[0] is GateStatus.ALLOW
    assert llama(tmp_path, "sm_61", "cuda")[0] is GateStatus.PARTIAL  # no recipe of a release


@pytest.mark.parametrize(
    ("words", "truth"),
    [
        ("12.9 VERSION_LESS 13", True), ("13.0 VERSION_LESS 13", False), ("12.10 VERSION_GREATER 12.9", True),
        ("12.8 VERSION_GREATER_EQUAL 12.8.0", True), ("5 LESS 7", True), ("a STREQUAL a", True), ("a LESS 7", False),
        ("3.31 VERSION_LESS_EQUAL 3.31", True),
    ],
)  # fmt: skip
def test_cmake_comparisons(words: str, truth: bool) -> None:
    """Versions are compared part by part, as numbers."""
    assert cmake.condition(tuple(words.split()), {}) is truth


@pytest.mark.real
def test_llama_cpp_tree(tmp_path: Path) -> None:
    """The real tree, where LLAMA_CPP_SOURCE names one of b11434's age: its Linux lists, and the plain build's."""
    place = os.environ.get("LLAMA_CPP_SOURCE", "")
    if not place or not Path(place).is_dir():
        pytest.skip("set LLAMA_CPP_SOURCE to a source tree of llama.cpp")
    tree = source_tree.read("llama.cpp", Path(place), "", source_build.SUFFIXES)
    found = source_build.read("llama.cpp", "", tree.load(), tuple(tables().targets))
    names = [entry.name for entry in found.lists if entry.backend == "rocm"]
    assert any("rocm.Dockerfile" in name for name in names) and any("job ubuntu" in name for name in names)
    assert not any("windows" in name for name in names) and "default of a plain build" in names
    machine = dataclasses.replace(machines.of(tmp_path), sources=(found,))
    gate = machines.gate(machines.judged(machine, "gfx906"), Layer.BUILD_FILTER)
    assert gate.status is GateStatus.BLOCK and "GPU_TARGETS" in gate.reason
