"""Does anything read what a recipe sets, and the values that it gives? Pure: recipes and facts in, verdicts out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stillruns.judge.recipe import builds, claims, conflicts, flags, unseen, variables
from stillruns.judge.recipe.correct import correct
from stillruns.judge.recipe.ground import FAMILY, Case, Ground
from stillruns.model.lint import Against, LintItem, LintResult
from stillruns.model.recipe import Item, ItemKind, Recipe, Scope


def lint(recipes: Sequence[Recipe], ground: Ground, against: Sequence[Against]) -> tuple[LintResult, ...]:
    """One result a recipe, in their order. Conflicts between recipes stand with the one that has to change."""
    found: dict[str, list[LintItem]] = {recipe.path: [] for recipe in recipes}
    pairs: dict[str, list[tuple[Item, LintItem]]] = {recipe.path: [] for recipe in recipes}
    unjudged: dict[str, list[str]] = {recipe.path: [] for recipe in recipes}
    started = _started(recipes)
    for recipe in recipes:
        for item in recipe.items:
            verdict = _item(Case(recipe, item), ground, recipes, started)
            if verdict is None:
                unjudged[recipe.path].append(item.name)
                continue
            found[recipe.path].append(verdict)
            pairs[recipe.path].append((item, verdict))
        found[recipe.path] += claims.find(recipe, ground)
    for clash in conflicts.find(recipes, ground):
        found[clash.said.rpartition(":")[0]].append(clash)
    for recipe in recipes:
        for item, clash in unseen.unexported(recipe, ground):
            found[recipe.path].append(clash)
            pairs[recipe.path].append((item, clash))
        found[recipe.path] += [*unseen.taken_away(recipe), *unseen.not_expanded(recipe)]
    results: list[LintResult] = []
    for recipe in recipes:
        corrected, edits = correct(recipe, pairs[recipe.path], ground)
        results.append(
            LintResult(
                recipe=recipe.path,
                form=recipe.form.value,
                against=tuple(against),
                items=tuple(sorted(found[recipe.path], key=_line)),
                edits=edits,
                corrected=corrected,
                notes=tuple(_notes(recipe, unjudged[recipe.path], ground)),
            )
        )
    return tuple(results)


def _line(item: LintItem) -> int:
    return int(item.said.rpartition(":")[2])


def _item(case: Case, ground: Ground, recipes: Sequence[Recipe], started: tuple[str, ...]) -> LintItem | None:
    kind = case.item.kind
    ground = ground.of(case.command.scope if case.command and kind is not ItemKind.ENV else case.item.scope)
    if kind is ItemKind.FLAG:
        return flags.judge(case, ground)
    if kind is ItemKind.ENV:
        return variables.judge(case, ground, programs(case, started))
    if kind is ItemKind.CMAKE:
        return builds.option(case, ground)
    if kind is ItemKind.PROGRAM:
        return builds.program(case, ground)
    return flags.configuration(case, ground, _servers(recipes, ground))


def programs(case: Case, started: tuple[str, ...]) -> tuple[str, ...]:
    """The programs that can see a variable: its own command's, else all of ours that the recipes start."""
    command = case.command
    if command is not None and case.item.scope is Scope.CONTAINER and re.search("[/: ]", command.program):
        return ()  # an image that nobody here knows: whatever it starts
    if command is not None and case.item.scope is not Scope.BUILD:
        return (command.program,)
    return started


def _started(recipes: Sequence[Recipe]) -> tuple[str, ...]:
    return tuple(sorted({c.program for recipe in recipes for c in recipe.commands if _ours(c.program)}))


def _ours(program: str) -> bool:
    return program.startswith(FAMILY) or program in (
        "ollama",
        "main",
        "server",
        "python",
        "python3",
        "vllm",
        "torchrun",
    )


def _servers(recipes: Sequence[Recipe], ground: Ground) -> tuple[str, ...]:
    started = sorted({ground.program(c.program) for r in recipes for c in r.commands if ground.is_llama(c.program)})
    return tuple(started) or tuple(sorted(ground.installed)) or ("llama-server",)


def _notes(recipe: Recipe, unjudged: list[str], ground: Ground) -> list[str]:
    notes = [f"{recipe.path}:{note.line}: {note.text}" for note in recipe.notes]
    others = sorted(
        {c.program for c in recipe.commands if not ground.options_of(c.program) and not _quiet(c.program)}
    )
    if others:
        notes.append(f"not judged, as they are neither llama.cpp's nor Ollama's: {', '.join(others)}")
    if unjudged:
        whose = "the shell's, the loader's or another project's, or an older build's that was not read"
        notes.append(f"not judged ({whose}): {', '.join(sorted(set(unjudged)))}")
    return notes


def _quiet(program: str) -> bool:
    return program in ("cd", "echo", "cmake", "make", "ollama", "mkdir", "set", "source", ".", "cat", "", "systemctl")
