"""An Ollama server's log -> ServerLog: the old llama runner (to 0.11), the Go engine (0.6 to 0.24), and the newest
releases, whose runner is llama.cpp's own server (from 0.30).

One stream is one `ollama serve` with all its children: they print to its stderr. A child with a model is a runner; a
child without one is a device probe, which says nothing about requests. llama.cpp's lines are read with llama.cpp's
grammar and belong to the child that was started last.

What such a log can and cannot decide:

- An access line says when a request ended and how long it took, not what it asked nor which model. A load within its
  time is its own; without one it ran on what was loaded before (`ollama_requests.py`). From 0.1.33 to 0.32 a request
  whose num_gpu is negative or absent keeps a loaded runner whatever that was loaded with, and says so nowhere.
- `requested=` is num_gpu as it was asked: negative means that the server chooses.
- The phase of a death is told by the stack of the Go engine (`ollama_dump.py`), or by llama.cpp's own lines. A runner
  that is ready and dies without either may have died in its prompt or while decoding: unknown.
- Probes after a death are the server waiting for its memory to become free; their failures are no fault of discovery.
- The meaning of a layer count changed with 0.30: up to 0.24 the last N repeating layers, then the output layer first.
"""

from __future__ import annotations

from msgspec.structs import replace

from stillruns.model.backend import Runtime
from stillruns.model.evidence import line_ref
from stillruns.model.pattern import CrashPattern, GrammarRule
from stillruns.model.phase import Phase
from stillruns.model.server_facts import Event
from stillruns.model.server_log import LogLine, ServerLog
from stillruns.normalise.logs import ollama_events, slog
from stillruns.normalise.logs.matcher import best_pattern, pattern_table, rule_table, trouble
from stillruns.normalise.logs.ollama_dump import DUMP_LINES, dump_line
from stillruns.normalise.logs.ollama_noun import server_log
from stillruns.normalise.logs.ollama_state import OllamaState
from stillruns.normalise.logs.prefix import strip
from stillruns.normalise.logs.reader import visible
from stillruns.normalise.logs.seam import AFTER
from stillruns.normalise.logs.starts import Starts


def _own(rules: tuple[GrammarRule, ...]) -> list[GrammarRule]:
    return [rule for rule in rules if rule.runtime is Runtime.OLLAMA]


def _gin(rules: tuple[GrammarRule, ...]) -> list[GrammarRule]:
    return [rule for rule in rules if rule.anchor.startswith("[GIN]")]


def _llama(rules: tuple[GrammarRule, ...]) -> list[GrammarRule]:
    return [rule for rule in rules if rule.runtime is Runtime.LLAMA_CPP]


class Reader:
    """Takes the lines of one server, in order; a second start in one stream makes a second server."""

    def __init__(
        self,
        id: str,
        name: str,
        source: str,
        rules: tuple[GrammarRule, ...],
        patterns: tuple[CrashPattern, ...],
    ) -> None:
        """`rules` are the catalogue's for Ollama, which hold llama.cpp's too; `source` is what refs name (`s0`)."""
        self._name, self._source = name, source
        self._own = rule_table(rules, _own).matcher()
        self._gin = rule_table(rules, _gin).matcher()
        self._llama = rule_table(rules, _llama).matcher()
        self._patterns = pattern_table(patterns).matcher()
        self._state = OllamaState(source)
        self._starts = Starts(id)
        self._dumped = 0
        self._after = 0

    def take(self, line: LogLine) -> None:
        """One line without its envelope."""
        text = line.text
        ref = line_ref(self._source, line.number)
        head = slog.head(text)
        state = self._state
        state.deaths.stamp = line.at
        if head is not None:
            if head.message.startswith("Listening on ") and state.versions.stated:
                self._restart()
                state = self._state
                state.deaths.stamp = line.at
            state.slog_line(head)
            state.lines += 1
            self._own_line(text, ref)
            return
        state.lines += 1
        if line.at and not state.at:
            state.at = line.at
        if "[GIN]" in text:
            self._access_line(text, ref)
            return
        self._child_line(text, ref)

    def close(self) -> tuple[ServerLog, ...]:
        """The stream has ended."""
        self._finish()
        return self._starts.close()

    def _access_line(self, text: str, ref: str) -> None:
        """The most frequent line of all is tried against its own rules only."""
        for rule, match in self._gin.matches(text):
            event = Event(rule.event, match.groupdict(), ref, visible(text), rule.id)
            ollama_events.take(self._state, event, rule.phase)
            return

    def _own_line(self, text: str, ref: str) -> None:
        seen: set[str] = set()
        for rule, match in self._own.matches(text):
            if rule.event not in seen:
                seen.add(rule.event)
                fields = {key: value for key, value in match.groupdict().items() if value is not None}
                ollama_events.take(self._state, Event(rule.event, fields, ref, visible(text), rule.id), rule.phase)
        if not seen or "device_refused" in seen:
            self._trouble(text, ref)

    def _child_line(self, text: str, ref: str) -> None:
        state = self._state
        if self._dumped and state.deaths.dump is None:
            self._dumped -= 1
            if dump_line(text):
                return
        if state.deaths.raw(text, ref, visible(text), state.child, state.at, state.place(), state.latest()):
            if state.deaths.dump is not None:
                self._dumped = DUMP_LINES
            state.keep(ref, visible(text))
            self._trouble(text, ref)
            return
        stripped = strip(text)
        if self._after:
            self._after -= 1
            state.texts.setdefault(ref, visible(text))
            if len(state.around) < 2000:
                state.around.add(ref)
        seen: set[str] = set()
        for rule, match in self._llama.matches(stripped.text):
            if rule.event in seen:
                continue
            seen.add(rule.event)
            if rule.event == "metadata":
                if state.child is not None and not state.child.ready:
                    state.child.llama.load.describe(stripped.text)
                    state.header_line = state.lines
                return
            fields = {key: value for key, value in match.groupdict().items() if value is not None}
            ollama_events.take_llama(
                state, Event(rule.event, fields, ref, visible(text), rule.id, stripped.seconds), rule.phase
            )
        if not seen:
            self._own_line(stripped.text, ref)
        elif "gpu_op_failed" in seen:
            self._trouble(text, ref)

    def _trouble(self, text: str, ref: str) -> None:
        found = best_pattern(self._patterns, text)
        if found is None:
            return
        pattern, match = found
        state = self._state
        self._after = AFTER
        probing = state.child is None and state.probing > 0
        found_one = trouble(pattern, match, ref, visible(text), state.phase(), state.deaths.stamp or state.at)
        state.trouble(replace(found_one, phase=Phase.DISCOVER) if probing else found_one)

    def _restart(self) -> None:
        self._finish()
        self._state = OllamaState(self._source)

    def _finish(self) -> None:
        state = self._state
        self._starts.ended(lambda name: server_log(state, name, self._name))
