"""The sentence at the end: what the option means in these trees, what it rests on, what it is not, what is open."""

from __future__ import annotations

from stillruns.model.trace import Row, Stage, Statement, TraceSpec, Variant
from stillruns.normalise.source.program import Program
from stillruns.normalise.source.stages import place
from stillruns.normalise.source.state import State

_TEXT_ROLES = ("header", "flagdef", "field", "default")


def meaning(spec: TraceSpec | None, found: dict[str, Row], state: State, stages: tuple[Stage, ...]) -> Statement:
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


def is_not(spec: TraceSpec | None, found: dict[str, Row], state: State) -> tuple[Statement, ...]:
    """Misreadings that the found lines refute, and what the trace itself rules out."""
    out = [_fill(v, found) for v in (spec.is_not if spec is not None else ()) if _holds(v, found)]
    rows = sorted(state.rows.values(), key=lambda r: (r.project, r.path, r.line))
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


def _holds(variant: Variant, found: dict[str, Row]) -> bool:
    return all(s in found for s in variant.when) and not any(s in found for s in variant.unless)


def _fill(variant: Variant, found: dict[str, Row]) -> Statement:
    """Put places where the text names stages; each stage in `when` is a reference: no claim without a place."""
    text = variant.text
    for name in variant.when:
        row = found[name]
        text = text.replace("{" + name + "}", f"{row.path}:{row.line}")
    return Statement(text, tuple(dict.fromkeys(place(found[name]) for name in variant.when)))


def _from_rows(state: State, stages: tuple[Stage, ...]) -> Statement:
    """No spec: the words that the sources themselves use, with their places."""
    rows = sorted(state.rows.values(), key=lambda r: (r.depth, r.project, r.path, r.line))
    if not rows:
        return Statement(f"{state.option} is found nowhere in the trees given.")
    told = [r for r in rows if r.role in _TEXT_ROLES]
    comments = [r for r in told if r.role == "header" and r.to and "." not in r.to.split(" ")[0]]
    parts: list[str] = []
    refs: list[Row] = []
    entry = next((r for r in rows if r.role in ("field", "client", "flagdef", "read", "header", "branch")), rows[0])
    kinds = {
        "field": "a JSON key",
        "read": "looked up by name",
        "flagdef": "a command line flag",
        "client": "a client's field",
    }
    parts.append(f"{state.option} enters as {kinds.get(entry.role, 'a name in the source')}")
    refs.append(entry)
    default = next((r for r in rows if r.role == "default"), None)
    if default is not None:
        parts.append(f"default {default.to.rpartition('= ')[2]}")
        refs.append(default)
    flags = [r for r in rows if r.role == "flag"]
    if flags:
        parts.append("is passed to a child process as " + ", ".join(dict.fromkeys(r.to.split(" ")[0] for r in flags)))
        refs += flags[:3]
    if comments:
        parts.append(f"and ends in `{comments[0].symbol}`, which the source describes as: {comments[0].to}")
        refs.append(comments[0])
    elif len(rows) > 1:
        last = stages[-1] if stages else None
        if last is not None:
            parts.append(f"and is last used in {last.function or last.file} ({last.effect[:120]})")
            refs.append(next(r for r in rows if (r.path, r.line) == (last.file, last.line)))
    return Statement(", ".join(parts) + ".", tuple(dict.fromkeys(place(r) for r in refs)))
