"""Names that no literal holds: `getenv(("ENGINE_" + suffix).c_str())` reads ENGINE_LAYERS without naming it."""

from __future__ import annotations

from stillruns.normalise.source.ir import Expr, Stmt, walk
from stillruns.normalise.source.program import FuncId
from stillruns.normalise.source.state import State, Sym

_JOINERS = frozenset({"Sprintf", "format", "string_format", "append", "join", "replace", "insert", "Join", "Replace"})
_LEAST = 4


def built_names(state: State, option: str) -> tuple[str, ...]:
    """Where a name that starts like `option` is put together in a function that reads the environment or a table of
    such names. Records rows; returns one sentence for each, since whether this very name occurs is not decided."""
    if not option.isupper():
        return ()
    out: list[str] = []
    for key in sorted(_holders(state, option)):
        func, unit = state.program.func(key), state.program.units[key[0]]
        for stmt in func.stmts:
            for line, prefix in _prefixes(stmt, option):
                entry = Sym("literal", "", option)
                state.row(unit, func, line, "read", entry, f'built at run time: "{prefix}" and the rest')
                source, held = _counterpart(state, stmt, option, prefix)
                at = f"{unit.file.project}:{unit.file.path}:{line}"
                if source:
                    known = "which the source does hold" if held else "which no tree given holds, so nothing reads it"
                    out.append(
                        f"{option} is no literal; {at} makes such names of others: this one of {source}, {known}."
                    )
                    continue
                out.append(
                    f"{option} may be read at {at}, where a name is built from "
                    f'"{prefix}" at run time; whether "{option[len(prefix) :]}" can be the rest is not decided here.'
                )
    return tuple(dict.fromkeys(out))


def _holders(state: State, option: str) -> set[FuncId]:
    """Functions in files that read the environment and hold a literal which begins this name."""
    starts = [option[: n + 1] for n, letter in enumerate(option[:-1]) if letter == "_" and n + 1 >= _LEAST]
    found: set[FuncId] = set()
    for start in starts:
        for unit in state.program.holding(f'"{start}', ("go", "c", "python")):
            if any(name.encode() in unit.file.data for name in state.bridges.env_readers if "env" in name.lower()):
                found |= {(unit.number, i) for i in range(len(state.program.facts(unit).funcs))}
    return found


def _prefixes(stmt: Stmt, option: str) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for value in stmt.values:
        for part in walk(value):
            pieces: list[Expr] = []
            if part[0] == "bin" and part[2] in ("+", "%"):
                pieces = [part[3]]
            elif part[0] == "call" and part[2] in _JOINERS:
                pieces = part[4][:1]
            elif part[0] == "call" and "replace" in part[2]:
                pieces = part[4][-1:]
            for piece in pieces:
                text = str(piece[2]).split("%")[0].split("{")[0] if piece[0] == "lit" else ""
                if len(text) >= _LEAST and text.endswith("_") and option.startswith(text) and option != text:
                    found.append((piece[1], text))
    return found


def _counterpart(state: State, stmt: Stmt, option: str, prefix: str) -> tuple[str, bool]:
    """`replace(name, "A_", "A_NO_")` makes A_NO_X of A_X: (the other name, is it held); empty without."""
    for value in stmt.values:
        for part in walk(value):
            if part[0] == "call" and "replace" in part[2]:
                words = [str(a[2]) for a in part[4] if a[0] == "lit"]
                if len(words) == 2 and words[1] == prefix:
                    name = words[0] + option[len(prefix) :]
                    held = any(True for _ in state.program.holding(f'"{name}"', ("c", "go", "python")))
                    return name, held
    return "", False
