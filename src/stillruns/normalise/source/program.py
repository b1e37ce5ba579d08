"""The trees as one program: which files and functions hold or define a name. Files are lowered on demand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass, field

from stillruns.model.trace import Bridges, SourceFile
from stillruns.normalise.source import cfamily, go, lines, python
from stillruns.normalise.source.ir import Builder, FileFacts, Func

C_SUFFIXES = (".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".cu", ".cuh", ".m", ".mm")
BUILD_SUFFIXES = (".cmake", "CMakeLists.txt", ".sh", ".bash", "Dockerfile", ".dockerfile", ".service")
SUFFIXES = (".go", ".py", *C_SUFFIXES, *BUILD_SUFFIXES)
"""Names of files that are read at all; collect takes this list from here through lab."""

_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*\Z")


def domain_of(path: str) -> str:
    """go, python, c or build: the language family, in which a field's name means one thing."""
    if path.endswith(".go"):
        return "go"
    if path.endswith(".py"):
        return "python"
    return "c" if path.endswith(C_SUFFIXES) else "build"


@dataclass(slots=True)
class Unit:
    """A file of the program. `index` maps an identifier to the functions that contain it."""

    number: int
    file: SourceFile
    domain: str
    aside: bool
    facts: FileFacts | None = None
    index: dict[str, list[int]] = field(default_factory=dict)
    lambdas: dict[str, list[int]] = field(default_factory=dict)
    starts: list[int] = field(default_factory=list)

    @property
    def package(self) -> str:
        """The folder: Go's package, and the scope of a C file's static names."""
        return self.file.path.rpartition("/")[0]

    def code(self, line: int) -> str:
        """Line `line`, stripped, at most 160 characters."""
        data = self.file.data
        if not self.starts:
            self.starts = [0, *(m.end() for m in re.finditer(rb"\n", data))]
        if not 0 < line <= len(self.starts):
            return ""
        start = self.starts[line - 1]
        end = data.find(b"\n", start)
        text = data[start : end if end >= 0 else None].decode("utf-8", "replace").strip()
        return text if len(text) <= 160 else text[:159] + "…"


FuncId = tuple[int, int]
"""(unit number, index of the function in it)."""


class Program:
    """All units. `known` is the cache of lowered files by blob digest; new ones are put into it."""

    def __init__(self, files: Iterable[SourceFile], bridges: Bridges, known: MutableMapping[str, FileFacts]) -> None:
        self.bridges, self.known = bridges, known
        self.units: list[Unit] = []
        self._by_domain: dict[str, list[Unit]] = {}
        self.too_big: list[str] = []
        self.broken: set[str] = set()
        skip = [re.compile(p) for p in bridges.skip_paths]
        aside = [re.compile(p) for p in bridges.aside_paths]
        for item in files:
            if any(p.search(item.path) for p in skip):
                continue
            far = any(p.search(item.path) for p in aside)
            unit = Unit(len(self.units), item, domain_of(item.path), far)
            self.units.append(unit)
            self._by_domain.setdefault(unit.domain, []).append(unit)
        self._definitions: dict[tuple[str, str], list[FuncId]] = {}

    def facts(self, unit: Unit) -> FileFacts:
        """The lowered file; a file beyond the size limit is empty and listed in `too_big`."""
        if unit.facts is None:
            unit.facts = self._lower(unit)
            for number, function in enumerate(unit.facts.funcs):
                if function.parent >= 0 and function.name:
                    unit.lambdas.setdefault(function.name, []).append(number)
                for name in function.names:
                    unit.index.setdefault(name, []).append(number)
            if unit.facts.note:
                self.broken.add(f"{unit.file.project}:{unit.file.path}")
        return unit.facts

    def _lower(self, unit: Unit) -> FileFacts:
        data, path = unit.file.data, unit.file.path
        if len(data) > self.bridges.max_file_bytes or b"\0" in data[:4096]:
            self.too_big.append(f"{unit.file.project}:{path}")
            return FileFacts(unit.domain, [Builder("", "", 1, 1).done()], [])
        cached = self.known.get(unit.file.blob)
        if cached is not None and cached.language in (unit.domain, "cmake", "shell"):
            return cached
        if unit.domain == "go":
            facts = go.lower(data)
        elif unit.domain == "python":
            facts = python.lower(data)
        elif unit.domain == "c":
            facts = cfamily.lower(data, path)
        else:
            facts = lines.lower(data, path)
        self.known[unit.file.blob] = facts
        return facts

    def func(self, key: FuncId) -> Func:
        """The function by its key."""
        return self.facts(self.units[key[0]]).funcs[key[1]]

    def holding(self, name: str, domains: Iterable[str], aside: bool = False) -> Iterator[Unit]:
        """Units whose text contains the name (as a substring: cheap, checked by the caller)."""
        needle = name.encode()
        for domain in domains:
            for unit in self._by_domain.get(domain, ()):
                if needle in unit.file.data and (aside or not unit.aside):
                    yield unit

    def member_units(self, name: str, domain: str) -> list[Unit]:
        """Units where the name can be a member: in Go by its text (`.name`, `name:`), elsewhere every
        unit that holds it (a C++ method names its own members alone)."""
        held = self.holding(name, (domain,))
        if domain != "go":
            return list(held)
        member = re.compile(rb"\.%b\b|\b%b\s*:" % ((re.escape(name.encode()),) * 2))
        return [unit for unit in held if member.search(unit.file.data)]

    def inside(self, name: str, units: Iterable[Unit]) -> list[FuncId]:
        """Functions of these units that contain the identifier."""
        found: list[FuncId] = []
        for unit in units:
            self.facts(unit)
            found += [(unit.number, i) for i in unit.index.get(name, ())]
        return found

    def users(self, name: str, domains: Iterable[str]) -> list[FuncId]:
        """Functions that contain the identifier."""
        return self.inside(name, self.holding(name, domains))

    def definitions(self, name: str, domain: str) -> list[FuncId]:
        """Functions with this name in the language family, found by a textual prefilter and then by the parse."""
        key = (name, domain)
        if key not in self._definitions:
            self._definitions[key] = list(self._define(name, domain)) if _PLAIN_NAME.match(name) else []
        return self._definitions[key]

    def _define(self, name: str, domain: str) -> Iterator[FuncId]:
        for unit in self.holding(name + "(", (domain,)):
            if _may_define(unit.file.data, name.encode(), domain):
                facts = self.facts(unit)
                yield from ((unit.number, i) for i, f in enumerate(facts.funcs) if f.name == name)

    def at_lines(self, unit: Unit, needle: bytes) -> dict[int, list[int]]:
        """Functions (by index) that contain a literal text, with its lines; the innermost function of each place."""
        found: dict[int, list[int]] = {}
        facts = self.facts(unit)
        data, at, line, seen = unit.file.data, unit.file.data.find(needle), 1, 0
        while at >= 0:
            line += data.count(b"\n", seen, at)
            seen = at
            best = 0
            for number, function in enumerate(facts.funcs):
                if number and function.line <= line <= function.end and function.line >= facts.funcs[best].line:
                    best = number
            found.setdefault(best, []).append(line)
            at = data.find(needle, at + 1)
        return found

    def text_hits(self, word: str) -> list[tuple[Unit, int]]:
        """Every line with the whole word, in all units: what a person would have had to read."""
        needle, found = word.encode(), []
        for unit in self.units:
            data, line, seen, last = unit.file.data, 1, 0, 0
            at = data.find(needle)
            while at >= 0:
                if _whole(data, at, at + len(needle)):
                    line += data.count(b"\n", seen, at)
                    seen = at
                    if line != last:
                        found.append((unit, line))
                    last = line
                at = data.find(needle, at + len(needle))
        return found


def _whole(data: bytes, start: int, end: int) -> bool:
    """Is the text from start to end a word of its own? A dash belongs to a word (flags)."""
    before, after = data[start - 1 : start] if start else b"", data[end : end + 1]
    return not any(c.isalnum() or c in (b"_", b"-") for c in (before, after) if c)


def _may_define(data: bytes, name: bytes, domain: str) -> bool:
    """Does a line look like the head of a definition of `name`? Go and Python by their keyword, C by column 0."""
    at = data.find(name + b"(")
    while at >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        head = data[start:at]
        if domain == "go":
            likely = head.startswith(b"func ")
        elif domain == "python":
            likely = head.strip() in (b"def", b"async def")
        else:
            likely = (
                not head[:1].isspace() and head[:1] not in (b"#", b"/", b"*", b"}") and not set(head) & set(b";=({")
            )
        if likely and not (at and (data[at - 1 : at].isalnum() or data[at - 1 : at] == b"_")):
            return True
        at = data.find(name + b"(", at + 1)
    return False
