"""CMake, shell, Dockerfiles and unit files to the common form, by lines: enough for names that are set and read."""

from __future__ import annotations

import re

from stillruns.normalise.source.ir import Builder, Expr, FileFacts

_COMMAND = re.compile(r"^\s*([A-Za-z_]\w*)\s*\((.*)$")
_SETS = re.compile(
    r"^\s*(?:export\s+|ENV\s+|ARG\s+|local\s+|Environment=\"?|-\s+)?([A-Za-z_]\w*)(?:=|\s*:\s+|\s+(?=\S+$))(.*)$"
)
_USES = re.compile(r"\$(?:ENV)?\{?([A-Za-z_]\w*)")
_DEFINES = re.compile(r"-D\s*([A-Za-z_]\w*)(?::\w+)?(?:=(\"[^\"]*\"|'[^']*'|\S+))?")
_TESTS = {"if", "elseif", "while"}
_SETTERS = {"set", "option", "list", "string", "cmake_dependent_option", "set_property"}
_BUILDS = {
    "add_compile_definitions",
    "target_compile_definitions",
    "add_definitions",
    "set_target_properties",
    "target_compile_options",
    "add_compile_options",
}


def lower(data: bytes, name: str) -> FileFacts:
    """One file; CMake by its name, everything else as shell-like text."""
    cmake = name.endswith((".cmake", "CMakeLists.txt"))
    build = Builder("", "", 1, data.count(b"\n") + 1)
    facts = FileFacts("cmake" if cmake else "shell", [build.func], [])
    for at, raw in _logical(data.decode("utf-8", "replace"), cmake):
        (_cmake if cmake else _shell)(build, at, raw)
    build.done()
    return facts


def _logical(source: str, cmake: bool) -> list[tuple[int, str]]:
    """Lines with continuations joined (backslash, or an open bracket in CMake); comments dropped."""
    out: list[tuple[int, str]] = []
    held, start = "", 0
    for at, raw in enumerate(source.split("\n"), 1):
        body = re.sub(r"(^|\s)#.*$", "", raw) if "#" in raw else raw
        start = start or at
        held = f"{held} {body.strip()}" if held else body
        more = held.count("(") > held.count(")") if cmake else body.rstrip().endswith("\\")
        if more and at - start < 60:
            held = held.rstrip().rstrip("\\")
            continue
        if held.strip():
            out.append((start, held))
        held, start = "", 0
    if held.strip():
        out.append((start, held))
    return out


def _values(build: Builder, at: int, rest: str) -> list[Expr]:
    words = _USES.findall(rest)
    build.names.update(words)
    found: list[Expr] = [["id", at, w] for w in words]
    if not found:
        found = [["lit", at, rest.strip().strip(")").strip()[:60]]]
    return [["seq", at, found, "list"]]


def _cmake(build: Builder, at: int, raw: str) -> None:
    found = _COMMAND.match(raw)
    if not found:
        return
    command, rest = found.group(1).lower(), found.group(2).rstrip().removesuffix(")")
    words = re.findall(r"[A-Za-z_]\w*", rest)
    build.names.update(words)
    if command in ("endif", "endwhile"):
        above = build.func.stmts[build.ctrl].ctrl if build.ctrl >= 0 else -1
        build.ctrl = above
    elif command in ("elseif",) and build.ctrl >= 0:
        build.func.stmts[build.ctrl].values.append(["seq", at, [["id", at, w] for w in words], "list"])
    elif command in _TESTS:
        build.ctrl = build.add("branch", at, values=[["seq", at, [["id", at, w] for w in words], "list"]])
    elif command in _SETTERS and words:
        first = words[1] if command in ("list", "string") and len(words) > 1 else words[0]
        target: Expr = ["id", at, first]
        after = rest.split(first, 1)[-1]
        build.add("assign", at, [target], _values(build, at, after), command)
    elif command in _BUILDS:
        targets: list[Expr] = [["id", at, w] for w in words if w.isupper() or "_" in w]
        build.add("assign", at, targets, _values(build, at, rest), command)
    else:
        args: list[Expr] = [["id", at, w] for w in _USES.findall(rest)]
        build.add("expr", at, values=[["call", at, command, None, args]])


def _shell(build: Builder, at: int, raw: str) -> None:
    for name, value in _DEFINES.findall(raw):
        build.names.add(name)
        build.add("assign", at, [["id", at, name]], _values(build, at, value.strip("\"'")), "-D")
    found = _SETS.match(raw)
    if found and not raw.lstrip().startswith(("RUN", "FROM", "COPY", "CMD")):
        build.names.add(found.group(1))
        build.add("assign", at, [["id", at, found.group(1)]], _values(build, at, found.group(2)), "=")
    else:
        words = _USES.findall(raw)
        build.names.update(words)
        if words:
            build.add("expr", at, values=[["seq", at, [["id", at, w] for w in words], "list"]])
