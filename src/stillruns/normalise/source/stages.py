"""From rows to the table that a person reads: rows of one function are one stage, at most about twenty are shown."""

from __future__ import annotations

import re
from collections import defaultdict

from stillruns.model.trace import Expected, ExpectedStage, Stage, TraceRow, TraceSpec
from stillruns.normalise.source.special import uncovered
from stillruns.normalise.source.state import PRIORITY, State

MAX_STAGES = 20
_NEAR = 30
_WEIGHT = {
    "field": 30,
    "client": 12,
    "flagdef": 32,
    "read": 30,
    "reflect": 14,
    "decode": 12,
    "compare": 40,
    "decide": 12,
    "flag": 45,
    "cgo": 40,
    "header": 18,
    "default": 22,
    "clip": 20,
    "branch": 10,
    "set": 12,
    "control": 12,
    "spawn": 6,
    "macro": 8,
    "param": 4,
    "pass": 5,
    "return": 3,
    "assign": 5,
    "iterate": 4,
    "log": 2,
    "mention": 0,
}
_ORDER = {role: n for n, role in enumerate(("client", "field", "reflect", "default", "decode", "decide", "compare"))}
_WORDS = {
    "field": "JSON key",
    "client": "client",
    "flagdef": "flag parsed",
    "read": "read by name",
    "reflect": "reflection",
    "decode": "decoded",
    "compare": "whole-struct comparison",
    "decide": "decision",
    "flag": "argument of a child process",
    "cgo": "into C",
    "header": "C member",
    "default": "default",
    "clip": "clipped",
    "branch": "branch",
    "set": "overwritten",
    "control": "steers",
    "spawn": "child started",
    "macro": "preprocessor",
    "param": "parameter",
    "pass": "passed on",
    "return": "returned",
    "assign": "assigned",
    "iterate": "iterated",
    "log": "logged",
    "mention": "named in text",
}


def fold(
    state: State, spec: TraceSpec | None
) -> tuple[tuple[Stage, ...], tuple[TraceRow, ...], tuple[Expected, ...], dict[str, TraceRow]]:
    """(stages in reading order, rows folded away, the spec's stages with their status, spec stage -> row)."""
    rows = state.nearest_first()
    expected, found = _expected(rows, spec)
    on_path = _paths(state)
    wanted = {(row.project, row.path, row.line): name for name, row in found.items()}
    groups = _groups([r for r in rows if r.role != "mention"])
    made = [_stage(state, group, on_path, wanted) for group in groups]
    ranked = sorted(range(len(made)), key=lambda n: (-_score(made[n], groups[n]), n))
    kept = set(ranked[:MAX_STAGES])
    shown = [(made[n], groups[n]) for n in range(len(made)) if n in kept]
    shown.sort(key=lambda pair: _reading_order(pair[1]))
    folded = [r for n, group in enumerate(groups) if n not in kept for r in group]
    folded += [r for r in rows if r.role == "mention"]
    return tuple(s for s, _ in shown), tuple(folded), expected, found


def _reading_order(group: list[TraceRow]) -> tuple[int, int, str, int]:
    depth = min(r.depth for r in group)
    best = min((_ORDER.get(r.role, 50) for r in group if r.depth == depth), default=50)
    return depth, best, group[0].project + group[0].path, min(r.line for r in group)


def _groups(rows: list[TraceRow]) -> list[list[TraceRow]]:
    """Rows by function; lines outside of functions (fields, tables, lambdas) by nearness."""
    by_place: dict[tuple[str, str, str], list[TraceRow]] = defaultdict(list)
    for row in rows:
        by_place[(row.project, row.path, row.function if row.role != "client" else "client")].append(row)
    out: list[list[TraceRow]] = []
    for (_, _, function), members in by_place.items():
        members.sort(key=lambda r: r.line)
        if function and not _table(members):
            out.append(members)
            continue
        cluster: list[TraceRow] = []
        for row in members:
            if cluster and row.line - cluster[-1].line > _NEAR:
                out.append(cluster)
                cluster = []
            cluster.append(row)
        out.append(cluster)
    return out


def _table(rows: list[TraceRow]) -> bool:
    """A huge function that is really a table (all of a program's flags)."""
    return rows[-1].line - rows[0].line > 20 * _NEAR


def _paths(state: State) -> set[tuple[str, str, int]]:
    """Places on the shortest ways to the sinks: flags of a child, members of C, else the farthest symbol."""
    sinks = [s for s in state.known if s.kind == "flag" or (s.kind == "field" and s.scope == "c")]
    if not sinks and state.known:
        sinks = [max(state.known, key=lambda s: state.known[s].depth)]
    return {place for sink in sinks[:40] for _, place in state.chain(sink) if place}


def _stage(
    state: State,
    group: list[TraceRow],
    on_path: set[tuple[str, str, int]],
    wanted: dict[tuple[str, str, int], str],
) -> Stage:
    main = max(group, key=lambda r: (_WEIGHT[r.role] - (15 if r.derived else 0), -r.line))
    specials = _specials(state, main, group)
    lines = tuple(r.line for r in group)
    names = [wanted[k] for r in group if (k := (r.project, r.path, r.line)) in wanted]
    return Stage(
        stage="client field" if main.role == "field" and main.path.endswith(".py") else _WORDS[main.role],
        project=main.project,
        file=main.path,
        line=main.line,
        code=main.code,
        effect=_effect(group, main),
        special=specials,
        function=main.function,
        lines=lines,
        on_path=any((r.project, r.path, r.line) in on_path for r in group),
        expected=", ".join(dict.fromkeys(names)),
    )


def _effect(group: list[TraceRow], main: TraceRow) -> str:
    """What is done to the value here, in a few words each, most telling first."""
    parts: list[str] = []
    for row in sorted(group, key=lambda r: PRIORITY.index(r.role)):
        text = {
            "field": f"a field of the client's {row.to}" if row.path.endswith(".py") else f"the key sets {row.to}",
            "client": "sent with the request",
            "reflect": f"{row.function}: {row.to}",
            "decode": "request and model values are merged into the options",
            "default": f"default: {row.to}",
            "compare": f"compared as part of the whole struct: {row.to}",
            "decide": f"decided by {row.to}",
            "flag": f"passed on as {row.to}",
            "flagdef": f"parsed: {row.code}",
            "read": f"read: {row.to}",
            "cgo": f"to C member {row.to}",
            "header": row.to or f"member {row.symbol}",
            "clip": f"clipped: {row.code}",
            "set": f"overwritten: {row.to}",
            "control": f"makes {row.to}",
            "branch": f"tested: {row.to}",
            "macro": f"compiled in or out: {row.to}",
            "pass": f"to {row.to}",
            "log": "logged",
        }.get(row.role, "")
        if text and text not in parts and row.role != "mention":
            parts.append(text)
    text = "; ".join(parts[:4]) or f"{_WORDS[main.role]} {main.symbol} -> {main.to}"
    return text if len(text) <= 400 else text[:399] + "…"


def _specials(state: State, main: TraceRow, group: list[TraceRow]) -> tuple[str, ...]:
    """Tests against constants inside the group's lines, with what they lead to, and values that reach no flag."""
    low, high = min(r.line for r in group), max(r.line for r in group)
    unit = next((u for u in state.program.units if (u.file.project, u.file.path) == (main.project, main.path)), None)
    if unit is None:
        return ()
    out: list[str] = []
    flag_tests: list[str] = []
    for key in sorted(k for k in state.specials if k[0] == unit.number):
        func = state.program.func(key)
        name = f"{func.owner}.{func.name}" if func.owner and func.name else func.name
        if name != main.function:
            continue
        for (line, test), actions in state.specials[key].items():
            if not low <= line <= high:
                continue
            if any("passes" in a for a in actions):
                flag_tests.append(test)
            if actions:
                out.append(f"{test}: {'; '.join(actions)}")
            elif f"{test}: tested" not in out:
                out.append(f"{test}: tested")
    dropped = uncovered(list(dict.fromkeys(flag_tests)))
    if dropped:
        flags = sorted({r.to.split(" ")[0] for r in group if r.role == "flag"})
        out.append(f"{' or '.join(dropped)}: no {', '.join(flags)} is passed")
    return tuple(dict.fromkeys(out))[:8]


def _score(stage: Stage, group: list[TraceRow]) -> int:
    base = max(_WEIGHT[r.role] - (15 if r.derived else 0) for r in group) + min(len(group), 6)
    base += 25 if stage.on_path else 0
    base += 60 if stage.expected else 0
    base += 8 if stage.special else 0
    return base - 2 * min(r.depth for r in group)


def _expected(rows: list[TraceRow], spec: TraceSpec | None) -> tuple[tuple[Expected, ...], dict[str, TraceRow]]:
    """Each stage of the spec: found where it was, moved to another file, or missing."""
    out: list[Expected] = []
    places: dict[str, TraceRow] = {}
    taken: set[tuple[str, str, int]] = set()
    for stage in sorted(spec.stages, key=lambda s: s.id) if spec is not None else ():
        row = next((r for r in rows if _fits(r, stage) and _ends(r.path, stage.path)), None)
        if row is not None:
            taken.add((row.project, row.path, row.line))
    for stage in spec.stages if spec is not None else ():
        matching = [r for r in rows if _fits(r, stage)]
        here = [r for r in matching if _ends(r.path, stage.path)]
        others = [r for r in matching if (r.project, r.path, r.line) not in taken] if stage.code else []
        row = next(iter(here or others), None)
        status = "found" if here else "moved" if row is not None else "missing"
        out.append(Expected(stage.id, status, place(row) if row is not None else "", stage.last_seen))
        if row is not None:
            places[stage.id] = row
    return tuple(out), places


def _fits(row: TraceRow, stage: ExpectedStage) -> bool:
    return row.role in stage.roles and bool(re.search(stage.code, row.code))


def _ends(path: str, wanted: str) -> bool:
    return not wanted or path == wanted or path.endswith("/" + wanted)


def place(row: TraceRow) -> str:
    """`project:path:line`."""
    return f"{row.project}:{row.path}:{row.line}"
