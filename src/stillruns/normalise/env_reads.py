"""Which environment variables, flags and CMake options a source tree really reads.

Line patterns over Go, C, C++, Python, CMake and shell; llama.cpp's table of arguments (`add_opt`) and llama-bench's
chain of comparisons are read as what they are. Nothing is inferred: a name that is put together at run time is not
found here (LLAMA_ARG_NO_* is such a family and has its own rule in the judge).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stillruns.model.installed import SourceRead

LARGEST = 8 << 20
"""Bytes: larger files are generated or data."""

_C = (".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".cu", ".cuh", ".m", ".mm", ".inc")
_ENV: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = (
    ((".go",), re.compile(r'os\.(?:Getenv|LookupEnv)\(\s*"(\w+)"')),
    (
        (".go",),
        re.compile(
            r'(?:(?<![\w.])|\benvconfig\.)(?:Var|String|Bool|BoolWithDefault|Uint|Uint64|StringWithDefault|Int)\(\s*"([A-Z]\w+)"'
        ),
    ),
    (_C, re.compile(r'\b(?:secure_)?getenv\w*\s*\(\s*"(\w+)"')),
    (_C, re.compile(r'\b(?:get_env|getenv_\w+|GetEnv\w*|env_or_default)\s*\(\s*"([A-Z]\w+)"')),
    (_C, re.compile(r'\bset_env\(\s*"(\w+)"')),
    ((".py",), re.compile(r"""os\.(?:environ(?:\.get\(|\[)|getenv\()\s*['"](\w+)['"]""")),
    ((".cmake", "CMakeLists.txt"), re.compile(r"\$ENV\{(\w+)\}")),
    ((".sh", ".bash"), re.compile(r"\$\{([A-Z][A-Z0-9_]+):?[-+?=]")),
)
_SET: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = (
    ((".go",), re.compile(r'os\.Setenv\(\s*"(\w+)"')),
    ((".go",), re.compile(r'\b(?:env|envs|extraEnvs|envVar|serverEnvs|envUpdates)\s*(?:\[|:?=)\s*"([A-Z]\w{4,})"')),
    (_C, re.compile(r'\bsetenv\s*\(\s*"(\w+)"')),
)
_CMAKE_OPTION = re.compile(r'^\s*(?:cmake_dependent_)?option\s*\(\s*(\w+)\s+"([^"]*)"\s*([^)\s]*)', re.I)
_CMAKE_CACHE = re.compile(r"^\s*set\s*\(\s*(\w+)\s+(\S+)\s+CACHE\b", re.I)
_CMAKE_GONE = re.compile(r"^\s*llama_option_depr\s*\(\s*(\w+)\s+(\w+)\s*(\w*)")
_COBRA = re.compile(r'Flags\(\)\.\w+\(\s*(?:&\w+,\s*)?"([\w-]+)"(?:\s*,\s*"(\w)"\s*,)?')
_ADD_OPT = re.compile(
    r"add_opt\(common_arg\(\s*\{([^}]*)\}\s*,\s*(?:\{([^}]*)\}\s*,\s*)?(\"(?:[^\"\\]|\\.)*\")?", re.S
)
_BENCH = re.compile(r'else if \(((?:arg == "-[^"]+"(?: \|\| )?)+)\)|if \(((?:arg == "-[^"]+"(?: \|\| )?)+)\)')
_QUOTED = re.compile(r'"([^"]+)"')
_APPENDS = re.compile(r"push_back|emplace|\.insert\(|parse_tensor_buffer_overrides")


@dataclass(frozen=True, slots=True)
class TableFlag:
    """A flag as its source declares it. `programs` are LLAMA_EXAMPLE_* names (empty: every program), `excluded` those
    that it is kept from; `repeat` is append, last, or switch."""

    names: tuple[str, ...]
    negatives: tuple[str, ...]
    hint: str
    env: str
    programs: tuple[str, ...]
    excluded: tuple[str, ...]
    repeat: str
    path: str
    line: int


def reads(files: Iterable[tuple[str, bytes]], project: str, rev: str) -> Iterator[SourceRead]:
    """Every place of every file; tests and vendored test data are left out, as no user runs them."""
    for path, data in files:
        if len(data) > LARGEST or skipped(path):
            continue
        text = data.decode("utf-8", "replace")
        for number, row in enumerate(text.split("\n"), 1):
            if len(row) < 2000:
                yield from _row(path, number, row, project, rev)
        for flag in table_flags(path, text):
            names = (*flag.names, *flag.negatives)
            at = text.split("\n", flag.line)[flag.line - 1].strip()
            yield SourceRead("flag", names, project, rev, path, flag.line, at[:160], flag.hint)


def skipped(path: str) -> bool:
    """Whether a file only tests or documents."""
    return path.endswith("_test.go") or "/tests/" in f"/{path}" or "/testdata/" in path


def _row(path: str, number: int, row: str, project: str, rev: str) -> Iterator[SourceRead]:
    text = row.strip()[:160]
    for kind, table in (("env-read", _ENV), ("env-set", _SET)):
        for ends, pattern in table:
            if path.endswith(ends):
                for found in pattern.finditer(row):
                    yield SourceRead(kind, (found.group(1),), project, rev, path, number, text)
    if path.endswith((".cmake", "CMakeLists.txt")):
        option = _CMAKE_OPTION.match(row)
        cached = _CMAKE_CACHE.match(row)
        gone = _CMAKE_GONE.match(row)
        if option:
            yield SourceRead("cmake-option", (option.group(1),), project, rev, path, number, text, option.group(3))
        elif cached:
            yield SourceRead("cmake-option", (cached.group(1),), project, rev, path, number, text, cached.group(2))
        elif gone:
            detail = f"{gone.group(1)} {gone.group(3)}".strip()
            yield SourceRead("cmake-gone", (gone.group(2),), project, rev, path, number, text, detail)
    if path.endswith(".go"):
        for found in _COBRA.finditer(row):
            names = (f"--{found.group(1)}", *((f"-{found.group(2)}",) if found.group(2) else ()))
            yield SourceRead("flag", names, project, rev, path, number, text)


def table_flags(path: str, text: str) -> Iterator[TableFlag]:
    """Flags of llama.cpp's argument table and of llama-bench."""
    if path.endswith("arg.cpp") or "add_opt(common_arg(" in text:
        yield from _add_opt(path, text)
    if path.endswith("llama-bench.cpp"):
        yield from _bench(path, text)


def _add_opt(path: str, text: str) -> Iterator[TableFlag]:
    heads = list(_ADD_OPT.finditer(text))
    line, counted = 1, 0
    for index, head in enumerate(heads):
        stop = heads[index + 1].start() if index + 1 < len(heads) else min(len(text), head.start() + 4000)
        block = text[head.start() : stop]
        if "set_preset_only" in block:
            continue
        names = tuple(_QUOTED.findall(head.group(1)))
        if not names or not all(name.startswith("-") for name in names):
            continue
        hint = (head.group(3) or "").strip('"')
        after = text[head.end() : head.end() + 1]
        takes = bool(re.search(r"\[[^\]]*\]\s*\(\s*common_params &\s*\w*\s*,\s*(?:const std::string|int)", block))
        env = re.search(r'set_env\(\s*"([^"]+)"', block)
        line += text.count("\n", counted, head.start())
        counted = head.start()
        repeat = "switch" if not takes else ("append" if _APPENDS.search(_handler(block)) else "last")
        yield TableFlag(
            names=names,
            negatives=tuple(_QUOTED.findall(head.group(2) or "")),
            hint=hint if takes and after else "",
            env=env.group(1) if env else "",
            programs=_examples(block, "set_examples"),
            excluded=_examples(block, "set_excludes"),
            repeat=repeat,
            path=path,
            line=line + text.count("\n", head.start(), head.start(1)),
        )


def _handler(block: str) -> str:
    """The body of the handler: from its capture list on."""
    at = block.find("[](")
    return block[at:] if at >= 0 else ""


def _examples(block: str, name: str) -> tuple[str, ...]:
    found = re.search(name + r"\(\s*\{([^}]*)\}", block)
    if found:
        return tuple(
            part.strip().removeprefix("LLAMA_EXAMPLE_") for part in found.group(1).split(",") if part.strip()
        )
    group = re.search(name + r"\(\s*(\w+_examples)\s*\)", block)
    return (group.group(1).removesuffix("_examples").upper(),) if group else ()


def _bench(path: str, text: str) -> Iterator[TableFlag]:
    heads = list(_BENCH.finditer(text))
    for index, head in enumerate(heads):
        names = tuple(_QUOTED.findall(head.group(1) or head.group(2)))
        stop = heads[index + 1].start() if index + 1 < len(heads) else min(len(text), head.end() + 600)
        block = text[head.end() : stop]
        takes = "++i" in block
        repeat = "switch" if not takes else ("append" if _APPENDS.search(block) else "last")
        line = text.count("\n", 0, head.start()) + 1
        yield TableFlag(names, (), "value" if takes else "", "", ("LLAMA_BENCH",), (), repeat, path, line)
