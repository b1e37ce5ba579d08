"""Does an expression's value come from the option? The rules of one expression, all languages alike."""

from __future__ import annotations

from stillruns.normalise.source.ir import Expr, Func
from stillruns.normalise.source.program import FuncId, Unit
from stillruns.normalise.source.state import Hit, State, Sym, is_flag, local, result

COMPARES = frozenset(
    {"==", "!=", "<", ">", "<=", ">=", "&&", "||", "is", "in", "not in", "is not", "and", "or", "<=>"}
)
SIMPLE = frozenset({"|", "&", "<<", ">>", ",", "or"})
_FEW = 4
"""A method name with more definitions than this says nothing about its receiver's type."""


class Values:
    """Evaluates expressions of one function against the state."""

    def __init__(self, state: State, key: FuncId) -> None:
        self.state, self.key = state, key
        self.unit: Unit = state.program.units[key[0]]
        self.func: Func = state.program.func(key)
        self.domain = self.unit.domain

    def lookup(self, name: str) -> Hit | None:
        """A plain name: a local of this function or of one around it, a package's global, a macro."""
        state, key, func = self.state, self.key, self.func
        while True:
            found = self._hit(local(key, name))
            if found is not None:
                return found
            if func.parent < 0 or name in func.params:
                break
            key = (key[0], func.parent)
            func = state.program.func(key)
        return self._hit(Sym("global", self.unit.package if self.domain == "go" else self.domain, name))

    def _hit(self, sym: Sym) -> Hit | None:
        known = self.state.known.get(sym)
        return Hit(sym, known.depth, known.derived) if known is not None else None

    def value(self, expr: Expr) -> Hit | None:
        """The hit behind the expression's value, or None. Comparisons have no value here: they are branches."""
        op = expr[0]
        if op == "id":
            return self.lookup(expr[2])
        if op == "sel":
            return self._select(expr)
        if op == "call":
            return self._call(expr)
        if op == "bin":
            if expr[2] in COMPARES and not (expr[2] == "or" and self.domain == "python"):
                return None
            found = self.first((expr[3], expr[4]))
            if found is None or expr[2] in SIMPLE:
                return found
            return Hit(found.sym, found.depth, True, found.clipped)
        if op == "seq":
            return self._sequence(expr)
        if op == "kv" and self.domain != "go":
            return self.first([item[2] for item in expr[2]]) if expr[3] == "dict" else None
        return None

    def first(self, parts: list[Expr] | tuple[Expr, ...]) -> Hit | None:
        """The best hit of several: direct before derived, near before far."""
        hits = [h for h in map(self.value, parts) if h is not None]
        return min(hits, key=lambda h: (h.derived, h.depth)) if hits else None

    def _select(self, expr: Expr) -> Hit | None:
        name = expr[3]
        found = self._hit(Sym("field", self.domain, name))
        if found is not None and not self.other_owner(expr):
            return found
        if expr[2][0] == "id":
            package = self._hit_global(expr[2][2], name)
            if package is not None:
                return package
            held = self._hit(local(self.key, expr[2][2]))
            if held is not None and not held.derived and self.state.akin(held.sym, name):
                return Hit(held.sym, held.depth + 1, False)
        return None

    def _hit_global(self, package: str, name: str) -> Hit | None:
        for sym in self.state.globals.get(name, ()):
            if sym.scope.rpartition("/")[2] == package:
                return self._hit(sym)
        return None

    def other_owner(self, expr: Expr) -> bool:
        """`params.speculative.draft.n_gpu_layers` is another model's field of the same name."""
        base = expr[2]
        while base[0] in ("sel", "seq", "call"):
            if base[0] == "sel":
                if base[3] in self.state.bridges.other_owners:
                    return True
                base = base[2]
            elif base[0] == "seq" and base[2]:
                base = base[2][0]
            elif base[0] == "call" and base[3] is not None:
                base = base[3]
            else:
                return False
        return base[0] == "id" and base[2] in self.state.bridges.other_owners

    def _sequence(self, expr: Expr) -> Hit | None:
        parts, what = expr[2], expr[3]
        if what == "index":
            if len(parts) > 1 and parts[1][0] == "lit" and parts[1][2] in self.state.literals:
                return self._hit(self.state.literals[parts[1][2]])
            return self.value(parts[0]) if parts else None
        if what == "!":
            return None
        if any(is_flag(p) for p in parts):
            return None
        return self.first(parts)

    def _call(self, expr: Expr) -> Hit | None:
        name, receiver, args = expr[2], expr[3], expr[4]
        bridges = self.state.bridges
        read = self.reads(expr)
        if read is not None:
            return self._hit(read)
        if (
            name in bridges.clips
            or name in bridges.passes
            or (receiver is not None and receiver[:3:2] == ["id", "C"])
        ):
            if any(is_flag(a) for a in args):
                return None
            found = self.first(args)
            if found is not None and name in bridges.clips:
                return Hit(found.sym, found.depth, found.derived, True)
            return found
        for target in self.resolve(name, receiver) if name in self.state.returning else ():
            count = max(len(self.state.program.func(target).results), 1)
            hits = [h for i in range(count) if (h := self.result(target, i, args)) is not None]
            if hits:
                return min(hits, key=lambda h: h.depth)
        if receiver is not None:
            if receiver[0] == "id":
                package = self._hit_global(receiver[2], name)
                if package is not None:
                    return package
            if name in bridges.accessors:
                return self.value(receiver)
        elif self.domain == "go" and self._hit(Sym("global", self.unit.package, name)):
            return self._hit(Sym("global", self.unit.package, name))
        return None

    def result(self, target: FuncId, number: int, args: list[Expr]) -> Hit | None:
        """A call's n-th result; one that depends on a parameter counts only where an argument carries the option."""
        sym = result(target, number)
        found = self._hit(sym)
        if found is not None and sym in self.state.conditional and not any(self.value(a) for a in args):
            return None
        return found

    def reads(self, expr: Expr) -> Sym | None:
        """`os.Getenv("NAME")`, `String("NAME")`, `data.value("key", d)`: a call that looks the option up by name."""
        literals, bridges = self.state.literals, self.state.bridges
        if not literals:
            return None
        name, receiver, args = expr[2], expr[3], expr[4]
        if name in bridges.logs or (
            receiver is not None and receiver[0] == "id" and receiver[2] in bridges.log_receivers
        ):
            return None
        if name in bridges.env_readers or name in bridges.lookups:
            for arg in args[:2]:
                if arg[0] == "lit" and arg[2] in literals:
                    return literals[arg[2]]
        return None

    def resolve(self, name: str, receiver: Expr | None) -> list[FuncId]:
        """Which of our functions a call may mean: lambdas in scope, same file, same package, package by its name."""
        if not name:
            return []
        program, unit = self.state.program, self.unit
        if receiver is None:
            inside = unit.lambdas.get(name)
            if inside:
                return [(unit.number, i) for i in inside]
        found = program.definitions(name, self.domain)
        if not found:
            return []
        if self.domain != "go":
            own = [k for k in found if k[0] == unit.number]
            return own or (found if len(found) <= _FEW else [])
        if receiver is None:
            return [k for k in found if program.units[k[0]].package == unit.package and not program.func(k).owner]
        base = str(receiver[2] if receiver[0] == "id" else receiver[3] if receiver[0] == "sel" else "")
        package = [
            k for k in found if program.units[k[0]].package.rpartition("/")[2] == base and not program.func(k).owner
        ]
        if package:
            return package
        methods = [k for k in found if program.func(k).owner]
        same = [k for k in methods if program.units[k[0]].package == unit.package]
        return same or (methods if len(methods) == 1 else [])

    def carriers(self, expr: Expr) -> list[Expr]:
        """The parts that may be looked at by themselves: all names, selections and calls, but not the base of a
        selection that leads elsewhere (`layer.DeviceID` is not `layer`)."""
        out: list[Expr] = []
        stack = [expr]
        while stack:
            part = stack.pop()
            op = part[0]
            if op in ("id", "sel", "call"):
                out.append(part)
            if op == "sel" and part[2][0] != "id":
                stack.append(part[2])
            elif op == "call":
                stack += part[4]
                if part[3] is not None and (part[3][0] != "id" or part[2] in self.state.bridges.accessors):
                    stack.append(part[3])
            elif op == "bin":
                stack += [part[3], part[4]]
            elif op == "seq":
                if part[3] == "index":
                    out.append(part)
                stack += part[2]
            elif op == "kv":
                stack += [item[2] for item in part[2]]
        return out

    def anywhere(self, expr: Expr) -> Hit | None:
        """A hit anywhere inside (for conditions and log arguments), direct first."""
        hits = [h for h in map(self.value, self.carriers(expr)) if h is not None]
        return min(hits, key=lambda h: (h.derived, h.depth)) if hits else None
