"""Which environment variables, flags and CMake options a source tree really reads.

Line patterns over Go, C, C++, Python, CMake and shell; llama.cpp's table of arguments (`add_opt`) and llama-bench's
chain of comparisons are read as what they are. Nothing is inferred: a name that is put together at run time is not
found here (LLAMA_ARG_NO_* is such a family and has its own rule in the judge).
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stillruns.model.installed import SourceRead
from stillruns.normalise import flag_values
from stillruns.normalise.program_help import REMOVED, replacement

LARGEST = 8 << 20
"""Bytes: larger files are generated or data."""

_C = (".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".cu", ".cuh", ".m", ".mm", ".inc")
SUFFIXES = (*_C, ".go", ".py", ".cmake", "CMakeLists.txt", ".sh", ".bash")
"""Files that are read at all."""

_Rule = tuple[str, tuple[str, ...], tuple[str, ...], re.Pattern[str]]
"""Kind, ends of file names, texts of which a file must hold one (for speed), pattern."""

_RULES: tuple[_Rule, ...] = (
    ("env-read", (".go",), ("Getenv", "LookupEnv"), re.compile(r'os\.(?:Getenv|LookupEnv)\(\s*"(\w+)"')),
    (
        "env-read",
        (".go",),
        ("envconfig",),
        re.compile(
            r"(?:(?<![\w.])|\benvconfig\.)"
            r'(?:Var|String|Bool|BoolWithDefault|Uint|Uint64|StringWithDefault|Int)\(\s*"([A-Z]\w+)"'
        ),
    ),
    ("env-read", _C, ("getenv",), re.compile(r'\b(?:secure_)?getenv\w*\s*\(\s*"(\w+)"')),
    (
        "env-read",
        _C,
        ("get_env", "GetEnv", "env_or"),
        re.compile(r'\b(?:get_env|GetEnv\w*|env_or_default)\s*\(\s*"([A-Z]\w+)"'),
    ),
    ("env-read", _C, ("set_env",), re.compile(r'\bset_env\(\s*"(\w+)"')),
    (
        "env-read",
        (".py",),
        ("environ", "getenv"),
        re.compile(r"""os\.(?:environ(?:\.get\(|\[)|getenv\()\s*['"](\w+)['"]"""),
    ),
    ("env-read", (".cmake", "CMakeLists.txt"), ("$ENV{",), re.compile(r"\$ENV\{(\w+)\}")),
    ("env-read", (".sh", ".bash"), ("${",), re.compile(r"\$\{([A-Z][A-Z0-9_]+):?[-+?=]")),
    ("env-set", (".go",), ("Setenv",), re.compile(r'os\.Setenv\(\s*"(\w+)"')),
    (
        "env-set",
        (".go",),
        ("env", "Env"),
        re.compile(r'\b(?:env|envs|extraEnvs|envVar|serverEnvs|envUpdates)\s*(?:\[|:?=)\s*"([A-Z]\w{4,})"'),
    ),
    ("env-set", _C, ("setenv",), re.compile(r'\bsetenv\s*\(\s*"(\w+)"')),
)
_CMAKE_OPTION = re.compile(r'^\s*(?:cmake_dependent_)?option\s*\(\s*(\w+)\s+"([^"]*)"\s*([^)\s]*)', re.I)
_CMAKE_CACHE = re.compile(r"^\s*set\s*\(\s*(\w+)\s+(\S+)\s+CACHE\b", re.I)
_CMAKE_GONE = re.compile(r"^\s*llama_option_depr\s*\(\s*(\w+)\s+(\w+)\s*(\w*)")
_COBRA = re.compile(r'Flags\(\)\.\w+\(\s*(?:&\w+,\s*)?"([\w-]+)"(?:\s*,\s*"(\w)"\s*,)?')
_ADD_OPT = re.compile(
    r"add_opt\(common_arg\(\s*\{([^}]*)\}\s*,\s*(?:\{([^}]*)\}\s*,\s*)?(\"(?:[^\"\\]|\\.)*\")?", re.S
)
_ADD_OPT_END = re.compile(r"\n {4}\).*\);")
_BENCH = re.compile(r'else if \(((?:arg == "-[^"]+"(?: \|\| )?)+)\)|if \(((?:arg == "-[^"]+"(?: \|\| )?)+)\)')
_QUOTED = re.compile(r'"([^"]+)"')
_APPENDS = re.compile(r"push_back|emplace|\.insert\(|parse_tensor_buffer_overrides")


@dataclass(frozen=True, slots=True)
class TableFlag:
    """A flag as its source declares it. `programs` are LLAMA_EXAMPLE_* names (empty: every program), `excluded` those
    that it is kept from; `repeat` is append, last, switch, or removed: still in the table, only to stop the program;
    its `hint` is the flag to use instead."""

    names: tuple[str, ...]
    negatives: tuple[str, ...]
    hint: str
    env: str
    programs: tuple[str, ...]
    excluded: tuple[str, ...]
    repeat: str
    path: str
    line: int
    takes: str = ""
    """What the handler makes of the text (normalise/flag_values.py)."""
    choices: tuple[str, ...] = ()


def reads(files: Iterable[tuple[str, bytes]], project: str, rev: str) -> Iterator[SourceRead]:
    """Every place of every file; tests and vendored test data are left out, as no user runs them."""
    for path, data in files:
        if len(data) > LARGEST or skipped(path):
            continue
        if not path.endswith(SUFFIXES):
            continue
        yield from _file(path, data.decode("utf-8", "replace"), project, rev)


def _file(path: str, text: str, project: str, rev: str) -> Iterator[SourceRead]:
    lines = _Lines(text)
    for kind, ends, hints, pattern in _RULES:
        if path.endswith(ends) and any(hint in text for hint in hints):
            for found in pattern.finditer(text):
                number = lines.number(found.start(1))
                yield SourceRead(kind, (found.group(1),), project, rev, path, number, lines.text(number))
    if path.endswith((".cmake", "CMakeLists.txt")):
        yield from _cmake(path, text, project, rev)
    if path.endswith(".go") and "Flags()" in text:
        for found in _COBRA.finditer(text):
            names = (f"--{found.group(1)}", *((f"-{found.group(2)}",) if found.group(2) else ()))
            number = lines.number(found.start())
            yield SourceRead("flag", names, project, rev, path, number, lines.text(number))
    for flag in table_flags(path, text):
        names = (*flag.names, *flag.negatives)
        yield SourceRead("flag", names, project, rev, path, flag.line, lines.text(flag.line), flag.hint)


class _Lines:
    """Offsets to line numbers of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts: list[int] = []

    def _all(self) -> list[int]:
        if not self._starts:
            self._starts = [0, *(found.end() for found in re.finditer("\n", self._text))]
        return self._starts

    def number(self, offset: int) -> int:
        """The line (from 1) of an offset."""
        return bisect.bisect_right(self._all(), offset)

    def text(self, number: int) -> str:
        """At most 160 characters of a line."""
        start = self._all()[number - 1]
        stop = self._text.find("\n", start)
        return self._text[start : stop if stop >= 0 else len(self._text)].strip()[:160]


def skipped(path: str) -> bool:
    """Whether a file only tests or documents."""
    return path.endswith("_test.go") or "/tests/" in f"/{path}" or "/testdata/" in path


def _cmake(path: str, text: str, project: str, rev: str) -> Iterator[SourceRead]:
    for number, row in enumerate(text.split("\n"), 1):
        option, cached, gone = _CMAKE_OPTION.match(row), _CMAKE_CACHE.match(row), _CMAKE_GONE.match(row)
        shown = row.strip()[:160]
        if option:
            yield SourceRead("cmake-option", (option.group(1),), project, rev, path, number, shown, option.group(3))
        elif cached:
            yield SourceRead("cmake-option", (cached.group(1),), project, rev, path, number, shown, cached.group(2))
        elif gone:
            detail = f"{gone.group(1)} {gone.group(3)}".strip()
            yield SourceRead("cmake-gone", (gone.group(2),), project, rev, path, number, shown, detail)


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
        ends = _ADD_OPT_END.search(text, head.end(), stop)
        block = text[head.start() : ends.end() if ends else stop]
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
        gone = REMOVED in block
        repeat = "switch" if not takes else ("append" if _APPENDS.search(_handler(block)) else "last")
        yield TableFlag(
            names=names,
            negatives=tuple(_QUOTED.findall(head.group(2) or "")),
            hint=replacement(block) if gone else (hint if takes and after else ""),
            env=env.group(1) if env else "",
            programs=_examples(block, "set_examples"),
            excluded=_examples(block, "set_excludes"),
            repeat="removed" if gone else repeat,
            path=path,
            line=line + text.count("\n", head.start(), head.start(1)),
            takes=flag_values.kind(_handler(block)) if takes and not gone else "",
            choices=flag_values.choices(_handler(block)) if takes and not gone else (),
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
        yield TableFlag(
            names, (), "value" if takes else "", "", ("LLAMA_BENCH",), (), repeat, path, line,
            takes=flag_values.kind(block) if takes else "",
            choices=flag_values.choices(re.sub(r"\+\+i >= argc[^}]*\}", "", block)) if takes else (),
        )  # fmt: skip
