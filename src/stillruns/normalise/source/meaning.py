"""The sentence at the end: what the option means in these trees, what it rests on, what it is not, what is open."""

from __future__ import annotations

import re
from dataclasses import replace

from stillruns.model.trace import Stage, Statement, TraceRow, TraceSpec, Variant
from stillruns.normalise.source.program import Program
from stillruns.normalise.source.stages import place
from stillruns.normalise.source.state import State


def meaning(spec: TraceSpec | None, found: dict[str, TraceRow], state: State, stages: tuple[Stage, ...]) -> Statement:
    """The first reading of the spec whose stages are all there; without one, what the lines themselves say."""
    for variant in spec.meanings if spec is not None else ():
        if _holds(variant, found):
            return _fill(variant, found)
    own = _from_rows(state, stages)
    if spec is not None and spec.meanings and own.refs:
        return Statement(
            f"unknown: no known reading of {spec.option} has all its stages here; what the lines say: {own.text}",
            own.refs,
        )
    return own


def is_not(spec: TraceSpec | None, found: dict[str, TraceRow], state: State) -> tuple[Statement, ...]:
    """Misreadings that the found lines refute, and what the trace itself rules out."""
    out = [_fill(v, found) for v in (spec.is_not if spec is not None else ()) if _holds(v, found)]
    rows = state.by_place()
    compare = next((r for r in rows if r.role == "compare"), None)
    kept = [
        r for r in rows if compare and r.path == compare.path and r.role == "set" and r.function == compare.function
    ]
    if compare is not None and kept and not (spec is not None and any("{reuse" in v.text for v in spec.is_not)):
        refs = (*[place(r) for r in kept], place(compare))
        out.append(
            Statement(
                "Not always a reason to reload: the whole struct is compared, and the option is overwritten in "
                "both copies before it, so some values keep what is loaded.",
                refs,
            )
        )
    return tuple(out)


def unknown(state: State, program: Program) -> tuple[str, ...]:
    """What these trees cannot decide, each with what would."""
    out: list[str] = []
    parsed = {name for r in state.rows.values() if r.role == "flagdef" for name in (r.symbol, *_words(r.code))}
    groups: dict[tuple[str, str, int], list[str]] = {}
    for sym in state.known:
        if sym.kind == "flag":
            at = state.known[sym].place
            if at is not None and sym.name not in parsed and sym.name.lstrip("-") not in parsed:
                groups.setdefault(at, []).append(sym.name)
    for (project, path, line), flags in sorted(groups.items()):
        out.append(
            f"{', '.join(flags)} is passed to another process at {project}:{path}:{line}; no tree given parses it: "
            "add that program's source with --source NAME=PATH."
        )
    if state.full:
        out.append("The row limit was reached: lines farther from the entry were left out.")
    return tuple(out)


def _words(code: str) -> list[str]:
    return [w.strip("\"'(){},") for w in code.replace(",", " ").split()]


def _holds(variant: Variant, found: dict[str, TraceRow]) -> bool:
    return all(s in found for s in variant.when) and not any(s in found for s in variant.unless)


def _fill(variant: Variant, found: dict[str, TraceRow]) -> Statement:
    """Put places where the text names stages; each stage in `when` is a reference: no claim without a place."""
    text = variant.text
    for name in variant.when:
        row = found[name]
        text = text.replace("{" + name + "}", f"{row.path}:{row.line}")
    return Statement(text, tuple(dict.fromkeys(place(found[name]) for name in variant.when)))


_ENTRY = ("field", "flagdef", "read", "client", "header", "default", "branch", "assign", "set")
_KINDS = {
    "field": "a JSON key",
    "read": "a name that is looked up at run time",
    "flagdef": "a command line flag",
    "client": "a client's field",
    "header": "a member of the C API",
}
_EFFECTS = ("cgo", "flag", "clip", "compare", "control", "branch", "set", "macro", "pass", "read", "assign")


def _from_rows(state: State, stages: tuple[Stage, ...]) -> Statement:
    """No spec: the words that the sources themselves use, with their places."""
    rows = state.nearest_first()
    told = [r for r in rows if r.role != "mention"]
    if not told:
        where = tuple(place(r) for r in rows[:5])
        said = "is only named in text (comments, help)" if rows else "is found nowhere in the trees given"
        return Statement(f"{state.option} {said}; nothing reads it that could be found.", where)
    near = [r for r in told if r.depth == told[0].depth]
    entry = min(near, key=lambda r: _ENTRY.index(r.role) if r.role in _ENTRY else len(_ENTRY))
    parts = [f"{state.option} enters as {_KINDS.get(entry.role, 'a name in the source')}"]
    refs = [entry]
    default = next((r for r in told if r.role == "default" and _same_tree(r, entry)), None)
    if default is not None:
        parts.append(f"has the default {default.to.rpartition('= ')[2]}")
        refs.append(default)
    flags = [r for r in told if r.role == "flag"]
    flags = [r for r in flags if r.depth <= flags[0].depth]
    if flags:
        parts.append("is passed to a child process as " + ", ".join(dict.fromkeys(r.to.split(" ")[0] for r in flags)))
        refs += flags[:3]
    words = _words_of_source(told) or _words_beside(state.option, rows)
    if words is not None:
        parts.append(f"and is described by the source as: {words.to.strip()}")
        refs.append(words)
    effect = next(
        (
            s
            for role in _EFFECTS
            if role != "flag" or not flags
            for s in reversed(stages)
            if _role_of(s, told) == role
        ),
        None,
    )
    if effect is not None and (words is None or effect.file != words.path):
        row = next(r for r in told if (r.project, r.path, r.line) == (effect.project, effect.file, effect.line))
        tests = _tests(told) if row.role == "branch" else []
        if len(tests) > 1:
            parts.append("and is tested in " + ", ".join(r.function or r.path for r in tests))
            refs += tests
        else:
            parts.append(f"and takes effect in {effect.function or effect.file}: {effect.effect[:160]}")
            refs.append(row)
    return Statement(", ".join(parts) + ".", tuple(dict.fromkeys(place(r) for r in refs)))


def _same_tree(row: TraceRow, entry: TraceRow) -> bool:
    """A default counts for the entry's own language and project: the engine's is not the client's."""
    return row.project == entry.project and row.path.rpartition(".")[2][:1] == entry.path.rpartition(".")[2][:1]


def _role_of(stage: Stage, rows: list[TraceRow]) -> str:
    return next((r.role for r in rows if (r.project, r.path, r.line) == (stage.project, stage.file, stage.line)), "")


def _tests(rows: list[TraceRow]) -> list[TraceRow]:
    """One test of the option a function, at most five: which of several is the effect, names alone do not say."""
    first: dict[tuple[str, str], TraceRow] = {}
    for row in rows:
        if row.role == "branch":
            first.setdefault((row.path, row.function), row)
    return list(first.values())[:5]


def _words_beside(option: str, rows: list[TraceRow]) -> TraceRow | None:
    """A text of several words on a line that quotes the option's name: `{"OLLAMA_X", X(), "What it is for"}`."""
    for row in rows:
        if f'"{option}"' in row.code:
            text = max(re.findall(r'"([^"]+)"', row.code), key=lambda t: len(t.split()))
            if len(text.split()) >= 3:
                return replace(row, to=text)
    return None


def _words_of_source(rows: list[TraceRow]) -> TraceRow | None:
    """A comment or help text of several words, the nearest to the entry; a C member's before a flag's."""
    for role in ("header", "flagdef"):
        for row in rows:
            if row.role == role and len(row.to.split()) >= 3 and "(" not in row.to.split()[0]:
                return row
    return None
