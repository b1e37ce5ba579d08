"""Recompute the computed tables of the catalogue of options from source checkouts.

    scripts/refresh_catalogue.py --llama-cpp DIR[@REV] --ollama DIR --clr DIR[@REV] --rocr DIR[@REV] [--check]

DIR is a git checkout (or bare repository); @REV is a tag or commit of it, and for a plain folder the name of the
release that it holds. Ollama's table covers every release tag; of ROCm/clr (the HIP runtime) and ROCm/ROCR-Runtime
the names of the environment variables are taken. Prints what changed, name by name, and writes the files; `--check`
writes nothing and exits 1 when something would change. A side that is not given keeps its rows.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stillruns.collect import releases, source_tree
from stillruns.model.installed import SourceRead
from stillruns.normalise import env_reads

DATA = Path(__file__).parent.parent / "src" / "stillruns" / "catalogue" / "data" / "options"
SUFFIXES = (".go", ".c", ".cc", ".cpp", ".h", ".hpp", ".cu", ".cuh", ".cmake", "CMakeLists.txt")
FLAG_COLUMNS = ["names", "negatives", "hint", "env", "programs", "repeat", "takes", "choices", "reader"]
READER_COLUMNS = ["name", "kind", "owner", "first", "last", "reader", "text"]
SEARCHED_COLUMNS = ["kind", "prefix", "owner", "first", "last", "releases", "source"]
LLAMA_OWNERS = frozenset({"llama.cpp", "ggml", "ggml-hip", "ggml-vulkan", "cmake", "make"})

Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class Side:
    """A repository of ROCm: who reads, by which expression, which families of names that settles."""

    owner: str
    project: str
    reads: re.Pattern[str]
    prefixes: tuple[str, ...]
    skipped: tuple[str, ...]


CLR = Side(
    "hip",
    "ROCm/clr",
    re.compile(r'\brelease\(\w+,\s*([A-Z][A-Z0-9_]+)\s*,|\bgetenv\("([A-Z][A-Z0-9_]+)"'),
    ("AMD_", "GPU_", "HIP_", "ROC_"),
    ("opencl/",),
)
"""`release(type, NAME, default, ...)` of rocclr/utils/flags.hpp; those with `debug(` are fixed in release builds."""
ROCR = Side(
    "rocr",
    "ROCm/ROCR-Runtime",
    re.compile(r'\b(?:getenv|GetEnvVar|IsEnvVarSet)\("((?:HSA|HSAKMT|ROCR)_[A-Z0-9_]+)"'),
    ("HSA_", "HSAKMT_", "ROCR_"),
    ("rocrtst/", "libhsakmt/tests/"),
)


def main() -> int:
    """Exit code: 0, or 1 when `--check` finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-cpp", metavar="DIR[@REV]")
    parser.add_argument("--ollama", metavar="DIR")
    parser.add_argument("--clr", metavar="DIR[@REV]")
    parser.add_argument("--rocr", metavar="DIR[@REV]")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if not any((options.llama_cpp, options.ollama, options.clr, options.rocr)):
        parser.error("give --llama-cpp, --ollama, --clr, --rocr, or several")
    readers, searched = load("readers.csv"), load("searched.csv")
    tables: dict[str, tuple[list[str], list[Row]]] = {}
    if options.llama_cpp:
        flags, found, ground = llama_cpp(*_rev(options.llama_cpp))
        tables["llama_flags.csv"] = (FLAG_COLUMNS, flags)
        readers = [row for row in readers if row["owner"] not in LLAMA_OWNERS] + found
        searched = [row for row in searched if row["owner"] not in LLAMA_OWNERS] + ground
    if options.ollama:
        found, ground = ollama(Path(options.ollama))
        readers = [row for row in readers if row["owner"] != "ollama"] + found
        searched = [row for row in searched if row["owner"] != "ollama"] + ground
    for given, side in ((options.clr, CLR), (options.rocr, ROCR)):
        if given:
            found, ground = rocm(*_rev(given), side)
            readers = [row for row in readers if row["owner"] != side.owner] + found
            searched = [row for row in searched if row["owner"] != side.owner] + ground
    order = sorted(readers, key=lambda row: (row["kind"], row["owner"], row["name"], row["reader"]))
    tables["readers.csv"] = (READER_COLUMNS, order)
    tables["searched.csv"] = (
        SEARCHED_COLUMNS,
        sorted(searched, key=lambda row: (row["owner"], row["kind"], row["prefix"])),
    )
    changed = [file for file, (columns, rows) in tables.items() if update(file, columns, rows, options.check)]
    print("nothing changed" if not changed else f"changed: {', '.join(changed)}")
    return 1 if changed and options.check else 0


def _rev(text: str) -> tuple[Path, str]:
    folder, _, rev = text.partition("@")
    return Path(folder), rev


def _files(folder: Path, rev: str, suffixes: tuple[str, ...]) -> list[tuple[str, bytes]]:
    return [(file.path, file.data) for file in source_tree.read(folder.name, folder, rev, suffixes).load()]


def load(file: str) -> list[Row]:
    """Rows of a table; empty when it does not exist yet."""
    path = DATA / file
    return list(csv.DictReader(io.StringIO(path.read_text()))) if path.exists() else []


def update(file: str, columns: list[str], rows: list[Row], check: bool) -> bool:
    """Write a table and print its differences by name; whether there were any."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    old = load(file)
    if [{key: row.get(key, "") for key in columns} for row in old] == rows:
        return False
    key = columns[0]
    before, after = _by_name(old, key), _by_name(rows, key)
    print(f"{file}: {len(old)} -> {len(rows)} rows")
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            print(f"  - {name}")
        elif name not in before:
            print(f"  + {name}  {after[name][0].get('reader', '')}")
        elif before[name] != after[name]:
            print(f"  ~ {name}: {_difference(before[name][0], after[name][0])}")
    if not check:
        (DATA / file).write_text(out.getvalue())
    return True


def _by_name(rows: Iterable[Row], key: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row[key], []).append(row)
    return found


def _difference(old: Row, new: Row) -> str:
    return (
        "; ".join(f"{key} {old.get(key, '')!r} -> {new[key]!r}" for key in new if old.get(key) != new[key]) or "rows"
    )


def llama_cpp(folder: Path, rev: str) -> tuple[list[Row], list[Row], list[Row]]:
    """(flags, readers, searched) of one llama.cpp release."""
    git = bool(releases.tags(folder))
    named = rev or "work tree"
    files = _files(folder, rev if git else "", SUFFIXES)
    texts = {
        name: data.decode("utf-8", "replace") for name, data in files if name.startswith(("tools/", "examples/"))
    }
    programs = _programs(texts)
    flags: list[Row] = []
    for name, data in files:
        if name in ("common/arg.cpp", "tools/llama-bench/llama-bench.cpp"):
            flags += _flag_rows(env_reads.table_flags(name, data.decode("utf-8", "replace")), programs, named)
    places = env_reads.reads(files, "llama.cpp", named)
    readers = _reader_rows((read for read in places if not read.path.startswith("vendor/")), named)
    for program, place in sorted(_targets(texts).items()):
        readers.append(_reader(program, "program", "llama.cpp", named, f"{place}@{named}", ""))
    ground = f"every {', '.join(SUFFIXES)} of ggml-org/llama.cpp@{named}"
    searched = [
        _ground(kind, prefix, owner, named, named, 1, ground)
        for kind, prefix, owner in (
            ("flag", "-", "llama.cpp"),
            ("env", "LLAMA_", "llama.cpp"),
            ("env", "GGML_", "ggml"),
            ("cmake", "", "cmake"),
        )
    ]
    return flags, readers, searched


def _targets(texts: dict[str, str]) -> dict[str, str]:
    """Program -> `tools/x/CMakeLists.txt:line`."""
    found: dict[str, str] = {}
    for name, text in texts.items():
        if name.endswith("CMakeLists.txt"):
            for number, row in enumerate(text.split("\n"), 1):
                target = re.match(r"\s*set\(TARGET ((?:llama|ggml)-[\w-]+?)\)", row)
                if target and not target.group(1).endswith("-impl"):
                    found[target.group(1)] = f"{name}:{number}"
    return found


def _programs(texts: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """LLAMA_EXAMPLE_* -> the programs that parse their arguments as it."""
    by_folder = {place.rsplit("/", 1)[0]: program for program, place in _targets(texts).items()}
    found: dict[str, set[str]] = {"LLAMA_BENCH": {"llama-bench"}}
    for name, text in texts.items():
        for match in re.finditer(r"common_params_parse\([^;]*?LLAMA_EXAMPLE_(\w+)", text):
            program = by_folder.get(name.rsplit("/", 1)[0])
            if program:
                found.setdefault(match.group(1), set()).add(program)
    found["MMPROJ"] = set().union(*(found.get(name, set()) for name in ("MTMD", "SERVER", "CLI", "TTS")))
    return {name: tuple(sorted(programs)) for name, programs in found.items()}


def _flag_rows(flags: Iterator[env_reads.TableFlag], programs: dict[str, tuple[str, ...]], rev: str) -> Iterator[Row]:
    everyone = {p for name, group in programs.items() if name not in ("LLAMA_BENCH", "DOWNLOAD") for p in group}
    for flag in flags:
        if flag.programs == ("LLAMA_BENCH",):
            takers = {"llama-bench"}
        elif not flag.programs or "COMMON" in flag.programs:
            takers = set(everyone)
        else:
            takers = {program for name in flag.programs for program in programs.get(name, ())}
        takers -= {program for name in flag.excluded for program in programs.get(name, ())}
        yield {
            "names": " ".join(flag.names),
            "negatives": " ".join(flag.negatives),
            "hint": flag.hint,
            "env": flag.env,
            "programs": "*" if takers == everyone else " ".join(sorted(takers)),
            "repeat": flag.repeat,
            "takes": flag.takes,
            "choices": "|".join(flag.choices),
            "reader": f"{flag.path}:{flag.line}@{rev}",
        }


def _owner(path: str) -> str:
    if path.endswith(("CMakeLists.txt", ".cmake")):
        return "cmake"
    for part, owner in (("ggml-cuda", "ggml-hip"), ("ggml-hip", "ggml-hip"), ("ggml-vulkan", "ggml-vulkan")):
        if f"/{part}/" in path:
            return owner
    return "ggml" if path.startswith("ggml/") else "llama.cpp"


def _reader_rows(reads: Iterable[SourceRead], rev: str) -> list[Row]:
    """The first place of each (name, kind, owner)."""
    kinds = {"env-read": "env", "cmake-option": "cmake", "cmake-gone": "cmake-gone"}
    found: dict[tuple[str, str, str], Row] = {}
    for read in reads:
        if read.kind not in kinds:
            continue
        owner = "cmake" if read.kind.startswith("cmake") else _owner(read.path)
        key = (read.names[0], kinds[read.kind], owner)
        if key not in found:
            found[key] = _reader(read.names[0], kinds[read.kind], owner, rev, read.place, read.text)
    return list(found.values())


def _reader(name: str, kind: str, owner: str, rev: str, reader: str, text: str, first: str = "") -> Row:
    return {
        "name": name,
        "kind": kind,
        "owner": owner,
        "first": first or rev,
        "last": rev,
        "reader": reader,
        "text": text[:120],
    }


def _ground(kind: str, prefix: str, owner: str, first: str, last: str, releases: int, source: str) -> Row:
    return {
        "kind": kind,
        "prefix": prefix,
        "owner": owner,
        "first": first,
        "last": last,
        "releases": str(releases),
        "source": source,
    }


def rocm(folder: Path, rev: str, side: Side) -> tuple[list[Row], list[Row]]:
    """(readers, searched) of one revision of a repository of ROCm."""
    git = (folder / ".git").exists() or (folder / "HEAD").exists()
    named = rev[:8] or "work tree"
    found: dict[str, Row] = {}
    for path, data in _files(folder, rev if git else "", (".c", ".cpp", ".h", ".hpp")):
        if path.startswith(side.skipped):
            continue
        for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
            for match in side.reads.finditer(line):
                name = next(group for group in match.groups() if group)
                row = _reader(name, "env", side.owner, named, f"{path}:{number}@{named}", line.strip(" \\"))
                found.setdefault(name, row)
    source = f"every .c, .cpp, .h and .hpp of {side.project}@{named}"
    ground = [_ground("env", prefix, side.owner, named, named, 1, source) for prefix in side.prefixes]
    return list(found.values()), ground


def ollama(folder: Path) -> tuple[list[Row], list[Row]]:
    """(readers, searched) over every release tag of Ollama: a name is there from the first to the last release whose
    Go, C or C++ sources mention it; the place is the line that reads it in the last of them."""
    tags = releases.tags(folder)
    published = [tag for tag in tags if re.fullmatch(r"v\d+\.\d+\.\d+", tag)]
    if tags and tags[-1] not in published:
        published.append(tags[-1])  # a release candidate newer than the last release
    if not published:
        raise SystemExit(f"{folder} has no release tags; give a git checkout of ollama/ollama with its tags")
    first: dict[str, str] = {}
    last: dict[str, str] = {}
    for tag in published:
        for name in releases.mentioned(folder, tag, r"\bOLLAMA_[A-Z0-9_]+", ("*.go", "*.c", "*.cpp", "*.h")):
            first.setdefault(name, tag)
            last[name] = tag
    rows: list[Row] = []
    for tag in sorted(set(last.values()), key=published.index):
        names = {name for name, end in last.items() if end == tag}
        files = _files(folder, tag, (".go",))
        places: dict[str, SourceRead] = {}
        for read in env_reads.reads(files, "ollama", tag):
            if read.kind == "env-read" and (read.names[0] in names or tag == published[-1]):
                places.setdefault(read.names[0], read)
        for name, read in places.items():
            rows.append(_reader(name, "env", "ollama", tag, read.place, read.text, first.get(name, "unknown")))
        for name in names - places.keys():
            rows.append(_reader(name, "mention", "ollama", tag, f"source@{tag}", "", first[name]))
    source = f"git grep over {len(published)} release tags of ollama/ollama ({published[0]} .. {published[-1]})"
    return rows, [_ground("env", "OLLAMA_", "ollama", published[0], published[-1], len(published), source)]


if __name__ == "__main__":
    sys.exit(main())
