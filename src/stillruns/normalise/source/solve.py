"""From an option's name to rows: find where it enters, then follow until nothing new is reached."""

from __future__ import annotations

import re

from stillruns.model.trace import Bridges
from stillruns.normalise.source.bridging import fold
from stillruns.normalise.source.flow import Flow
from stillruns.normalise.source.ir import walk
from stillruns.normalise.source.program import FuncId, Program
from stillruns.normalise.source.state import Hit, State, Sym, key_of

_DOMAINS = ("go", "python", "c", "build")
_HEADERS = 4
_FAR = 9


def solve(
    program: Program,
    bridges: Bridges,
    option: str,
    aliases: tuple[str, ...] = (),
    stops: tuple[str, ...] = (),
) -> State:
    """All rows of `option` (and of other spellings of the same thing); names in `stops` are noted, not followed."""
    state = State(program, bridges, option)
    state.spec_stops = frozenset(stops)
    for name in (option, *aliases):
        _Seeds(state, name).plant()
    _decoders(state)
    _run(state)
    _declarations(state)
    _stopped(state)
    _compares(state)
    _deciders(state)
    _mentions(state, (option, *aliases))
    return state


class _Seeds:
    """Where a name can enter: JSON tag, class field, C member, flag, environment, CMake variable, macro."""

    def __init__(self, state: State, name: str) -> None:
        self.state, self.name, self.program = state, name, state.program
        self.bare = name.lstrip("-")

    def plant(self) -> None:
        """Declare the literal spellings, then every declaration with this name."""
        entry = self.state.entry
        self.state.push(entry, None, None, 0)
        spellings = {self.name, self.bare, fold(self.name)}
        if self.name.startswith("-"):
            spellings.add(self.bare.replace("_", "-"))
        for spelling in spellings:
            self.state.literals.setdefault(spelling, entry)
        if re.fullmatch(r"[A-Za-z_]\w*", self.name):
            self.fields()
            self.variables()

    def fields(self) -> None:
        """Struct fields by JSON tag (Go) or by name (C, Python, ctypes)."""
        for unit in self.program.holding(self.name, ("go", "python", "c")):
            for field in self.program.facts(unit).fields:
                tagged = re.search(rf'json:"{re.escape(self.name)}[",]', field.tag)
                if not tagged and (unit.domain == "go" or field.name != self.name):
                    continue
                sym = Sym("field", unit.domain, field.name)
                self.state.push(sym, None, unit, field.line)
                outer = self.program.facts(unit).funcs[0]
                role = {"go": "field", "python": "field", "c": "header"}[unit.domain]
                self.state.row(unit, outer, field.line, role, sym, f"{field.owner}.{field.name}")
                if unit.domain == "go":
                    self.state.owners.add(field.owner)
                    self.state.tagged = True
                if unit.domain == "python":
                    self.clients(field.owner)

    def clients(self, owner: str) -> None:
        """A Python class of options is handed on as a keyword of its own name: `options=options`."""
        word = owner.lower()
        for unit in self.program.holding(word, ("python",)):
            for func in self.program.facts(unit).funcs:
                for stmt in func.stmts:
                    for part in (p for v in stmt.values for p in walk(v)):
                        if part[0] != "kv" or part[3] == "dict":
                            continue
                        for key, line, value in part[2]:
                            if key == word and value[:3:2] == ["id", word]:
                                self.state.row(unit, func, line, "client", self.state.entry, f"{key}= of {part[3]}")

    def variables(self) -> None:
        """CMake and shell variables, C macros, Python parameters with this name."""
        for domain in ("build", "c"):
            if self.name.isupper():
                self.state.push(Sym("global", domain, self.name), None, None, 0)
        for key in self.program.users(self.name, ("python",)):
            if self.name in self.program.func(key).params:
                sym = Sym("local", f"{key[0]}.{key[1]}", self.name)
                unit, func = self.program.units[key[0]], self.program.func(key)
                self.state.push(sym, None, unit, func.line)
                self.state.row(unit, func, func.line, "param", sym, self.name)


def _run(state: State) -> None:
    """Work through the queue; each round visits every function that one of the new symbols touches."""
    done: set[str] = set()
    for _ in range(60):
        todo: set[FuncId] = set()
        while state.queue:
            todo |= _touched(state, state.queue.popleft())
        for literal in list(state.literals):
            if literal not in done and len(literal) > 1:
                done.add(literal)
                todo |= _literal_users(state, literal)
        if not todo or state.full:
            return
        for key in sorted(todo):
            Flow(state, key).process()


def _touched(state: State, sym: Sym) -> set[FuncId]:
    program = state.program
    if sym.kind == "field":
        return set(state.members(sym))
    if sym.kind == "local":
        key = key_of(sym)
        facts = program.facts(program.units[key[0]])
        inner = {(key[0], i) for i, f in enumerate(facts.funcs) if f.parent >= 0 and sym.name in f.names}
        return {key} | inner
    if sym.kind == "ret":
        key = key_of(sym)
        func = program.func(key)
        domain = program.units[key[0]].domain
        if not func.name:
            return set()
        users = set(state.uses(func.name, domain))
        return users if len(users) <= 4 * state.bridges.hub_functions else set()
    if sym.kind == "global":
        domains = {"build": ("build",), "c": ("c",), "python": ("python",)}.get(sym.scope, ("go",))
        return set(program.users(sym.name, domains))
    return set()


def _literal_users(state: State, literal: str) -> set[FuncId]:
    """Functions that hold the spelling as a quoted literal."""
    found: set[FuncId] = set()
    for quote in ('"{}"', "'{}'"):
        needle = quote.format(literal).encode()
        for unit in state.program.holding(needle.decode(), _DOMAINS):
            found |= {(unit.number, i) for i in state.program.at_lines(unit, needle)}
    for key in list(found):  # a flag's handler is a lambda beside the literal: the function around holds the table
        func = state.program.func(key)
        if func.parent >= 0:
            found.add((key[0], func.parent))
    return found


def _decoders(state: State) -> None:
    """Reflection: functions that read struct tags set every tagged field by its name; their callers decode."""
    if not state.tagged:
        return
    program, owners = state.program, _embedding(state)
    for key in program.users("Tag", ("go",)):
        func, unit = program.func(key), program.units[key[0]]
        calls = [p for s in func.stmts for v in (*s.values, *s.targets) for p in walk(v) if p[0] == "call"]
        reads = any(
            p[2] in state.bridges.reflect_tags
            and p[3] is not None
            and p[3][-1] == "Tag"
            and any(a[0] == "lit" and a[2] == "json" for a in p[4])
            for p in calls
        )
        if not reads or not (func.owner in owners or owners & set(func.names)):
            continue
        state.row(unit, func, func.line, "reflect", state.entry, "JSON keys matched to field tags")
        for caller in program.users(func.name, ("go",)):
            flow = Flow(state, caller)
            for stmt in flow.func.stmts:
                for part in (p for v in stmt.values for p in walk(v)):
                    if part[0] == "call" and part[2] == func.name and key in flow.resolve(part[2], part[3]):
                        state.row(flow.unit, flow.func, part[1], "decode", state.entry, flow.text(part))


def _declarations(state: State) -> None:
    """The declared members of the C API that the option reached, with their comments."""
    for sym in [s for s in state.known if s.kind == "field" and s.scope == "c"]:
        for unit in state.program.holding(sym.name, ("c",)):
            for field in state.program.facts(unit).fields:
                owner = field.owner.lower()
                if field.name == sym.name and not any(o in owner for o in state.bridges.other_owners):
                    outer = state.program.facts(unit).funcs[0]
                    state.row(unit, outer, field.line, "header", sym, field.comment)


def _stopped(state: State) -> None:
    """A C member at which the trace stopped is at least shown where a header declares it."""
    for key in list(state.stops):
        scope, _, name = key.partition(":")
        headers = [u for u in state.program.holding(f"{name};", ("c",)) if u.file.path.endswith(".h")]
        for unit in headers[:_HEADERS] if scope == "c" and name not in state.spec_stops else ():
            for field in state.program.facts(unit).fields:
                if field.name == name:
                    outer = state.program.facts(unit).funcs[0]
                    state.row(
                        unit, outer, field.line, "header", Hit(Sym("field", "c", name), _FAR, False), field.comment
                    )


def _compares(state: State) -> None:
    """Whole-struct comparison reaches an option whose name the comparing function need not contain."""
    if state.tagged:
        for name in sorted(state.bridges.whole_compares):
            for key in state.program.users(name, ("go",)) if len(name) > 5 else ():
                flow = Flow(state, key)
                for part in (p for s in flow.func.stmts for v in s.values for p in walk(v)):
                    if part[0] == "call" and part[2] == name:
                        flow.whole(part)


def _embedding(state: State) -> set[str]:
    """The option's struct and all structs that embed it."""
    owners = set(state.owners)
    for _ in range(4):
        for unit in state.program.units:
            if unit.domain == "go" and unit.facts is not None:
                owners |= {outer for outer, inner in unit.facts.embeds if inner in owners}
    return owners


def _deciders(state: State) -> None:
    """Callers of a yes/no function that branches on the option or compares its struct (needsReload)."""
    deciding = {
        (row.project, row.path, row.function.rpartition(".")[2])
        for row in state.rows.values()
        if row.role in ("branch", "compare", "set") and row.depth == 0 and row.function
    }
    program = state.program
    for project, path, name in sorted(deciding):
        keys = [
            k
            for k in program.definitions(name, "go")
            if program.units[k[0]].file.path == path
            and program.units[k[0]].file.project == project
            and program.func(k).results == ["bool"]
        ]
        for caller in program.users(name, ("go",)) if keys else ():
            flow = Flow(state, caller)
            if flow.func.name == name:
                continue
            for stmt in flow.func.stmts:
                for part in (p for v in stmt.values for p in walk(v)):
                    if part[0] == "call" and part[2] == name and set(keys) & set(flow.resolve(name, part[3])):
                        state.row(flow.unit, flow.func, part[1], "decide", state.entry, flow.text(part))


def _mentions(state: State, names: tuple[str, ...]) -> None:
    """Help texts and comments that name the option on lines with no row."""
    state.hits = 0
    for name in names:
        for unit, line in state.program.text_hits(name):
            state.hits += 1
            if unit.aside:
                state.asides[unit.file.project] = state.asides.get(unit.file.project, 0) + 1
                continue
            outer = state.program.facts(unit).funcs[0]
            if (unit.file.project, unit.file.path, line) not in state.rows:
                state.row(unit, outer, line, "mention", state.entry)
