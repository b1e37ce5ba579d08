"""The promise of `trace`: an option is followed over every hard hop, and nothing else is.

The trees under tests/trees mark lines with `want OPTION` and `never OPTION`.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stillruns.catalogue.trace_specs import bridges
from stillruns.model.trace import SourceFile, SourceRef, Trace
from stillruns.normalise.source.ir import FileFacts
from stillruns.normalise.source.program import SUFFIXES
from stillruns.normalise.source.special import uncovered
from stillruns.normalise.source.tracing import trace

TREES = Path(__file__).parents[2] / "trees"
MARK = re.compile(r"\b(want|never) ((?:--?)?[A-Za-z_]\w*)")


def files(*names: str) -> list[SourceFile]:
    """The files of the named trees (all by default), one project a tree."""
    out = []
    for path in sorted(TREES.rglob("*")):
        project, _, inside = path.relative_to(TREES).as_posix().partition("/")
        if path.is_file() and inside.endswith(SUFFIXES) and (not names or project in names):
            data = path.read_bytes()
            out.append(SourceFile(project, inside, data, hashlib.sha1(data).hexdigest()))
    return out


def follow(option: str, given: list[SourceFile], known: dict[str, FileFacts] | None = None) -> Trace:
    """A trace without any spec."""
    names = sorted({f.project for f in given})
    refs = [SourceRef(n, "files", "sha256:0", "", 1, 1) for n in names]
    return trace(option, refs, given, bridges(), None, {} if known is None else known)


def marks(kind: str, option: str, given: list[SourceFile]) -> set[tuple[str, str, int]]:
    """Lines marked for an option."""
    return {
        (f.project, f.path, number)
        for f in given
        for number, line in enumerate(f.data.decode().split("\n"), 1)
        if (kind, option) in MARK.findall(line)
    }


def places(found: Trace) -> set[tuple[str, str, int]]:
    """Lines of a trace without those that merely mention the word."""
    return {(r.project, r.path, r.line) for r in found.rows if r.role != "mention"}


@pytest.mark.parametrize(
    "option",
    ["gpu_layers", "mapped", "SERVER_FLASH", "ENGINE_THREADS", "ENGINE_RUN_FAST", "DEVICE_TARGETS", "ENGINE_GPU"],
)
def test_every_hard_hop(option: str) -> None:
    """JSON tag, reflection, whole-struct comparison, argument slice, flag table, cgo, getenv (built names too),
    control dependence, CMake and macros: every wanted line is there, no forbidden one is."""
    given = files()
    found = places(follow(option, given))
    assert marks("want", option, given) - found == set()
    assert marks("never", option, given) & found == set()


def test_dropped_value_is_said() -> None:
    """A value for which no flag is written is named as such: that is what -1 means here."""
    stage = next(s for s in follow("gpu_layers", files()).stages if s.file == "run/start.go")
    assert "negative: no -gl is passed" in stage.special
    assert any(s.startswith("> 0: passes -gl") for s in stage.special)


def test_reuse_trap_is_said() -> None:
    """The whole-struct comparison with the overwritten value is reported as what the option is not."""
    found = follow("gpu_layers", files())
    assert any("keep what is loaded" in s.text and len(s.refs) == 3 for s in found.is_not)


def test_child_without_source_is_unknown() -> None:
    """Without the engine's tree the flag's meaning is unknown, and the sentence says what would decide it."""
    found = follow("gpu_layers", files("server", "client"))
    assert any("-gl is passed to another process" in u and "--source" in u for u in found.unknown)
    assert not any("-gl is passed" in u for u in follow("gpu_layers", files()).unknown)


def test_built_name_stays_undecided() -> None:
    """A variable whose name is put together at run time is found, and not claimed."""
    found = follow("ENGINE_RUN_FAST", files())
    assert any("not decided" in u for u in found.unknown)


def test_unknown_name() -> None:
    """A name that no tree has is found nowhere, with near spellings and what was searched."""
    found = follow("gpu_layer", files())
    assert not found.found
    assert "gpu_layers" in found.near
    assert found.searched
    assert follow("SERVER_FLUSH", files()).near[0] == "SERVER_FLASH"
    assert "--gpu-layers" in follow("--gpu-layer", files()).near


@pytest.mark.parametrize("option", [".*", "a(b", "[x", "-", "$(touch x)", '"', "\\", "num gpu"])
def test_hostile_names(option: str) -> None:
    """A name is a word, never a pattern: nothing is found and nothing breaks."""
    found = follow(option, files())
    assert not [r for r in found.rows if r.role not in ("mention",)] or option == "-"


def test_at_most_twenty_stages_and_all_rows_kept() -> None:
    """What is folded is still there: stages and folded rows together are all rows."""
    found = follow("gpu_layers", files())
    assert len(found.stages) <= 20
    shown = {(s.project, s.file, n) for s in found.stages for n in s.lines}
    folded = {(r.project, r.path, r.line) for r in found.folded}
    assert shown | folded == {(r.project, r.path, r.line) for r in found.rows}


def test_every_statement_has_a_place() -> None:
    """No claim without a place."""
    found = follow("gpu_layers", files())
    assert found.meaning.refs
    for statement in found.is_not:
        assert statement.refs


def test_cache_gives_the_same_answer() -> None:
    """A trace over lowered files from the cache equals the first one."""
    known: dict[str, FileFacts] = {}
    first = follow("gpu_layers", files(), known)
    assert known
    assert follow("gpu_layers", files(), known) == first


@pytest.mark.parametrize(
    ("tests", "left"),
    [
        (["> 0", "== 0"], ["negative"]),
        ([">= 0"], ["negative"]),
        (["!= nil"], ["unset"]),
        (["< 0", "> 0"], ["0"]),
        (["== auto"], []),
        ([], []),
    ],
)
def test_uncovered_values(tests: list[str], left: list[str]) -> None:
    """Which of negative, 0, positive no test admits; nothing is claimed for tests that are not understood."""
    assert uncovered(tests) == left


def broken(path: str, data: bytes) -> Trace:
    """One file besides the real ones."""
    return follow("gpu_layers", [*files(), SourceFile("odd", path, data, hashlib.sha1(data).hexdigest())])


def test_broken_source_is_read_around() -> None:
    """A file with broken syntax is noted; what can be read of it counts."""
    data = b"package x\nfunc f(o *Options) { if o.Layers < 0 { return \n}}}\nfunc ((\n"
    found = broken("x.go", data)
    assert ("odd", "x.go", 2) in places(found)
    assert any("syntax" in n for n in found.notes)


def test_giant_and_binary_files_are_named() -> None:
    """A generated giant and a binary with a source's name are left out by name, quickly."""
    huge = b"int gpu_layers[] = {" + b"1," * (2 << 20) + b"};"
    assert any("odd:x.c was not parsed" in n for n in broken("x.c", huge).notes)
    assert any("odd:y.c was not parsed" in n for n in broken("y.c", b"\0\1\2gpu_layers" * 10).notes)


def test_deep_nesting_does_not_overflow() -> None:
    """An expression nested a hundred thousand deep is cut off, not followed into the stack."""
    data = b"int f() { return gpu_layers + " + b"(" * 50_000 + b"1" + b")" * 50_000 + b"; }"
    broken("deep.cpp", data)
    broken("deep.py", b"gpu_layers = " + b"[" * 20_000)
    broken("deep.go", b"package x\nvar gpu_layers = " + b"(" * 20_000 + b"1")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(["a.go", "a.c", "a.cpp", "a.py", "CMakeLists.txt", "a.sh", "a.h"]),
    st.lists(
        st.sampled_from(
            [b"gpu_layers", b"\n", b"{", b"}", b"(", b")", b"if ", b"=", b'"', b"'", b"func f", b"\xff", b"->x", b";"]
        )
        | st.binary(max_size=4),
        max_size=40,
    ),
)
def test_hostile_bytes(path: str, parts: list[bytes]) -> None:
    """Any bytes under any source's name give an answer."""
    data = b"".join(parts)
    follow("gpu_layers", [SourceFile("odd", path, data, hashlib.sha1(data).hexdigest())])


LOCALS = "".join(f"func f{n}(x int) int {{\n\tbatchRoom := x\n\treturn batchRoom\n}}\n" for n in range(60))
ROOMS = """package run

type Options struct {
	NumRoom int `json:"num_room"`
}

type server struct {
	batchRoom int
	held *Cache
}

func newCache(room int) (*Cache, error) {
	if room < 4 {
		return nil, fmt.Errorf("too small")
	}
	return &Cache{}, nil
}

func (s *server) load(opts Options) {
	s.batchRoom = opts.NumRoom
}

func (s *server) start() {
	s.held, _ = newCache(s.batchRoom)
	params.n_room = C.int(s.batchRoom)
}

func (s *server) other() {
	if s.held != nil {
		s.held.Close()
	}
}
"""


def test_locals_of_the_same_name_make_no_hub() -> None:
    """A member is followed although sixty functions call a local of theirs the same; a guard that only refuses does
    not make what a function builds a carrier of the option."""
    given = [
        SourceFile("a", path, text.encode(), hashlib.sha1(text.encode()).hexdigest())
        for path, text in (("run/a.go", ROOMS), ("model/b.go", f"package model\n\n{LOCALS}"))
    ]
    found = follow("num_room", given)
    lines = {r.line for r in found.rows if r.path == "run/a.go"}
    wanted = {n for n, row in enumerate(ROOMS.split("\n"), 1) if "batchRoom" in row and "int" not in row}
    assert wanted <= lines
    assert any(r.role == "cgo" for r in found.rows)
    assert {r.path for r in found.rows} == {"run/a.go"}
    assert ROOMS.split("\n").index("\tif s.held != nil {") + 1 not in lines
    assert found.stops == ()
