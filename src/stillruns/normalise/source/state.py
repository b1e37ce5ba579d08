"""What the solver knows so far: symbols that carry the option, where each came from, and the rows."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass

from stillruns.model.trace import Bridges, TraceRow
from stillruns.normalise.source.ir import Expr, Func, walk
from stillruns.normalise.source.program import FuncId, Program, Unit

PRIORITY = (
    "field",
    "client",
    "flagdef",
    "read",
    "reflect",
    "decode",
    "compare",
    "decide",
    "flag",
    "cgo",
    "header",
    "default",
    "clip",
    "branch",
    "set",
    "control",
    "spawn",
    "macro",
    "param",
    "pass",
    "return",
    "assign",
    "iterate",
    "log",
    "mention",
)
"""When a line plays several parts, the first of these names its row."""
_RESERVED = 40
"""Rows kept free of the flow's, for decoding, whole-struct comparison and mentions."""
_RANK = {role: number for number, role in enumerate(PRIORITY)}


@dataclass(frozen=True, slots=True)
class Sym:
    """A carrier of the option. `kind`: field, local, ret, global, flag, literal; `scope`: language family,
    `unit.func` of a local, or package; `name` as in the source."""

    kind: str
    scope: str
    name: str


@dataclass(frozen=True, slots=True)
class Hit:
    """An expression's value comes from `sym`; `derived` when by arithmetic."""

    sym: Sym
    depth: int
    derived: bool
    clipped: bool = False


@dataclass(slots=True)
class Known:
    """A symbol's state: distance from the entry, whether derived, and its parent with the place of the hop."""

    depth: int
    derived: bool
    parent: Sym | None
    place: tuple[str, str, int] | None


class State:
    """Symbols, rows and the queue."""

    def __init__(self, program: Program, bridges: Bridges, option: str) -> None:
        self.program, self.bridges, self.option = program, bridges, option
        self.known: dict[Sym, Known] = {}
        self.queue: deque[Sym] = deque()
        self.rows: dict[tuple[str, str, int], TraceRow] = {}
        self.literals: dict[str, Sym] = {}
        self.spec_stops: frozenset[str] = frozenset()
        self._utility: dict[tuple[str, str], bool] = {}
        self.specials: dict[FuncId, dict[tuple[int, str], list[str]]] = {}
        self.conditional: set[Sym] = set()
        self.returning: set[str] = set()
        self.globals: dict[str, list[Sym]] = {}
        self.stops: dict[str, str] = {}
        self.owners: set[str] = set()
        self.writers: dict[FuncId, Hit] = {}
        self.aliases: set[str] = set()
        self.tagged = False
        self.hits = 0
        self.asides: dict[str, int] = {}
        self.entry = Sym("literal", "", option)
        self.full = False
        self._uses: dict[tuple[str, str], list[FuncId]] = {}

    def uses(self, name: str, scope: str) -> list[FuncId]:
        """Cached `Program.users` in one language family."""
        key = (name, scope)
        if key not in self._uses:
            self._uses[key] = self.program.users(name, (scope,))
        return self._uses[key]

    def members(self, field: Sym) -> list[FuncId]:
        """Functions that may use a field; in Go only those of files where the name stands as a member."""
        key = (f".{field.name}", field.scope)
        if key not in self._uses:
            units = self.program.member_units(field.name, field.scope)
            self._uses[key] = self.program.inside(field.name, units)
        return self._uses[key]

    def push(self, sym: Sym, hit: Hit | None, unit: Unit | None, line: int, cost: int = 1) -> bool:
        """Note that `sym` carries the option from here on. A hub (a name in too many functions) is noted and not
        followed; so is anything beyond the depth limit. True when something changed."""
        depth = (hit.depth if hit else 0) + cost if hit else 0
        derived = bool(hit and hit.derived)
        old = self.known.get(sym)
        if old is not None and sym in self.conditional and hit is not None:
            func = self.program.func(key_of(sym))
            if not self._from_parameter(sym, hit.sym, func):
                self.conditional.discard(sym)
                self.queue.append(sym)
                return True
        if old is not None and (not old.derived or derived):
            return False
        if depth > self.bridges.max_depth:
            return False
        if sym.kind == "field":
            if sym.name in self.bridges.stop_fields or derived:
                return False
            if depth > 0 and self._hub(sym, unit, line):
                return False
        elif sym.kind == "local" and sym.name in self.bridges.stop_locals:
            return False
        place = (unit.file.project, unit.file.path, line) if unit else None
        if sym.kind == "ret":
            func = self.program.func(key_of(sym))
            self.returning.add(func.name)
            if hit is not None and self._from_parameter(sym, hit.sym, func):
                self.conditional.add(sym)
        elif sym.kind == "global":
            self.globals.setdefault(sym.name, []).append(sym)
        self.known[sym] = Known(depth, derived, hit.sym if hit else None, place)
        self.queue.append(sym)
        return True

    def _hub(self, sym: Sym, unit: Unit | None, line: int) -> bool:
        if sym.name in self.spec_stops:
            why = "the spec of this option stops here"
        else:
            used, limit = "a member" if sym.scope == "go" else "named", self.bridges.hub_functions
            files = sum(1 for _ in self.program.member_units(sym.name, sym.scope))
            if files > 2 * limit:
                why = f"it is {used} in {files} files"
            else:
                keys = self.members(sym)
                count = sum(1 for k in keys if sym.scope != "go" or mentions_member(self.program.func(k), sym.name))
                if count <= limit:
                    return False
                why = f"it is {used} in {count} functions"
        at = f"{unit.file.project}:{unit.file.path}:{line}" if unit else ""
        self.stops.setdefault(f"{sym.scope}:{sym.name}", f"{sym.name} is not followed beyond {at}: {why}.")
        return True

    def utility(self, name: str, domain: str) -> bool:
        """A helper that many files call (`HumanBytes`): what one caller gives it says nothing about the others."""
        key = (name, domain)
        if key not in self._utility:
            files = sum(1 for _ in self.program.holding(name + "(", (domain,)))
            self._utility[key] = files > self.bridges.hub_functions // 4
        return self._utility[key]

    def row(
        self, unit: Unit, func: Func, line: int, role: str, hit: Hit | Sym | None, to: str = "", code: str = ""
    ) -> None:
        """Record a line; of several parts it keeps the first in PRIORITY and the smallest depth."""
        depth, derived, symbol = 0, False, ""
        if isinstance(hit, Hit):
            depth, derived, symbol = hit.depth, hit.derived, hit.sym.name
        elif isinstance(hit, Sym):
            known = self.known.get(hit)
            depth, derived, symbol = (known.depth, known.derived, hit.name) if known else (0, False, hit.name)
        key = (unit.file.project, unit.file.path, line)
        old = self.rows.get(key)
        room = self.bridges.max_rows - (0 if isinstance(hit, Sym) and hit == self.entry else _RESERVED)
        if old is None and len(self.rows) >= room:
            self.full = True
            return
        if old is not None and _RANK[old.role] <= _RANK[role]:
            if depth < old.depth:
                self.rows[key] = TraceRow(*key, old.role, old.function, old.symbol, old.to, depth, derived, old.code)
            return
        depth = min(depth, old.depth) if old else depth
        name = f"{func.owner}.{func.name}" if func.owner and func.name else func.name
        self.rows[key] = TraceRow(*key, role, name, symbol, to[:120], depth, derived, code or unit.code(line))

    def _from_parameter(self, sym: Sym, source: Sym, func: Func) -> bool:
        """Does a result carry the option only because an argument did? Then only calls that give it count."""
        return any(
            s.kind == "local" and s.scope == sym.scope and s.name in func.params for s, _ in self.chain(source)
        )

    def by_place(self) -> list[TraceRow]:
        """All rows in the order of the trees."""
        return sorted(self.rows.values(), key=lambda r: (r.project, r.path, r.line))

    def nearest_first(self) -> list[TraceRow]:
        """All rows, those that stand nearest to the option first."""
        return sorted(self.by_place(), key=lambda r: r.depth)

    def forget(self, unit: Unit, line: int, role: str) -> None:
        """Take back a row whose role turned out to be another."""
        key = (unit.file.project, unit.file.path, line)
        if key in self.rows and self.rows[key].role == role:
            del self.rows[key]

    def akin(self, sym: Sym, field: str) -> bool:
        """Does a member of a carrier still speak of the option? It does when it shares a word with the names that led
        there: `layers.Layers` does, `layers.DeviceID` does not."""
        if field in self.bridges.stop_fields:
            return False
        words = {w for s, _ in self.chain(sym) for w in _words(s.name)}
        return bool(words & set(_words(field)))

    def chain(self, sym: Sym) -> list[tuple[Sym, tuple[str, str, int] | None]]:
        """From the entry to `sym`, each with the place of the hop that reached it."""
        path, seen = [], set()
        at: Sym | None = sym
        while at is not None and at not in seen and at in self.known:
            seen.add(at)
            path.append((at, self.known[at].place))
            at = self.known[at].parent
        return path[::-1]


def mentions_member(func: Func, name: str) -> bool:
    """Does a function use the name as a member, and not only as a local of its own? `s.batchSize` and
    `{batchSize: n}` are the field; the fifty functions that call a local `batchSize` say nothing about it."""
    for stmt in func.stmts:
        for part in (p for e in (*stmt.targets, *stmt.values) for p in walk(e)):
            if part[0] == "sel" and part[3] == name:
                return True
            if part[0] == "kv" and any(item[0] == name for item in part[2]):
                return True
    return False


def local(key: FuncId, name: str) -> Sym:
    """The symbol of a local name of one function."""
    return Sym("local", f"{key[0]}.{key[1]}", name)


def result(key: FuncId, number: int) -> Sym:
    """The symbol of a function's n-th result."""
    return Sym("ret", f"{key[0]}.{key[1]}", str(number))


def key_of(sym: Sym) -> FuncId:
    """The function that a local or result symbol belongs to."""
    unit, _, func = sym.scope.partition(".")
    return int(unit), int(func)


_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def _words(name: str) -> list[str]:
    """`GPULayersList` -> gpu, layer, list: lower case, plural s dropped."""
    return [w.lower().removesuffix("s") for w in _WORD.findall(name) if len(w) > 2]


_FLAG = re.compile(r"--?[A-Za-z][\w-]*\Z")


def is_flag(expr: Expr) -> bool:
    """A literal that looks like `-ngl` or `--n-gpu-layers`."""
    return bool(expr[0] == "lit" and _FLAG.match(str(expr[2])))


def is_constant(expr: Expr) -> bool:
    """A literal, an enum-like NAME, or nil."""
    if expr[0] == "lit":
        return True
    if expr[0] == "seq" and expr[3] in ("-", "+", "!") and len(expr[2]) == 1:
        return is_constant(expr[2][0])
    return expr[0] == "id" and str(expr[2]).isupper()
