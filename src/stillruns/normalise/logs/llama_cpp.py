"""A llama.cpp server's log -> ServerFacts.

One pass over the lines. What a line is, the catalogue's grammar says; here is what the lines mean together: which
load counts when a log holds several, what is hidden and what never happened, in which phase a line was printed.

What such a log can and cannot decide:

- A model that is loaded twice (the dry run of `-fit on`, or a reload) counts as loaded last. Another model (draft,
  projector) leaves the first one's facts alone.
- `offloading 3 repeating layers` before `offloaded 5/5` means 4: when all layers are offloaded, the newer builds
  print one too few. It is put right here.
- `offloaded 5/5 layers to GPU` is also printed when there is no GPU. It is reported as printed; whether a device
  holds anything is for the reader of `buffers` and of `devices[].used`.
- From b9246 the load lines need `-lv 4`. Lines that are not shown are an absence (HIDDEN), as are lines that were
  never reached (NOT_COLLECTED): never a zero.
- After `new prompt` the newer builds print nothing until the request's end (below `-lv 5`). A death in the prompt's
  batch and one in the first decode steps look alike; both read as PROMPT with a note. Whether a token had arrived
  decides it, and that the log does not know.
- A server that is idle is in no phase: `last_phase` is UNKNOWN then.
"""

from __future__ import annotations

from stillruns.model.backend import Runtime
from stillruns.model.evidence import Cut, line_ref
from stillruns.model.pattern import CrashPattern, GrammarRule
from stillruns.model.phase import Phase
from stillruns.model.server_facts import Event, ServerFacts
from stillruns.normalise.logs.llama_cpp_state import State
from stillruns.normalise.logs.matcher import Matcher, best_pattern, pattern_table, rule_table
from stillruns.normalise.logs.prefix import Stripped, strip
from stillruns.normalise.logs.reader import lines, visible

DECIDING = frozenset(
    """
    device_used gguf load_tensors offload_repeating offload_output offloaded buffer setting flash_attention
    model_loaded listening system_info build verbosity file_type draft
    """.split()
)
"""What `applied` rests on. In a log with time stamps each such line has one; a line without is the rest of a text of
several lines (a model's name, a chat template, a prompt), which can say anything."""


def read(
    data: bytes,
    source: str,
    rules: tuple[GrammarRule, ...],
    patterns: tuple[CrashPattern, ...],
    cut: Cut | None = None,
) -> ServerFacts:
    """The facts of one server's log.

    `source` is the evidence id that refs name (`s0`), `rules` the grammar of llama.cpp and `patterns` the crash
    patterns, both from the catalogue; `cut` says where a bounded capture lost its middle. Any bytes are read; an
    empty log gives facts in which everything is absent.
    """
    table, crashes = rule_table(rules).for_log(data), pattern_table(patterns).for_log(data)
    state = State(source)
    for line in lines(data, cut):
        if line.torn and cut and not state.cut_at and not line.unended:
            state.torn(line_ref(source, line.number))
        step(state, table, crashes, line.number, line.text)
    return facts(state)


def step(
    state: State, table: Matcher[GrammarRule], crashes: Matcher[CrashPattern], number: int, text: str
) -> tuple[Stripped, tuple[Event, ...], CrashPattern | None]:
    """One line, taken into `state`; returns what it was: its text without prefix, the events, and the pattern that
    explains it (only where no metadata rule ended the reading of the line)."""
    state.lines = number
    stripped = strip(text)
    ref = line_ref(state.source, number)
    events: dict[str, Event] = {}
    for rule, match in table.matches(stripped.text):
        if rule.event in events:
            continue
        if rule.event == "metadata":
            state.metadata(stripped.text)
            return stripped, tuple(events.values()), None
        if state.stamped and stripped.form == "plain" and rule.event in DECIDING:
            continue
        fields = {key: value for key, value in match.groupdict().items() if value is not None}
        event = Event(rule.event, fields, ref, stripped.text, rule.id, stripped.seconds)
        events[rule.event] = event
        state.take(event, rule.phase)
    found = best_pattern(crashes, stripped.text)
    if found:
        state.trouble(found[0], found[1], ref, visible(stripped.text))
    state.form(stripped.form, stripped.level)
    return stripped, tuple(events.values()), found[0] if found else None


def facts(state: State) -> ServerFacts:
    """What has been gathered, closed."""
    state.close()
    return ServerFacts(
        runtime=Runtime.LLAMA_CPP,
        version=state.version,
        verbosity=state.verbosity,
        devices=state.seen.all(),
        backends_loaded=tuple(state.backends),
        offload=state.offload(),
        buffers=tuple(state.load.buffers),
        settings=dict(state.load.settings),
        phases=tuple(state.phases.spans),
        last_phase=state.phases.current or Phase.UNKNOWN,
        troubles=tuple(state.troubles),
        timings=tuple(state.timings),
        system_info=state.system_info,
        model_loaded=state.model_loaded,
        clean_end=state.clean_end,
        hidden=state.hidden(),
        lines=state.lines,
        notes=tuple(state.notes),
        file_type=state.load.file_type,
        builds=state.builds,
    )
