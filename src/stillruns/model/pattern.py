"""Log grammar rules and crash patterns, as the catalogue holds them."""

from __future__ import annotations

import msgspec

from stillruns.model.backend import Runtime
from stillruns.model.component import Component
from stillruns.model.outcome import OutcomeKind
from stillruns.model.phase import Phase


class GrammarRule(msgspec.Struct, frozen=True):
    """A line form of one runtime. `regex` is matched with search on the line without its prefix; named groups become
    the event's fields. `anchor` is a literal that every matching line contains (for the fast prefilter). `phase` is
    set when the line tells one. `since`/`until` are versions (`b4000`, `0.12.4`, or empty), `source` says who prints
    it."""

    id: str
    runtime: Runtime
    event: str
    regex: str
    anchor: str
    phase: Phase | None
    since: str
    until: str
    source: str


class TargetAdvice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to try first where a pattern explains a failure on one of these targets (without features): `text` is a
    plain sentence, `source` says where its facts were read."""

    targets: tuple[str, ...]
    text: str
    source: str


class CrashPattern(msgspec.Struct, frozen=True):
    """A line that explains a failure. Higher `rank` explains more; `origin` is `real` or `composed` (a pattern whose
    only golden log was composed never says `high`). `explanation` and `next_step` are plain sentences, `next_for`
    what fits a target better than `next_step`. `phase` is what the line tells by itself; `phase_alone` is the phase
    where no line before it told one."""

    id: str
    regex: str
    anchor: str
    outcome: OutcomeKind
    components: tuple[Component, ...]
    phase: Phase | None
    rank: int
    origin: str
    explanation: str
    next_step: str
    source: str
    workarounds: tuple[str, ...] = ()
    harmless_when: str = ""
    phase_alone: Phase = Phase.UNKNOWN
    next_for: tuple[TargetAdvice, ...] = ()

    def place(self, current: Phase) -> Phase:
        """The phase of a line that it explains; `current` is what the lines before it told."""
        return self.phase or (self.phase_alone if current is Phase.UNKNOWN else current)

    def advice(self, target: str | None) -> str:
        """What to try next on a target as a log prints it (`gfx906:sramecc+:xnack-`); None is an unknown one."""
        bare = (target or "").split(":", 1)[0]
        return next((advice.text for advice in self.next_for if bare in advice.targets), self.next_step)
