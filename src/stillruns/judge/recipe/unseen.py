"""Variables that a script sets and that no program of it sees: never exported, unset, or emptied by `env -i`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stillruns.judge.recipe.conflicts import conflict, said
from stillruns.judge.recipe.ground import FAMILY, Case, Ground
from stillruns.judge.recipe.variables import INDEXED, NOT_JUDGED, settings
from stillruns.model.lint import Citation, LintItem, ValueReading
from stillruns.model.recipe import Command, Item, ItemKind, Recipe, RecipeForm, Scope

EXPORTED = Citation(
    "manual",
    "bash(1), ENVIRONMENT",
    "a variable is passed to the programs that a shell starts when it is exported, or written before the command",
    "https://www.gnu.org/software/bash/manual/html_node/Environment.html",
)


NOT_EXPANDED = Citation(
    "manual",
    "systemd.exec(5), Environment=",
    "variable expansion is not performed inside the strings, and the $ character has no special meaning",
    "https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html",
)
_FILLED_IN = re.compile(r"\$\{?[A-Za-z_]\w*\}?")


def unexported(recipe: Recipe, ground: Ground) -> Iterator[tuple[Item, LintItem]]:
    """`HSA_ENABLE_SDMA=0` on a line of its own. Only names that some program of ours reads: many variables of a
    script are meant for itself."""
    named = {item.name for item in recipe.items if item.kind is ItemKind.ENV}
    for item in recipe.unexported:
        after = next((c for c in recipe.commands if _ours(c) and c.line >= item.line), None)
        if after is None or item.name in named | NOT_JUDGED or not _known(item.name, ground):
            continue
        why = (
            f"it is a variable of the shell only: nothing exports it, so {after.program} (line {after.line}) does "
            "not see it unless the shell that starts this script exported it before"
        )
        places = [said(recipe, item.line), said(recipe, after.line), EXPORTED]
        value = item.value if item.value is not None else "..."
        yield (
            item,
            conflict(
                Case(recipe, item), why, places, use=f"export {item.name}={value}", value=ValueReading.NO_EFFECT
            ),
        )


def not_expanded(recipe: Recipe) -> Iterator[LintItem]:
    """`Environment="PATH=$PATH"`: systemd hands the dollar sign on as it stands."""
    for item in recipe.items if recipe.form is RecipeForm.UNIT else ():
        found = _FILLED_IN.search(recipe.text[item.name_end : item.end])
        if item.kind is ItemKind.ENV and item.how == "Environment=" and found:
            why = f"systemd fills nothing in here: the value is the text `{found.group()}` itself"
            places = [said(recipe, item.line), NOT_EXPANDED]
            yield conflict(Case(recipe, item), why, places, value=ValueReading.OTHER_MEANING)


def taken_away(recipe: Recipe) -> Iterator[LintItem]:
    """A setting that every program behind it is started without."""
    for item in settings(recipe):
        if item.command >= 0:
            command = recipe.commands[item.command]
            reached = [command] if item.how == "before the command" else []
            hiding = [c for c in reached if item.name in c.without]
        else:
            reached = [
                c for c in recipe.commands if _ours(c) and c.line >= item.line and c.scope is not Scope.SERVICE
            ]
            hiding = [c for c in reached if {item.name, "*"} & set(c.without)]
        if not hiding or len(hiding) < len(reached):
            continue
        how = "`env -i` empties its environment" if "*" in hiding[0].without else "it is unset before that"
        yield conflict(
            Case(recipe, item),
            f"{hiding[0].program} (line {hiding[0].line}) does not see it: {how}",
            [said(recipe, item.line), said(recipe, hiding[0].line)],
            value=ValueReading.NO_EFFECT,
        )


def _known(name: str, ground: Ground) -> bool:
    row = ground.options.find("env", name)
    if row is not None:
        return not row.build
    argument = any(flag.env == name for flag in ground.options.flags)
    return argument or bool(ground.readers(name, "env") or INDEXED.match(name))


def _ours(command: Command) -> bool:
    ours = command.program.startswith(FAMILY) or command.program in ("ollama", "main", "server")
    return ours and command.scope not in (Scope.CONTAINER, Scope.BUILD)
