"""Variables that a worklog's client noted as conditions, held against the catalogue that `lint` judges with."""

from __future__ import annotations

from collections.abc import Iterable

from stillruns.catalogue.options import options
from stillruns.judge.recipe import lint
from stillruns.judge.recipe.ground import Ground
from stillruns.model.lint import LintItem, Reading
from stillruns.model.recipe import RecipeForm
from stillruns.model.worklog import Noted, Unread
from stillruns.normalise.recipe import reading
from stillruns.normalise.recipe.draft import KnownNames

SERVER = "ollama"
"""The program whose worklogs are imported."""

_NOTHING = (Reading.NEVER, Reading.REMOVED, Reading.RENAMED, Reading.OTHER, Reading.BUILD_TIME)
"""Verdicts of a name that has no effect on the server; one that is just not found may be read by some library."""


def unread(noted: Iterable[Noted]) -> tuple[Unread, ...]:
    """The noted variables that the server does not read in any release that the catalogue knows."""
    names = list(dict.fromkeys(name for one in noted for name, _ in one.environment if name.isidentifier()))
    if not names:
        return ()
    text = " ".join(f"{name}=1" for name in names) + f" {SERVER} serve\n"
    recipe = reading.read("noted", text, KnownNames(frozenset({SERVER}), frozenset(), {}), RecipeForm.SHELL)
    ground = Ground(options=options(), installed={}, sources={})
    (result,) = lint.lint([recipe], ground, ())
    return tuple(
        Unread(item.name, item.verdict.value, item.why, _source(item))
        for item in result.items
        if item.name in names and item.verdict in _NOTHING
    )


def _source(item: LintItem) -> str:
    """What the verdict rests on: of the catalogue only the file, since its rows move from release to release and the
    sentence belongs to what `replay` compares."""
    if not item.evidence:
        return ""
    first = item.evidence[0]
    return first.place.rpartition(":")[0] if first.kind == "catalogue" else first.place
