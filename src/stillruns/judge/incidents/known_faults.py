"""Which faults that upstream knows an incident is: only where a sign of it is seen and every condition holds.

A condition that the log does not tell is no match. What would match but for such a condition is said as well, so that
a reader knows what to look up; it is not listed as known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from stillruns.judge import versions
from stillruns.judge.incidents.group import Group, runner_of
from stillruns.model.autopsy import Incident
from stillruns.model.server_log import ServerLog
from stillruns.model.workaround import KnownIssue

_RUNTIMES_UNTOLD = ("unknown", "openai")
_UNTOLD = 2
"""With more conditions untold, nearly every log of that form would be named."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the log tells of one incident. `texts` are its lines, `patterns` the ids of the crash patterns in them,
    `frames` function names; what is not told is None or empty (`backend`, `phase`, `outcome`: `unknown`)."""

    server: ServerLog
    backend: str
    target: str | None
    architecture: str | None
    driver: str
    outcome: str
    phase: str
    signature: str | None
    patterns: Sequence[str]
    frames: Sequence[str]
    texts: Sequence[str]


def named(incident: Incident, server: ServerLog, group: Group, issues: tuple[KnownIssue, ...]) -> Incident:
    """The incident with what upstream knows of it."""
    runner = runner_of(server, group)
    device = next((d for d in server.devices if incident.device and incident.device in (d.name, d.description)), None)
    shown = dict(server.texts)
    noted = [shown[ref] for note in server.notes if note.kind == "override" for ref in note.refs if ref in shown]
    key = [incident.key_line.text] if incident.key_line else []
    seen = Seen(
        server=server,
        backend=incident.backend.value,
        target=incident.target,
        architecture=runner.architecture if runner else None,
        driver=device.driver if device else "",
        outcome=incident.outcome.value if incident.outcome else "unknown",
        phase=incident.phase.value,
        signature=incident.signature,
        patterns=[trouble.pattern for trouble in group.troubles],
        frames=incident.frames,
        texts=[*key, *(excerpt.text for excerpt in incident.evidence), *noted],
    )
    known, possible = matching(seen, issues)
    maybe = "; ".join(f"it may be {name}, but the log does not tell {what}" for name, what in possible)
    why = (("known_issues", maybe),) if maybe and not known else ()
    named_ones = [issue for issue in issues if issue.id in known]
    said = "".join(f" Upstream knows it: {issue.title}." for issue in named_ones)
    fixed = next((issue.fixed_in for issue in named_ones if issue.fixed_in), None)
    return replace(
        incident,
        known_issues=known,
        explanation=incident.explanation + said,
        next_step=f"Use {fixed} or newer. {incident.next_step}".strip() if fixed else incident.next_step,
        why_unknown=(*incident.why_unknown, *why),
    )


def matching(seen: Seen, issues: Iterable[KnownIssue]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """(ids of the faults that this is, (id, what is not told) of those that it may be)."""
    known: list[str] = []
    possible: list[tuple[str, str]] = []
    for issue in issues:
        answers = _conditions(issue, seen)
        # the signs cost more to look for than the conditions
        if any(answer is False for answer in answers.values()) or not _signs(issue, seen):
            continue
        if all(answer is True for answer in answers.values()):
            known.append(issue.id)
            continue
        untold = [name for name, answer in answers.items() if answer is None]
        if len(untold) <= _UNTOLD:
            possible.append((issue.id, " and ".join(untold)))
    return tuple(known), tuple(possible)


def _signs(issue: KnownIssue, seen: Seen) -> bool:
    if seen.signature is not None and seen.signature in issue.signatures:
        return True
    given = []
    if issue.patterns:
        given.append(any(name in seen.patterns for name in issue.patterns))
    if issue.lines:
        given.append(any(re.search(form, text) for form in issue.lines for text in seen.texts))
    if issue.frames:
        given.append(any(frame.startswith(tuple(issue.frames)) for frame in seen.frames))
    return bool(given) and all(given)


def _conditions(issue: KnownIssue, seen: Seen) -> dict[str, bool | None]:
    """Condition -> whether it holds; None where the log does not tell."""
    runtime = seen.server.runtime.value
    found: dict[str, bool | None] = {}
    if issue.runtimes:
        found["the runtime"] = None if runtime in _RUNTIMES_UNTOLD else runtime in issue.runtimes
    for name, wanted, told in (
        ("the backend", issue.backends, seen.backend),
        ("the target", issue.targets, seen.target),
        ("the model's architecture", issue.models, seen.architecture),
        ("the outcome", issue.outcomes, seen.outcome),
        ("the phase", issue.phases, seen.phase),
    ):
        if wanted:
            found[name] = None if told in (None, "unknown") else told in wanted
    if issue.drivers:
        found["the driver"] = any(re.search(form, seen.driver) for form in issue.drivers) if seen.driver else None
    if issue.versions_from or issue.versions_until or issue.fixed_in:
        found["the version"] = _in_range(issue, seen.server)
    return found


def _in_range(issue: KnownIssue, server: ServerLog) -> bool | None:
    low, high = server.version.low, server.version.high
    answers: list[bool | None] = []
    if issue.versions_from:
        answers.append(_not(_before(low, high, issue.versions_from)))
    if issue.versions_until:
        answers.append(_not(_after(low, high, issue.versions_until)))
    if issue.fixed_in:
        answers.append(_before(low, high, issue.fixed_in))
    if any(answer is False for answer in answers):
        return False
    return None if any(answer is None for answer in answers) else True


def _not(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def _before(low: str | None, high: str | None, border: str) -> bool | None:
    """Whether every version that it can be lies before `border`; None where only some do."""
    if low is None or high is None:
        return None
    both = {versions.before(low, border), versions.before(high, border)}
    return both.pop() if len(both) == 1 else None


def _after(low: str | None, high: str | None, border: str) -> bool | None:
    """Whether every version that it can be lies after `border`."""
    if low is None or high is None:
        return None
    both = {versions.before(border, low), versions.before(border, high)}
    return both.pop() if len(both) == 1 else None
