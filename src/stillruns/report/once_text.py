"""A supervised command as Markdown to paste into a bug report (at most 60 lines), and as JSON."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import msgspec

from stillruns.model.applied import Answer, FactorApplied
from stillruns.model.component import Component
from stillruns.model.hint import hint
from stillruns.model.once_result import STOPPED_BY, OnceResult
from stillruns.model.outcome import OutcomeKind
from stillruns.model.phase import Phase
from stillruns.model.wording import significant
from stillruns.redact.environment import secret_name
from stillruns.report import pasteable
from stillruns.report.columns import cut
from stillruns.report.numbers import rounded

LINES = 60
EXCERPTS = 24
DEVICES = 6
WIDTH = 240
PROGRAMS = 6
"""Command lines of programs where several ran."""
COMMAND = 6
"""Lines of a command."""
CAUSE = 100
"""Characters of a cause in the first line."""
MONOTONE = 8
"""From so many signs on an answer of a single one is remarked on."""
REFUSED = re.compile(r"error(?=: (?:invalid|unknown) argument)(?:: )?|error while handling (?=argument )")
"""What stands before a program's own words on the argument that it refused."""
UNTOLD = ("interrupted", "no device with sensors", STOPPED_BY)
"""Notes that say nothing more."""
NOT_REACHED = "not reached"


def markdown(result: OnceResult) -> str:
    """What was asked, what was applied, how it ended, and the lines that tell; never more than 60 lines."""
    top = [f"### {headline(result)}", "", "```", *_wrapped(pasteable.command(result.argv)), "```", ""]
    top += [*_facts(result), "", "| asked | value | applied | seen |", "|---|---|---|---|"]
    top += [_row(name, factor) for name, factor in result.applied.factors.items()]
    if result.applied.status is not Answer.YES:
        top += ["", f"Applied: **{result.applied.status.value}**: {pasteable.text(result.applied.why)}."]
    if result.explanation:
        top += ["", pasteable.text(result.explanation)]
    if result.next_step:
        top += ["", f"Next: {pasteable.text(result.next_step).rstrip('.')}."]
    end = ["", f"Evidence: `{evidence(result, public=True)}`; with `--log` the whole log, not redacted"]
    room = LINES - len(top) - len(end) - 3
    excerpts = _excerpts(result, max(0, room))
    middle = ["", "```", *excerpts, "```"] if excerpts else ["", "No line of its output is quoted here."]
    return "\n".join((*top, *middle, *end)) + "\n"


def evidence(result: OnceResult, *, public: bool = False) -> str:
    """The command that shows the trial; where it is made `public`, without names in the paths in it."""
    command = hint("show", result.trial)
    return pasteable.text(command.removesuffix(result.trial)) + result.trial if public else command


def headline(result: OnceResult) -> str:
    """`llama-server: SIGSEGV in prompt; layers asked 99, applied 5/5, on Vulkan0`."""
    name = result.program or result.argv[0].rsplit("/", 1)[-1]
    ended = _without_phase(result, result.outcome.text) + _cause(result)
    if result.outcome.kind is OutcomeKind.OK:
        ended = "ended cleanly" if not result.mixed else "exit status 0"
        if result.tokens_per_second is not None or result.answer:
            ended = f"ran and answered{_monotone(result)}"
        elif result.stopped_by_us:
            ended = f"ran until it was stopped by {_stopper(result)}"
    if result.mixed:
        return pasteable.text(
            f"{name}: {ended}; at least {result.mixed} llama.cpp programs ran, none of them is judged"
        )
    layers = result.applied.factors.get("gpu_layers")
    placed = f"; layers asked {layers.asked}, {_got(layers)}" if layers else ""
    return pasteable.text(f"{name}: {ended}{placed}{_where(result)}")


def _facts(result: OnceResult) -> list[str]:
    """The bullets: program, host, devices, end, answer."""
    lines = [f"- program: {_program(result)}"]
    if result.started:
        lines.append(f"- started as: {_code(cut(pasteable.command(result.started), 2 * WIDTH))}")
    lines += [f"- seen to run: {_code(cut(pasteable.command(words), WIDTH))}" for words in result.programs[:PROGRAMS]]
    if len(result.programs) > PROGRAMS:
        lines.append(f"- seen to run besides: {len(result.programs) - PROGRAMS} more")
    if result.system:
        lines.append(f"- system: {pasteable.text(result.system)}")
    lines += [f"- device listed: {pasteable.text(device)}" for device in result.devices[:DEVICES]]
    if len(result.devices) > DEVICES:
        lines.append(f"- and {len(result.devices) - DEVICES} devices more")
    if result.environment:
        lines.append(f"- environment: {_code(cut(pasteable.variables(result.environment), 2 * WIDTH))}")
    if result.added and (result.mixed or result.program or result.version or result.devices):
        added = _code(pasteable.variables(result.added))
        lines.append(f"- added to the environment by stillruns, so that the load lines are printed: {added}")
    lines.append(f"- ended: {ending(result)}")
    if candidates := [c.value for c in result.outcome.components if c is not Component.UNKNOWN]:
        lines.append(f"- candidates: {', '.join(candidates)}")
    if result.answer:
        lines.append(f"- answer to a request of stillruns' own: {_code(cut(pasteable.text(result.answer), WIDTH))}")
    if result.tokens_per_second is not None:
        lines.append(f"- speed: {significant(result.tokens_per_second)} tokens/s of evaluation time")
    lines += [f"- note: {pasteable.text(note)}" for note in result.notes if not note.startswith(UNTOLD)]
    return lines


def _program(result: OnceResult) -> str:
    if result.mixed:
        return f"at least {result.mixed} of llama.cpp's, with one log"
    if not result.program:
        return (
            "no llama.cpp one" if not (result.version or result.devices) else f"llama.cpp {result.version}".rstrip()
        )
    build = next((text for text in result.excerpts.values() if text.startswith("build: ")), "")
    version = pasteable.text(result.version or build)
    return f"{_code(result.program)} {version or '(its log names no build: give what `--version` prints)'}"


def _row(name: str, factor: FactorApplied) -> str:
    """`yes` without anything seen is a trial that died before: nothing speaks against it, and nothing for it."""
    reached = factor.status is not Answer.YES or factor.got is not None
    status = factor.status.value if reached else NOT_REACHED
    seen = factor.got or factor.why or "it ended before the line that tells"
    return f"| {name} | {_cell(factor.asked)} | {status} | {_cell(seen)} |"


def _got(layers: FactorApplied) -> str:
    if layers.status is Answer.YES and layers.got is None:
        return NOT_REACHED
    return "not applied" if layers.status is Answer.NO and not layers.got else f"applied {layers.got or 'unknown'}"


def _where(result: OnceResult) -> str:
    """The device in use; a command that asked for none and used none ran on the CPU."""
    if result.used:
        return f", on {', '.join(result.used)}"
    if not _on_cpu(result):
        return ""
    return "; it ran on the CPU" if result.applied.status is Answer.NO else ", on the CPU"


def _cause(result: OnceResult) -> str:
    """What the catalogue says of the deciding line, where that is one short sentence and its words are not there."""
    if result.outcome.detail.startswith("HTTP ") and result.answer.startswith("error: "):
        return f": {result.answer.removeprefix('error: ')[:CAUSE]}"
    if REFUSED.match(result.outcome.key_text):
        return f": {REFUSED.sub('', result.outcome.key_text)[:CAUSE]}"
    first = result.explanation.partition(". ")[0].rstrip(".")
    left = result.outcome.kind in (OutcomeKind.ERROR, OutcomeKind.NOT_READY) and ": " not in result.outcome.text
    if not left or not first or len(first) > CAUSE or ";" in first:
        return ""
    return f": {first[0].lower() if first[1:2].islower() else first[0]}{first[1:]}"


def _monotone(result: OnceResult) -> str:
    """An answer of one sign over and over is what a broken kernel often gives; a small model does it as well."""
    signs = result.answer.replace(" ", "")
    return ", with one sign over and over" if len(signs) >= MONOTONE and len(set(signs)) == 1 else ""


def _without_phase(result: OnceResult, text: str) -> str:
    """A program that is none of llama.cpp's has no phases to be in."""
    return text if result.program else text.replace(" in an unknown phase", "")


def _stopper(result: OnceResult) -> str:
    """What ended a command that would have gone on: Ctrl-C, or the signal that stillruns was sent."""
    return next((note.removeprefix(STOPPED_BY) for note in result.notes if note.startswith(STOPPED_BY)), "Ctrl-C")


def ending(result: OnceResult) -> str:
    """How it ended, and who ended it."""
    text = result.outcome.kind.value
    if result.outcome.kind is not OutcomeKind.OK and result.program:
        known = result.outcome.phase is not Phase.UNKNOWN
        text += f" in phase {result.outcome.phase.value}" if known else ", phase unknown"
    if result.outcome.detail:
        text += f" ({pasteable.text(_without_phase(result, result.outcome.detail))})"
    text += f" after {result.seconds:.1f} s"
    if not result.stopped_by_us:
        return text
    asked = result.answer or result.tokens_per_second is not None
    by_the_user = result.outcome.kind in (OutcomeKind.OK, OutcomeKind.INTERRUPTED) and not asked
    return f"{text}, stopped by {_stopper(result) if by_the_user else 'stillruns'}"


def document(result: OnceResult) -> dict[str, Any]:
    """`stillruns.once/1` (docs/schemas/once.json). Redacted like the Markdown, since JSON is pasted as well."""
    shown = dataclasses.replace(
        result,
        argv=pasteable.words(result.argv),
        started=pasteable.words(result.started),
        programs=tuple(pasteable.words(words) for words in result.programs),
        asked={k: v if k != "api_key" else pasteable.SECRET for k, v in result.asked.items()},
        environment={k: v if not secret_name(k) else pasteable.SECRET for k, v in result.environment.items()},
    )
    body: dict[str, Any] = {"schema": "stillruns.once/1", **_pasteable(msgspec.to_builtins(shown))}
    del body["refs"]
    body["excerpts"] = [{"ref": ref, "text": text} for ref, text in body["excerpts"].items()]
    body["markdown"] = markdown(result)
    clean = rounded(body)
    assert isinstance(clean, dict)
    return clean


_CLOSED = frozenset(("run", "trial", "program", "kind", "phase", "signal", "components", "status"))
"""Fields whose values are this program's own words, whatever a user or a machine is called."""


def _pasteable(value: Any) -> Any:
    """Every text in it, redacted."""
    if isinstance(value, str):
        return pasteable.text(value)
    if isinstance(value, dict):
        return {key: entry if key in _CLOSED else _pasteable(entry) for key, entry in value.items()}
    return [_pasteable(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def marks(result: OnceResult) -> set[str]:
    """Which of `--fail-on`'s words it earns."""
    earned = set()
    if result.outcome.kind is OutcomeKind.WRONG_OUTPUT:
        earned.add("wrong")
    elif result.outcome.kind not in (OutcomeKind.OK, OutcomeKind.INTERRUPTED):
        earned.add("crash")
    elif result.mixed and result.outcome.refs:
        earned.add("crash")  # one of its programs' lines tells of trouble, and nobody can say that it went well
    if result.applied.status is Answer.NO:
        earned.add("void")
    return earned


def _on_cpu(result: OnceResult) -> bool:
    backend = result.applied.factors.get("backend")
    return backend is not None and backend.got == "cpu"


def _wrapped(text: str) -> list[str]:
    most = COMMAND * WIDTH
    cut = f" ... ({len(text) - most} characters more)" if len(text) > most else ""
    return [text[i : i + WIDTH] for i in range(0, min(len(text), most), WIDTH)] + ([cut] if cut else [])


def _excerpts(result: OnceResult, room: int) -> list[str]:
    """The lines that tell, as many as there is room for; that there are more takes the place of the last."""
    most, told = min(room, EXCERPTS), list(result.excerpts.items())
    kept = told if len(told) <= most else told[: max(0, most - 1)]
    shown = [f"{ref} {cut(pasteable.text(text), WIDTH)}".replace("```", "'''") for ref, text in kept]
    return [*shown, f"... and {len(told) - len(kept)} lines more"] if len(kept) < len(told) and most else shown


def _code(text: str) -> str:
    return "`" + pasteable.text(text).replace("`", "'") + "`"


def _cell(text: str) -> str:
    return cut(pasteable.text(text), WIDTH).replace("|", "\\|")
