"""The whole of a trace as one pure function: files in, answer out."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence

from stillruns.model.trace import Bridges, SourceFile, SourceRef, Trace, TraceSpec
from stillruns.normalise.source.built import built_names
from stillruns.normalise.source.ir import FileFacts
from stillruns.normalise.source.meaning import is_not, meaning, unknown
from stillruns.normalise.source.near import near
from stillruns.normalise.source.program import Program
from stillruns.normalise.source.solve import solve
from stillruns.normalise.source.stages import fold
from stillruns.normalise.source.state import State

RULES = 6
"""Number of the solver's rules; an answer kept under another number is worked out again."""
_PIN = "LLAMA_CPP_VERSION"


def trace(
    option: str,
    sources: Sequence[SourceRef],
    files: Sequence[SourceFile],
    bridges: Bridges,
    spec: TraceSpec | None,
    known: MutableMapping[str, FileFacts],
) -> Trace:
    """Follow `option`; `known` is the cache of lowered files by blob digest, read and filled."""
    program = Program(files, bridges, known)
    state = _solve(program, bridges, option, spec)
    if not state.rows and any(u.aside for u in program.units):  # only in examples, tests or tools: look there too
        for unit in program.units:
            unit.aside = False
        state = _solve(program, bridges, option, spec)
    guesses = () if any(r.role != "mention" for r in state.rows.values()) else built_names(state, option)
    stages, folded, expected, found = fold(state, spec)
    rows = tuple(state.by_place())
    return Trace(
        option=option,
        sources=tuple(sources),
        stages=stages,
        folded=folded,
        rows=rows,
        meaning=meaning(spec, found, state, stages),
        is_not=is_not(spec, found, state),
        unknown=(*guesses, *unknown(state, program), *_pins(files, sources, state)) if rows else (),
        expected=expected,
        stops=tuple(state.stops.values()),
        near=() if rows else near(option, files),
        searched=tuple(f"{s.name}@{s.asked or s.rev}: {s.files} files, {s.bytes} bytes" for s in sources),
        elsewhere=tuple(sorted(state.asides.items())),
        hits=state.hits,
        notes=_notes(program),
    )


def _solve(program: Program, bridges: Bridges, option: str, spec: TraceSpec | None) -> State:
    aliases = tuple(a for a in spec.aliases if a != option) if spec is not None else ()
    return solve(program, bridges, option, aliases, spec.stops if spec is not None else ())


def _notes(program: Program) -> tuple[str, ...]:
    out = [f"{name} was not parsed: it is larger than the limit or is not text." for name in sorted(program.too_big)]
    if program.broken:
        some = ", ".join(sorted(program.broken)[:3])
        out.append(
            f"{len(program.broken)} files with syntax that the parser does not know were read around it ({some})."
        )
    return tuple(out)


def _pins(files: Sequence[SourceFile], sources: Sequence[SourceRef], state: State) -> tuple[str, ...]:
    """A tree that names the version of another (Ollama names llama.cpp's) against what was given; of interest only to
    an option that goes from one to the other."""
    crosses = any(s.kind == "flag" for s in state.known)
    for item in files:
        if item.path != _PIN or not crosses:
            continue
        pinned = item.data.decode("utf-8", "replace").strip()
        others = [s for s in sources if s.name != item.project and "llama" in s.name.lower().replace("ollama", "")]
        if not others:
            return (f"{item.project} runs llama.cpp {pinned} ({item.path}), whose source is not given.",)
        wrong = [s for s in others if pinned not in (s.asked, s.rev)]
        if wrong:
            given = ", ".join(f"{s.name}@{s.asked or s.rev}" for s in wrong)
            return (
                f"{item.project} pins llama.cpp {pinned}; that {given} is the same source cannot be told from here.",
            )
    return ()
