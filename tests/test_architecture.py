"""The promise: the house keeps the shape that DESIGN's table gives it.

Who may import whom, how long a module and a function may be, no late imports of our own, no broad `except`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from stillruns.cli.group import VERBS

SRC = Path(__file__).parent.parent / "src" / "stillruns"
MODULES = sorted(SRC.rglob("*.py"))

ALLOWED: dict[str, set[str]] = {
    "model": set(),
    "errors": set(),
    "formats": set(),
    "redact": set(),
    "proc": set(),
    "catalogue": set(),
    "store": {"formats", "redact"},
    "collect": {"proc", "formats"},
    "normalise": {"formats", "redact"},
    "judge": {"formats", "redact"},
    "act": {"proc", "formats"},
    "report": {"store", "redact"},
    "lab": {"formats", "redact", "proc", "catalogue", "store", "collect", "normalise", "judge", "act"},
    "cli": {"lab", "report", "store"},
}
"""Part -> what it may import besides `model`, `errors` and itself (DESIGN, section 3)."""

INSIDE: dict[str, dict[str, set[str]]] = {
    "judge": {
        "versions": set(),
        "statistics": set(),
        "answers": set(),
        "trials": {"answers"},
        "cells": {"statistics"},
        "claims": {"cells", "statistics", "versions"},
        "incidents": {"trials", "versions"},
        "studies": {"cells", "statistics", "versions"},
        "gates": set(),
        "recipe": set(),
    },
    "lab": {
        "specs": set(),
        "runs": {"specs"},
        "machines": {"runs"},
        "autopsy": set(),
        "studies": {"runs", "autopsy"},
    },
}
"""Part -> its packages, and its modules that lie beside them -> which of these each may import besides itself, only
ones further up (docs/decisions/0001-layout.md)."""

ENTRIES: dict[str, str] = {
    "autopsy": "autopsy",
    "checking": "check",
    "claiming": "claims",
    "demo": "demo",
    "importing": "import",
    "linting": "lint",
    "once": "run",
    "packing": "snapshot",
    "planned": "run",
    "replaying": "replay",
    "running": "run",
    "selftest": "selftest",
    "showing": "show",
    "tracing": "trace",
    "workarounds": "workarounds",
}
"""Module in lab/ itself -> the verb whose job it does. Only these may import any package, and each other."""

LATE_IMPORT_OK = {"cli/__init__.py", "cli/group.py", "__main__.py"}
"""The CLI loads verbs by name; nothing else imports our own modules inside a function."""

BROAD_EXCEPT_OK = {
    "cli/group.py": "the CLI boundary",
    "lab/machines/probing.py": "around one probe",
    "lab/runs/reading.py": "around one parser: its traceback becomes evidence",
}

PURE = ("normalise", "judge", "formats", "redact", "model")
IMPURE_MODULES = {
    "os",
    "subprocess",
    "socket",
    "time",
    "random",
    "shutil",
    "tempfile",
    "urllib3",
    "signal",
    "threading",
}

MODULE_LINES = 400
FUNCTION_LINES = 60
FOLDER_MODULES = 20
"""How many modules a folder of a part in `INSIDE` may hold."""


def part_of(path: Path) -> str:
    """`src/stillruns/judge/statistics/exact.py` -> `judge`; top-level modules are their own part."""
    relative = path.relative_to(SRC)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imports(tree: ast.AST) -> list[tuple[ast.stmt, str]]:
    """Every import statement with the full dotted name that it imports from."""
    found: list[tuple[ast.stmt, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import at line {node.lineno}: write the whole name"
            names = [node.module or ""]
            if node.module == "stillruns":
                names = [f"stillruns.{alias.name}" for alias in node.names]
            found += [(node, name) for name in names]
    return found


def data_only(node: ast.stmt) -> bool:
    """An assignment of literals: data tables do not count towards a module's length."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
        return False
    return not any(isinstance(n, (ast.Call, ast.Lambda, ast.comprehension)) for n in ast.walk(node.value))


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SRC)))
def test_module(path: Path) -> None:
    """One module: imports by the table, budgets kept, no late import of our own, excepts named."""
    text = path.read_text()
    tree = ast.parse(text)
    name = str(path.relative_to(SRC))
    part = part_of(path)
    if part not in ("__init__", "__main__"):
        assert part in ALLOWED, f"{part} is not a part of the house (DESIGN, section 3)"
    top_level = set(map(id, tree.body))
    for node, target in imports(tree):
        if not target.startswith("stillruns."):
            if part in PURE:
                assert target.split(".")[0] not in IMPURE_MODULES, f"{name}:{node.lineno}: pure code imports {target}"
            continue
        goal = target.split(".")[1]
        guarded = any(
            isinstance(outer, ast.If) and node in outer.body for outer in tree.body
        )  # `if TYPE_CHECKING:` is no late import
        if name not in LATE_IMPORT_OK:
            assert id(node) in top_level or guarded, f"{name}:{node.lineno}: late import of {target}"
        if part not in ("__init__", "__main__"):
            allowed = ALLOWED[part] | {"model", "errors", part, "__version__"}
            assert goal in allowed, f"{name}:{node.lineno}: {part} must not import {goal}"
    tables = sum((n.end_lineno or n.lineno) - n.lineno + 1 for n in tree.body if data_only(n))
    length = text.count("\n") - tables
    assert length <= MODULE_LINES, f"{name} has {length} lines of code: find the noun that is missing"
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= FUNCTION_LINES, f"{name}:{node.lineno} {node.name} has {lines} lines"
        if isinstance(node, ast.ExceptHandler):
            broad = node.type is None or (
                isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")
            )
            assert not broad or name in BROAD_EXCEPT_OK, f"{name}:{node.lineno}: broad except"


@pytest.mark.parametrize("part", INSIDE)
def test_packages_of_a_part(part: str) -> None:
    """Inside a part the packages have an order, too: each imports only what stands before it in its table."""
    table, root = INSIDE[part], SRC / part
    names = list(table)
    for number, name in enumerate(names):
        assert table[name] <= set(names[:number]), f"the table of {part}: {name} may import what comes after it"
        assert (root / name / "__init__.py").exists() or (root / f"{name}.py").exists(), f"{part}/{name} is gone"
    for path in sorted(root.rglob("*.py")):
        name = str(path.relative_to(SRC))
        tree = ast.parse(path.read_text())
        if path.name == "__init__.py":
            assert len(tree.body) == 1, f"{name} holds more than its docstring: import from the modules themselves"
            count = len(list(path.parent.glob("*.py"))) - 1
            assert count <= FOLDER_MODULES, f"{name} stands for {count} modules: find the noun that is missing"
            continue
        own = path.relative_to(root).parts[0].removesuffix(".py")
        if part == "lab" and path.parent == root and own in ENTRIES and own not in table:
            continue
        assert own in table, f"{name} is in no package of {part}: add it to one (docs/decisions/0001-layout.md)"
        for node, goal in inside(tree, part):
            assert goal in table[own] | {own}, f"{name}:{node.lineno}: {part}/{own} must not import {part}/{goal}"


def test_each_verb_has_its_module() -> None:
    """Whoever looks for a verb's job finds one module in lab/ itself that names it."""
    assert set(ENTRIES) == {p.stem for p in (SRC / "lab").glob("*.py")} - {"__init__"}
    without = {"report": "lab/runs/judging.py judges stored runs again", "verify": "a job of the store alone"}
    assert set(ENTRIES.values()) | set(without) == set(VERBS)


def inside(tree: ast.AST, part: str) -> list[tuple[ast.stmt, str]]:
    """Every import from the same part, with the package or the module beside the packages that it imports from."""
    found: list[tuple[ast.stmt, str]] = []
    for node, target in imports(tree):
        names = target.split(".")
        if names[:2] != ["stillruns", part]:
            continue
        if len(names) > 2:
            found.append((node, names[2]))
        else:
            assert isinstance(node, ast.ImportFrom), f"line {node.lineno}: import {target}: write which module"
            found += [(node, alias.name) for alias in node.names]
    return found


@pytest.mark.parametrize(
    "path", [p for p in MODULES if p.name != "__main__.py"], ids=lambda p: str(p.relative_to(SRC))
)
def test_docstrings(path: Path) -> None:
    """Every module and every public class and function says what it is for."""
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), f"{path.name}: no module docstring"
    for node in outside_functions(tree):
        if not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{path.name}:{node.lineno}: {node.name} has no docstring"


def outside_functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    """Every function and class that stands in no function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node
        if not isinstance(node, (ast.FunctionDef, ast.expr)):
            yield from outside_functions(node)


def test_budget_allowances_are_used() -> None:
    """An allowance for a file that does not exist (or needs none) is removed, not kept for later."""
    for name in BROAD_EXCEPT_OK:
        path = SRC / name
        if path.exists():
            assert "except Exception" in path.read_text(), f"{name} needs no allowance any more"
