"""Special values: what a function does when the option is negative, zero, unset, `auto`, ..."""

from __future__ import annotations

from stillruns.normalise.source.bridging import Bridging
from stillruns.normalise.source.ir import Expr, Stmt, show, walk
from stillruns.normalise.source.state import Hit, is_constant, is_flag

_FLIP = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_TESTS = ("==", "!=", "<", ">", "<=", ">=", "is", "is not")
_REGIONS = {
    "< 0": {"negative"},
    "<= 0": {"negative", "0"},
    "> 0": {"positive"},
    ">= 0": {"0", "positive"},
    "== 0": {"0"},
    "!= 0": {"negative", "positive"},
    "> -1": {"0", "positive"},
    "!= -1": {"0", "positive", "below -1"},
    "== -1": {"negative"},
    "!= nil": {"set"},
    "== nil": {"unset"},
    "is not None": {"set"},
    "is None": {"unset"},
}
MAX_ACTIONS = 4


def specials(flow: Bridging) -> dict[tuple[int, str], list[str]]:
    """(line, test) -> what happens then, for every test of the option against a constant in this function."""
    tests: dict[int, list[str]] = {}
    for number, stmt in enumerate(flow.func.stmts):
        if stmt.kind == "branch" and stmt.op in ("", "case"):
            found = [t for value in stmt.values for t in _tests(flow, value)]
            if stmt.op == "case" and not found:
                found = _case(flow, stmt)
            if found:
                tests[number] = found
    out: dict[tuple[int, str], list[str]] = {}
    for number, found in tests.items():
        line = flow.func.stmts[number].line
        for test in found:
            out[(line, test)] = []
    for stmt in flow.func.stmts:
        done = _action(stmt)
        if not done or stmt.ctrl < 0:
            continue
        above = flow.func.stmts[stmt.ctrl]
        other = above.op == "else"
        number = above.ctrl if other else stmt.ctrl
        for test in tests.get(number, ())[:1]:
            held = out[(flow.func.stmts[number].line, test)]
            text = f"otherwise {done}" if other else done
            if len(held) < MAX_ACTIONS and text not in held:
                held.append(text)
    return out


def _tests(flow: Bridging, value: Expr) -> list[str]:
    found = []
    for part in walk(value):
        if part[0] == "bin" and part[2] in _TESTS:
            for side, other, turned in ((part[3], part[4], False), (part[4], part[3], True)):
                hit: Hit | None = flow.value(side)
                if hit is not None and not hit.derived and is_constant(other):
                    op = _FLIP.get(part[2], part[2]) if turned else part[2]
                    found.append(f"{op} {show(other, 20)}")
    return found


def _case(flow: Bridging, stmt: Stmt) -> list[str]:
    above = flow.func.stmts[stmt.ctrl] if stmt.ctrl >= 0 else None
    if above is None or above.kind != "branch" or not any(flow.value(v) for v in above.values):
        return []
    return [f"== {show(v, 20)}" for v in stmt.values if is_constant(v)]


def _action(stmt: Stmt) -> str:
    if stmt.kind == "assign" and stmt.targets and stmt.values:
        if any(is_flag(p) for v in stmt.values for p in walk(v)):
            return _flag_text(stmt)
        if stmt.targets[0][0] in ("sel", "id"):
            return (
                f"{show(stmt.targets[0], 40)} {stmt.op if stmt.op in ('+', '-') else ''}= {show(stmt.values[0], 40)}"
            )
    if stmt.kind == "return":
        if any(is_flag(p) for v in stmt.values for p in walk(v)):
            return _flag_text(stmt)
        return "return " + ", ".join(show(v, 40) for v in stmt.values)
    return ""


def _flag_text(stmt: Stmt) -> str:
    """`passes -ngl strconv.Itoa(...)`."""
    words: list[str] = []
    for value in stmt.values:
        for part in walk(value):
            args = part[4] if part[0] == "call" else part[2] if part[0] == "seq" else []
            for number, arg in enumerate(args):
                if is_flag(arg):
                    after = args[number + 1] if number + 1 < len(args) else None
                    words.append(
                        f"{arg[2]} {show(after, 30)}".strip() if after and not is_flag(after) else str(arg[2])
                    )
    return "passes " + ", ".join(dict.fromkeys(words))


def uncovered(tests: list[str]) -> list[str]:
    """Of negative, 0, positive (or set, unset): the regions that none of the tests admits; empty when undecided."""
    if not tests or any(t not in _REGIONS for t in tests):
        return []
    seen = set().union(*(_REGIONS[t] for t in tests))
    whole = {"set", "unset"} if seen & {"set", "unset"} else {"negative", "0", "positive"}
    return sorted(whole - seen)
