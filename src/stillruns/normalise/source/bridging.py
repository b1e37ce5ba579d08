"""Calls: parameters, logs, and borders of languages and processes (argument lists, flag tables, whole structs)."""

from __future__ import annotations

from stillruns.normalise.source.ir import Expr, Stmt, show, walk
from stillruns.normalise.source.program import FuncId
from stillruns.normalise.source.state import Hit, Sym, is_constant, is_flag, local
from stillruns.normalise.source.values import Values


class Bridging(Values):
    """What one call does with the option."""

    guard: Hit | None

    def text(self, expr: Expr) -> str:
        """Short source-like text."""
        return show(expr)

    def control(self, stmt: Stmt) -> Hit | None:
        """The branch that decides about a statement (see Flow)."""
        raise NotImplementedError

    def into(self, target: Expr, found: Hit, line: int) -> None:
        """Mark a target (see Flow)."""
        raise NotImplementedError

    def call(self, expr: Expr, stmt: Stmt) -> None:
        """One call, in the order in which its meanings exclude each other."""
        name, receiver, args, line = expr[2], expr[3], expr[4], expr[1]
        bridges = self.state.bridges
        read = self.reads(expr)
        if read is not None and read in self.state.known:
            self.state.row(self.unit, self.func, line, "read", read, self.text(expr))
        if name in bridges.whole_compares:
            self.whole(expr)
        told = self.is_log(name, receiver)
        environment = (
            self.state.option.isupper()
        )  # `Bool("OLLAMA_X")` reads a variable, `Bool("verbose")` defines a flag
        if name in bridges.flag_definitions and not (told or environment) and self.literal_in(args):
            self.defines(expr, stmt)
            return
        if name in bridges.flag_tables and self.literal_in([a for part in walk(expr) for a in [part]]):
            self.table(expr)
        if name in bridges.spawns and self.key in self.state.writers:
            self.state.row(self.unit, self.func, line, "spawn", self.state.writers[self.key], self.text(expr))
        if told:
            self.logs(expr)
            return
        if any(is_flag(a) for a in args):
            self.arguments(args, stmt, line)
            return
        if name in bridges.appenders and receiver is not None:
            found = self.first(args)
            if found is not None:
                self.state.row(self.unit, self.func, line, "assign", found, self.text(receiver))
                self.into(receiver, found, line)
        self.parameters(expr)

    def is_log(self, name: str, receiver: Expr | None) -> bool:
        """Does this call only tell somebody?"""
        bridges = self.state.bridges
        if receiver is not None and receiver[0] == "id" and receiver[2] in bridges.log_receivers:
            return name not in bridges.passes
        return name in bridges.logs

    def logs(self, expr: Expr) -> None:
        """A log line or message that shows the option, or the command line that carries it."""
        for arg in expr[4]:
            found = self.anywhere(arg)
            if found is not None:
                self.state.row(self.unit, self.func, expr[1], "log", found, self.text(expr))
                return
        if self.key in self.state.writers and any(p[-1] == "cmd" for a in expr[4] for p in walk(a)):
            self.state.row(self.unit, self.func, expr[1], "log", self.state.writers[self.key], self.text(expr))

    def literal_in(self, args: list[Expr]) -> Sym | None:
        """The option's own spelling among literals (dashes and underscores fold for flags)."""
        for arg in args:
            if arg[0] == "lit":
                found = self.state.literals.get(str(arg[2])) or self.state.literals.get(fold(str(arg[2])))
                if found is not None:
                    return found
        return None

    def defines(self, expr: Expr, stmt: Stmt) -> None:
        """`fs.Int("n-gpu-layers", 0, help)`, `add_argument("--n-gpu-layers")`: the parsed value is the option."""
        sym = self.literal_in(expr[4])
        if sym is None or sym not in self.state.known:
            return
        hit = self._hit(sym)
        assert hit is not None
        self.state.row(self.unit, self.func, expr[1], "flagdef", hit, self.text(expr))
        target = expr[4][0]
        if target[0] == "seq" and target[3] == "&":
            self.into(target, hit, expr[1])
        elif stmt.kind == "assign" and stmt.targets:
            self.into(stmt.targets[0], hit, stmt.line)
        if self.domain == "python":
            names = [a for part in expr[4] if part[0] == "kv" for a in part[2] if a[0] == "dest"]
            field = str(names[0][2][2]) if names else fold(str(expr[4][0][2])).lstrip("-").replace("-", "_")
            self.state.push(Sym("field", "python", field), hit, self.unit, expr[1])

    def table(self, expr: Expr) -> None:
        """A row of a flag table with its handler: the handler's last parameter is the value, constants it stores are
        what the flag means."""
        sym = None
        help_text = max((str(p[2]) for p in walk(expr) if p[0] == "lit"), key=lambda t: t.count(" "), default="")
        shown = help_text.split("\\n")[0] if help_text.count(" ") >= 2 else self.text(expr)
        spellings: list[str] = []
        for part in walk(expr):
            if part[0] == "lit":
                found = self.literal_in([part])
                if found is not None:
                    sym = found
                    self.state.row(self.unit, self.func, part[1], "flagdef", found, shown)
            if part[0] == "seq" and self.literal_in(part[2]):
                spellings += [str(p[2]) for p in part[2] if is_flag(p)]
        if sym is None or sym not in self.state.known:
            return
        self.state.aliases.update(spellings)
        hit = self._hit(sym)
        assert hit is not None
        for part in walk(expr):
            if part[0] == "fun":
                self.handler((self.unit.number, part[2]), hit)

    def handler(self, key: FuncId, hit: Hit) -> None:
        """A flag's lambda: mark its value parameter, and fields it sets by itself."""
        func = self.state.program.func(key)
        if len(func.params) >= 2:
            self.state.push(local(key, func.params[-1]), hit, self.unit, func.line)
        values = set(func.params[1:])
        for stmt in func.stmts:
            if stmt.kind != "assign" or not stmt.targets or stmt.targets[0][0] != "sel":
                continue
            used = {p[2] for v in stmt.values for p in walk(v) if p[0] == "id"}
            if self.other_owner(stmt.targets[0]):
                continue
            if len(func.params) < 2 or is_constant(stmt.values[0]) or used & values:
                self.state.row(self.unit, func, stmt.line, "set", hit, self.text(stmt.targets[0]))
                self.state.push(Sym("field", self.domain, stmt.targets[0][3]), hit, self.unit, stmt.line)

    def arguments(self, args: list[Expr], stmt: Stmt, line: int) -> None:
        """An argument list: the value after a flag goes to whoever parses that flag; the list itself stays clean."""
        before: Expr | None = None
        by = self.control(stmt) or self.guard
        for arg, after in zip(args, [*args[1:], None], strict=True):
            found = self.value(arg)
            if before is not None and found is not None:
                self.writes(str(before[2]), found, arg[1], self.text(arg))
            elif is_flag(arg) and by is not None and by.depth <= 5 and not (after and self.value(after)):
                value = f" {after[2]}" if after is not None and after[0] == "lit" and not is_flag(after) else ""
                self.state.row(self.unit, self.func, arg[1], "flag", by, f"{arg[2]}{value}")
                self.flag(str(arg[2]), by, arg[1])
            before = arg if is_flag(arg) else None

    def writes(self, flag: str, found: Hit, line: int, shown: str) -> None:
        """The option becomes the value of a child's flag."""
        self.state.row(self.unit, self.func, line, "flag", found, f"{flag} {shown}")
        self.flag(flag, found, line)

    def flag(self, flag: str, found: Hit, line: int) -> None:
        """Follow a flag to its definitions anywhere."""
        sym = Sym("flag", "", flag)
        self.state.writers.setdefault(self.key, found)
        if self.state.push(sym, Hit(found.sym, found.depth, False), self.unit, line):
            for spelling in (flag, flag.lstrip("-")):
                self.state.literals.setdefault(spelling, sym)

    def whole(self, expr: Expr) -> None:
        """`DeepEqual(a, b)` on the struct that holds the option: no data flow shows that it is compared."""
        owners = {o.lower() for o in self.state.owners}
        if not owners:
            return
        for arg in expr[4]:
            if arg[0] == "sel" and arg[3].lower() in owners:
                self.state.row(self.unit, self.func, expr[1], "compare", self.state.entry, self.text(expr))
                return
            if arg[0] != "id":
                continue
            for stmt in self.func.stmts:
                for target, value in zip(stmt.targets, stmt.values, strict=False):
                    if target[:3:2] == ["id", arg[2]] and any(
                        p[0] == "sel" and p[3].lower() in owners for p in walk(value)
                    ):
                        self.state.row(self.unit, self.func, expr[1], "compare", self.state.entry, self.text(expr))
                        return

    def parameters(self, expr: Expr) -> None:
        """Positions: the n-th argument is the n-th parameter of every function that the call may mean."""
        hits: list[tuple[int | str, Hit]] = []
        for number, arg in enumerate(expr[4]):
            parts = [(str(k), v) for k, _, v in arg[2]] if arg[0] == "kv" else [(number, arg)]
            hits += [(at, found) for at, part in parts if (found := self.value(part)) is not None]
        if not hits:
            return
        for target in self.resolve(expr[2], expr[3]):
            func = self.state.program.func(target)
            for position, found in hits:
                if isinstance(position, str):
                    name = position if position in func.params else ""
                else:
                    name = func.params[position] if position < len(func.params) else ""
                if not name or name == "_" or found.derived:
                    continue
                unit = self.state.program.units[target[0]]
                line = expr[4][position][1] if isinstance(position, int) else expr[1]
                self.state.row(self.unit, self.func, line, "pass", found, f"{func.name}({name})")
                if self.state.utility(func.name, self.domain):
                    continue
                if self.state.push(local(target, name), found, self.unit, expr[1]):
                    self.state.row(unit, func, func.line, "param", local(target, name), name)


def fold(flag: str) -> str:
    """`--n_gpu_layers` is `--n-gpu-layers` to the parsers that fold underscores."""
    return flag.replace("_", "-") if flag.startswith("-") else flag
