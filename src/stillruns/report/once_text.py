"""A supervised command as Markdown to paste into a bug report (at most 60 lines), and as JSON."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from stillruns.model.applied import Answer
from stillruns.model.once_result import OnceResult
from stillruns.model.outcome import OutcomeKind
from stillruns.model.phase import Phase
from stillruns.model.wording import significant
from stillruns.report import pasteable
from stillruns.report.numbers import rounded

LINES = 60
EXCERPTS = 16
WIDTH = 240


def markdown(result: OnceResult) -> str:
    """What was asked, what was applied, how it ended, and the lines that tell; never more than 60 lines."""
    lines = [f"### {headline(result)}", ""]
    lines += ["```", *_wrapped(pasteable.command(result.argv)), "```", ""]
    version = pasteable.text(result.version)
    program = f"{_code(result.program)} {version}".rstrip() if result.program else "no llama.cpp one"
    lines.append(f"- program: {program}")
    lines += [f"- device listed: {pasteable.text(device)}" for device in result.devices[:6]]
    lines.append(f"- ended: {ending(result)}")
    if result.outcome.components:
        lines.append(f"- candidates: {', '.join(c.value for c in result.outcome.components)}")
    if result.tokens_per_second is not None:
        lines.append(f"- speed: {significant(result.tokens_per_second)} tokens/s of evaluation time")
    if result.added:
        added = " ".join(f"{k}={v}" for k, v in result.added.items())
        lines.append(f"- added to the environment by stillruns, so that the load lines are printed: {_code(added)}")
    lines += ["", "| asked | value | applied | seen |", "|---|---|---|---|"]
    for name, factor in result.applied.factors.items():
        lines.append(
            f"| {name} | {_cell(factor.asked)} | {factor.status.value} | {_cell(factor.got or factor.why)} |"
        )
    if result.applied.status is not Answer.YES:
        lines += ["", f"Applied: **{result.applied.status.value}**: {pasteable.text(result.applied.why)}."]
    if result.explanation:
        lines += ["", pasteable.text(result.explanation)]
    if result.next_step:
        lines += ["", f"Next: {pasteable.text(result.next_step).rstrip('.')}."]
    excerpts = _excerpts(result)
    lines += ["", "```", *excerpts, "```"] if excerpts else ["", "No line of its output tells more."]
    lines += ["", f"Evidence: `stillruns show {result.trial}`"]
    return "\n".join(_bounded(lines)) + "\n"


def headline(result: OnceResult) -> str:
    """`llama-server: SIGSEGV in prompt; gpu_layers asked 99, applied 5/5`."""
    name = result.program or result.argv[0].rsplit("/", 1)[-1]
    ended = result.outcome.text
    if result.outcome.kind is OutcomeKind.OK:
        ended = "ran and answered" if result.tokens_per_second is not None else "ended cleanly"
    layers = result.applied.factors.get("gpu_layers")
    placed = f"; layers asked {layers.asked}, applied {layers.got or 'unknown'}" if layers else ""
    fell = "; it ran on the CPU" if result.applied.status is Answer.NO and _on_cpu(result) else ""
    return pasteable.text(f"{name}: {ended}{placed}{fell}")


def ending(result: OnceResult) -> str:
    """How it ended, and who ended it."""
    text = result.outcome.kind.value
    if result.outcome.kind is not OutcomeKind.OK:
        known = result.outcome.phase is not Phase.UNKNOWN
        text += f" in phase {result.outcome.phase.value}" if known else ", phase unknown"
    if result.outcome.detail:
        text += f" ({pasteable.text(result.outcome.detail)})"
    text += f" after {result.seconds:.1f} s"
    return text + (", stopped by stillruns" if result.stopped_by_us else "")


def document(result: OnceResult) -> dict[str, Any]:
    """`stillruns.once/1` (docs/schemas/once.json). Without keys and tokens, since JSON is pasted as well."""
    shown = dataclasses.replace(
        result,
        argv=pasteable.words(result.argv),
        asked={k: v if k != "api_key" else pasteable.SECRET for k, v in result.asked.items()},
    )
    body: dict[str, Any] = {"schema": "stillruns.once/1", **msgspec.to_builtins(shown)}
    del body["refs"]
    body["excerpts"] = [{"ref": ref, "text": text} for ref, text in result.excerpts.items()]
    body["markdown"] = markdown(result)
    clean = rounded(body)
    assert isinstance(clean, dict)
    return clean


def marks(result: OnceResult) -> set[str]:
    """Which of `--fail-on`'s words it earns."""
    earned = set()
    if result.outcome.kind is OutcomeKind.WRONG_OUTPUT:
        earned.add("wrong")
    elif result.outcome.kind not in (OutcomeKind.OK, OutcomeKind.INTERRUPTED):
        earned.add("crash")
    if result.applied.status is Answer.NO:
        earned.add("void")
    return earned


def _on_cpu(result: OnceResult) -> bool:
    backend = result.applied.factors.get("backend")
    return backend is not None and backend.got == "cpu"


def _wrapped(text: str) -> list[str]:
    return [text[i : i + WIDTH] for i in range(0, min(len(text), 6 * WIDTH), WIDTH)]


def _excerpts(result: OnceResult) -> list[str]:
    shown = [f"{ref} {pasteable.text(text)[:WIDTH]}" for ref, text in list(result.excerpts.items())[:EXCERPTS]]
    return [line.replace("```", "'''") for line in shown]


def _code(text: str) -> str:
    return "`" + pasteable.text(text).replace("`", "'") + "`"


def _cell(text: str) -> str:
    return pasteable.text(text).replace("|", "\\|")[:WIDTH]


def _bounded(lines: list[str]) -> list[str]:
    if len(lines) <= LINES:
        return lines
    return [*lines[: LINES - 2], "(cut)", lines[-1]]
