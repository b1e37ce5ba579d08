"""One function at a time: assignments, calls, branches and returns move the option from symbol to symbol."""

from __future__ import annotations

from stillruns.normalise.source.bridging import Bridging
from stillruns.normalise.source.ir import Expr, Stmt, walk
from stillruns.normalise.source.program import FuncId
from stillruns.normalise.source.special import specials
from stillruns.normalise.source.state import (
    Hit,
    State,
    Sym,
    is_constant,
    is_flag,
    local,
    result,
)
from stillruns.normalise.source.values import COMPARES

_NEAR = 25
"""Lines between a branch and what it is said to steer: a branch around half a function says nothing."""
_QUIET = frozenset({"error", "bool", "void", "_Bool"})


class Flow(Bridging):
    """Processes a function's statements once; the solver repeats it while symbols are added."""

    def __init__(self, state: State, key: FuncId) -> None:
        super().__init__(state, key)
        self.conditions: dict[int, Hit | None] = {}
        self.guard: Hit | None = None

    def process(self) -> None:
        """All statements, then what the function gives back."""
        for number, stmt in enumerate(self.func.stmts):
            if stmt.kind in ("branch", "range"):
                self.conditions[number] = self._condition(stmt)
            for expr in (*stmt.values, *stmt.targets):
                self.parts(expr, stmt)
            if stmt.kind == "assign":
                self.assign(stmt)
            elif stmt.kind == "branch":
                self.branch(stmt, self.conditions[number], number)
            elif stmt.kind == "range":
                self.iterate(stmt)
            elif stmt.kind == "return":
                self.returns(stmt)
        found_specials = specials(self)
        if found_specials:
            self.state.specials[self.key] = found_specials
        for number, name in enumerate(self.func.named):
            found = self._hit(local(self.key, name))
            if found is not None and not found.derived:
                self.state.push(result(self.key, number), found, self.unit, self.func.line)

    def _condition(self, stmt: Stmt) -> Hit | None:
        hits = [h for h in map(self.anywhere, stmt.values) if h is not None]
        return min(hits, key=lambda h: (h.derived, h.depth)) if hits else None

    def control(self, stmt: Stmt) -> Hit | None:
        """The nearest branch around the statement that the option itself decides."""
        at = stmt.ctrl
        while at >= 0:
            found = self.conditions.get(at)
            if found is not None and not found.derived and self.func.stmts[at].kind == "branch":
                return found
            at = self.func.stmts[at].ctrl
        return None

    def parts(self, expr: Expr, stmt: Stmt) -> None:
        """Every subexpression, but nothing inside a call that only tells somebody."""
        told: set[int] = set()
        for part in walk(expr):
            if id(part) in told:
                continue
            if part[0] == "call" and self.is_log(part[2], part[3]):
                told |= {id(inner) for arg in part[4] for inner in walk(arg) if inner[0] in ("call", "bin")}
            self.part(part, stmt)

    def part(self, part: Expr, stmt: Stmt) -> None:
        """One subexpression: calls, keyed elements, comparisons spread over several lines."""
        if part[0] == "call":
            self.call(part, stmt)
        elif part[0] == "kv":
            for key, line, value in part[2]:
                self.keyed(str(key), int(line), value)
        elif part[0] == "seq" and any(is_flag(p) for p in part[2]):
            self.arguments(part[2], stmt, part[1])
        elif part[0] == "bin" and part[2] == ">>" and self.domain == "c" and part[4][0] in ("id", "sel"):
            found = self.value(part[3])  # a stream gives its content to what stands on the right
            if found is not None and part[3][0] == "id":
                self.into(part[4], found, part[1])
        elif part[0] == "bin" and part[2] in COMPARES:
            for side in (part[3], part[4]):
                found = self.value(side)
                if found is not None:
                    line = side[1] if part[2] not in ("&&", "||") else part[1]
                    self.state.row(self.unit, self.func, line, "branch", found, self.text(part))

    def keyed(self, key: str, line: int, value: Expr) -> None:
        """`NumGPU: x` in a composite literal, `.n_gpu_layers = x`, `options=x`."""
        found = self.value(value)
        sym = Sym("field", self.domain, key)
        if found is not None:
            self.state.row(self.unit, self.func, line, "clip" if found.clipped else "assign", found, key)
            if not found.derived and key.isidentifier():
                self.state.push(sym, found, self.unit, line)
        elif sym in self.state.known and is_constant(value):
            role = "default" if "efault" in self.func.name or self.func.name == "" else "set"
            self.state.row(self.unit, self.func, line, role, sym, f"{key} = {self.text(value)}")

    def assign(self, stmt: Stmt) -> None:
        """Values to targets, pairwise, or the results of one call to several targets."""
        if len(stmt.values) == 1 and len(stmt.targets) > 1 and stmt.values[0][0] == "call":
            call = stmt.values[0]
            for target_func in self.resolve(call[2], call[3]) if call[2] in self.state.returning else ():
                for number, target in enumerate(stmt.targets):
                    found = self.result(target_func, number, call[4])
                    if found is not None:
                        self.move(stmt, target, found)
            return
        for number, target in enumerate(stmt.targets):
            if not stmt.values:
                continue
            value = stmt.values[min(number, len(stmt.values) - 1)]
            found = self.value(value)
            if found is not None:
                self.move(stmt, target, found)
            else:
                self.constant(stmt, target, value)

    def move(self, stmt: Stmt, target: Expr, found: Hit) -> None:
        """`target = value` where the value carries the option."""
        role = "clip" if found.clipped else "assign"
        self.state.forget(self.unit, stmt.line, "set")  # seen before the value was known to carry the option
        self.state.row(self.unit, self.func, stmt.line, role, found, self.text(target))
        self.into(target, found, stmt.line)

    def into(self, target: Expr, found: Hit, line: int) -> None:
        """Mark what is assigned to."""
        if target[0] == "id":
            outside = not self.func.name and self.func.parent < 0
            if outside:
                scope = self.unit.package if self.domain == "go" else self.domain
                self.state.push(Sym("global", scope, target[2]), found, self.unit, line)
            else:
                self.state.push(local(self.holder(target[2]), target[2]), found, self.unit, line)
        elif target[0] == "sel":
            if not found.derived and not self.other_owner(target):
                self.to_field(target[3], found, line)
        elif target[0] == "seq" and target[2]:
            self.into(target[2][0], found, line)

    def holder(self, name: str) -> FuncId:
        """The function whose local `name` is: this one, or the one around a lambda that captures it."""
        key, func = self.key, self.func
        while func.parent >= 0 and name not in func.params:
            own = any(s.op == "var" and any(t[2] == name for t in s.targets if t[0] == "id") for s in func.stmts)
            if own:
                break
            parent = (key[0], func.parent)
            outer = self.state.program.func(parent)
            if not any(t[0] == "id" and t[2] == name for s in outer.stmts for t in s.targets):
                break
            key, func = parent, outer
        return key

    def to_field(self, name: str, found: Hit, line: int) -> None:
        """A field in this language; in Go, a snake_case member that no Go struct declares belongs to C (cgo)."""
        cgo = self.domain == "go" and "_" in name and name == name.lower()
        if cgo:
            sym = Sym("field", "c", name)
            self.state.row(self.unit, self.func, line, "cgo", found, name)
            self.state.push(sym, found, self.unit, line)
        else:
            self.state.push(Sym("field", self.domain, name), found, self.unit, line)

    def constant(self, stmt: Stmt, target: Expr, value: Expr) -> None:
        """A constant written over the option, or written elsewhere because of the option (control dependence)."""
        if target[0] == "sel":
            sym = Sym("field", self.domain, target[3])
            known = self.state.known.get(sym)
            if known is not None and not self.other_owner(target):
                self.state.row(
                    self.unit, self.func, stmt.line, "set", sym, f"{self.text(target)} = {self.text(value)}"
                )
                return
            by = self.control(stmt)
            near = stmt.line - self.func.stmts[stmt.ctrl].line <= _NEAR if stmt.ctrl >= 0 else False
            if by is not None and near and by.depth <= 2 and (is_constant(value) or value[0] in ("id", "seq")):
                self.state.row(
                    self.unit, self.func, stmt.line, "control", by, f"{self.text(target)} = {self.text(value)}"
                )
                if not self.other_owner(target) and by.depth == 0:
                    self.state.push(Sym("field", self.domain, target[3]), by, self.unit, stmt.line, 2)
        elif target[0] == "id":
            found = self.lookup(target[2])
            if found is not None and self.domain == "build":
                role = "default" if "option" in stmt.op else "set"
                self.state.row(self.unit, self.func, stmt.line, role, found, f"{target[2]} = {self.text(value)}")
            elif found is not None and not found.derived and stmt.op not in ("var", ":") and stmt.ctrl >= 0:
                self.state.row(self.unit, self.func, stmt.line, "set", found, f"{target[2]} = {self.text(value)}")
            elif self.domain == "build":
                self.build_control(stmt, target)

    def build_control(self, stmt: Stmt, target: Expr) -> None:
        """CMake: a variable or macro set under `if (OPTION)`."""
        by = self.control(stmt)
        if by is not None and by.depth <= 2:
            self.state.row(self.unit, self.func, stmt.line, "control", by, f"{target[2]} ({stmt.op})")
            if stmt.op.endswith("definitions"):
                self.state.push(Sym("global", "c", target[2]), by, self.unit, stmt.line)
            self.state.push(Sym("global", "build", target[2]), by, self.unit, stmt.line)

    def branch(self, stmt: Stmt, found: Hit | None, number: int) -> None:
        """A condition that the option decides; a parameter that steers its function carries to the results."""
        if found is None:
            return
        role = "macro" if stmt.op == "#if" else "branch"
        shown = " ".join(self.text(v) for v in stmt.values)
        lines = {part[1] for v in stmt.values for part in self.carriers(v) if self.value(part)}
        for line in sorted(lines) or [stmt.line]:
            self.state.row(self.unit, self.func, line, role, found, shown)
        if found.derived or found.sym.kind != "local" or found.sym.name not in self.func.params:
            return
        if found.sym.scope == f"{self.key[0]}.{self.key[1]}" and self.domain == "go" and not self.refuses(number):
            loud = [n for n, kind in enumerate(self.func.results) if kind not in _QUIET]
            for each in loud if len(loud) == 1 else ():
                self.state.push(result(self.key, each), found, self.unit, stmt.line)

    def refuses(self, number: int) -> bool:
        """A branch under which nothing happens but `return nil, fmt.Errorf(...)`: it decides whether there is a
        result, and what the result is then says nothing about the option."""
        under = [s for s in self.func.stmts if s.ctrl == number]
        return bool(under) and all(s.kind == "return" and self.fails(s) for s in under)

    def fails(self, stmt: Stmt) -> bool:
        """A return that gives an error other than nil."""
        kinds = self.func.results
        errors = [v for v, kind in zip(stmt.values, kinds, strict=False) if kind == "error"]
        return any(not (v[0] in ("lit", "id") and v[2] == "nil") for v in errors)

    def iterate(self, stmt: Stmt) -> None:
        """`for i, x := range option`: the element carries it, the index does not."""
        found = self.first(stmt.values)
        if found is None:
            return
        self.state.row(self.unit, self.func, stmt.line, "iterate", found, ", ".join(map(self.text, stmt.targets)))
        targets = stmt.targets[1:] if self.domain == "go" else stmt.targets
        for target in targets:
            self.into(target, found, stmt.line)

    def returns(self, stmt: Stmt) -> None:
        """A returned carrier; in a lambda, also a constant returned because of one."""
        for number, value in enumerate(stmt.values):
            found = self.value(value)
            if found is not None:
                self.state.row(self.unit, self.func, stmt.line, "return", found, f"{self.func.name}#{number}")
                if not found.derived:
                    self.state.push(result(self.key, number), found, self.unit, stmt.line)
            elif is_constant(value) or self.named_constant(value):
                self.returned_constant(stmt, number)

    def named_constant(self, value: Expr) -> bool:
        """`ml.FlashAttentionEnabled`: a constant of a package or an enum, and in a lambda whatever it gives back."""
        if self.func.parent >= 0 and self.func.name:
            return True
        return value[0] == "sel" and value[2][0] == "id" and str(value[3])[:1].isupper()

    def returned_constant(self, stmt: Stmt, number: int) -> None:
        """One constant or another is returned because of the option: the result carries it (control dependence)."""
        by = self.control(stmt)
        if by is None or not self.func.name or (by.depth > 2 and self.func.parent < 0):
            return
        kinds = self.func.results
        if (number < len(kinds) and kinds[number] == "error") or self.fails(stmt):
            return
        if self.func.parent < 0 and self.state.utility(self.func.name, self.domain):
            return
        self.state.row(self.unit, self.func, stmt.line, "return", by, f"{self.func.name}#{number}")
        if self.domain == "go":
            self.state.push(result(self.key, number), by, self.unit, stmt.line, 2)
