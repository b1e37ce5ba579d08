"""The verdict on CMake options, make variables and program names."""

from __future__ import annotations

from stillruns.judge.recipe import values
from stillruns.judge.recipe.ground import Case, Ground, cite_reader, cite_row, cite_searched, cite_source
from stillruns.judge.recipe.made import near, verdict
from stillruns.model.lint import Citation, LintItem, Reading, ValueReading
from stillruns.model.option_row import OptionRow, Status

IGNORED = (
    "CMake ignores it with no error (`Manually-specified variables were not used`): without the new name the result "
    "is a CPU-only binary"
)


def option(case: Case, ground: Ground) -> LintItem | None:
    """`-DNAME=VALUE`, or `make NAME=VALUE`; None for options of projects that the catalogue does not know."""
    name = case.item.name
    if case.item.how == "make":
        return _make(case, ground)
    row = ground.options.find("cmake", name)
    reads = [read for read in ground.sources.get(name, ()) if read.kind.startswith("cmake")]
    live = [read for read in reads if read.kind == "cmake-option"]
    computed = ground.readers(name, "cmake")
    gone = ground.readers(name, "cmake-gone")
    if live or (row is None and computed):
        evidence = [cite_source(read) for read in live[:2]] + [cite_reader(found) for found in computed[:1]]
        return _fine(case, row, evidence, (live[0].text if live else computed[0].text))
    if row is not None:
        return _curated(case, ground, row, [cite_source(read) for read in reads[:2]])
    if gone:
        new = gone[0].text.rpartition(" ")[2].rstrip(")")
        return verdict(
            case,
            Reading.RENAMED,
            [cite_reader(gone[0])],
            why="CMake stops with an error" if "FATAL_ERROR" in gone[0].text else "CMake warns and maps it",
            use=new if new.startswith("GGML") else "",
        )
    if name.startswith(("GGML_", "LLAMA_")):
        return _unknown(case, ground)
    return None


def _fine(case: Case, row: OptionRow | None, evidence: list[Citation], declared: str = "") -> LintItem:
    if row is not None:
        evidence = [*evidence, cite_row(row)]
    return verdict(
        case,
        Reading.READ,
        evidence,
        why=row.notes if row else "",
        value=values.cmake(case.item.value, row, declared),
        reader=row.reader if row else evidence[0].place,
        effect=row.effect if row else evidence[0].text,
        default=row.default if row else "",
        since=row.since if row else "",
    )


def _curated(case: Case, ground: Ground, row: OptionRow, cited: list[Citation]) -> LintItem:
    evidence = [*cited, cite_row(row)]
    if row.status is Status.CURRENT:
        return _fine(case, None, evidence) if not row else _fine(case, row, cited)
    deprecated = row.status is Status.DEPRECATED
    stops = "stops" in row.notes or "FATAL_ERROR" in row.notes
    new = row.use
    return verdict(
        case,
        Reading.RENAMED if new.isidentifier() else Reading.REMOVED,
        evidence,
        why="CMake warns and maps it to the new name" if deprecated else ("CMake stops" if stops else IGNORED),
        value=(ValueReading.OK, "") if deprecated else (ValueReading.NO_EFFECT, ""),
        since=row.since,
        until=row.until,
        use=new,
    )


def _make(case: Case, ground: Ground) -> LintItem | None:
    row = ground.options.find("cmake", f"make {case.item.name}")
    if row is None and case.item.name.startswith(("LLAMA_", "GGML_")):
        row = ground.options.find("cmake", "make LLAMA_HIPBLAS")
    if row is None or _elsewhere(case):
        return None
    return verdict(
        case,
        Reading.REMOVED,
        [cite_row(row)],
        why="llama.cpp's Makefile only prints an error: the build is CMake's",
        value=(ValueReading.NO_EFFECT, ""),
        since=row.since,
        until=row.until,
        use=_cmake_for(ground, case),
    )


def _elsewhere(case: Case) -> bool:
    """Does `make` run in the folder of another project? The last `cd` before it says so, or that Go is built too:
    llama.cpp has none."""
    if any(command.program == "go" for command in case.recipe.commands):
        return True
    for command in reversed(case.recipe.commands[: case.item.command]):
        if command.program == "cd" and command.words:
            folder = command.words[0]
            last = folder.text.rstrip("/").rpartition("/")[2]
            named = not folder.dynamic and last.strip("~.-")
            return bool(named) and "llama.cpp" not in folder.text and "llama-cpp" not in folder.text
    return False


def _cmake_for(ground: Ground, case: Case) -> str:
    row = ground.options.find("cmake", case.item.name)
    new = row.use if row is not None and row.use.isidentifier() else case.item.name.replace("LLAMA_", "GGML_", 1)
    return f"cmake -B build -D{new}=ON && cmake --build build --config Release"


def _unknown(case: Case, ground: Ground) -> LintItem:
    known = [row.name for row in ground.options.rows if row.kind == "cmake"]
    known += [reader.name for reader in ground.options.readers if reader.kind == "cmake"]
    close = near(case.item.name, known)
    evidence = cite_searched(ground.searched("cmake", case.item.name))
    return verdict(
        case,
        Reading.NOT_FOUND,
        evidence,
        why="CMake ignores an option that no CMakeLists.txt names" + (f"; near: {', '.join(close)}" if close else ""),
        value=(ValueReading.NO_EFFECT, ""),
        use=close[0] if close else "",
    )


def program(case: Case, ground: Ground) -> LintItem | None:
    """A program's name: renamed, installed, or known to the newest release."""
    command = case.command
    assert command is not None
    row = ground.options.find("program", command.program)
    if row is not None and row.status is Status.RENAMED:
        return verdict(
            case,
            Reading.RENAMED,
            [cite_row(row)],
            why=row.notes,
            since=row.since,
            until=row.until,
            use=row.use,
            program=row.use,
        )
    engine = ground.installed.get(command.program)
    readers = ground.readers(command.program, "program")
    evidence = [cite_row(row)] if row is not None else [cite_reader(found) for found in readers[:1]]
    if engine is not None and engine.problem is None:
        said = Citation("file", engine.path, f"{engine.found_by}: {engine.version or 'no version text'}")
        return verdict(case, Reading.READ, [said, *evidence], reader=engine.path)
    if not evidence:
        return None
    missing = f"not judged against an installed one: {engine.problem.detail}" if engine and engine.problem else ""
    return verdict(case, Reading.READ, evidence, why=missing, reader=evidence[0].source or evidence[0].place)
