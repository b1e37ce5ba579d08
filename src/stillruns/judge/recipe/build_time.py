"""Variables that only a build reads, CMake's options among them."""

from __future__ import annotations

from stillruns.judge.recipe import values
from stillruns.judge.recipe.ground import cite_reader, cite_row
from stillruns.judge.recipe.made import verdict
from stillruns.judge.recipe.reach import View
from stillruns.model.lint import LintItem, Reading, ValueReading
from stillruns.model.option_row import OptionRow, Status
from stillruns.model.recipe import Scope

GONE = (Status.REMOVED, Status.RENAMED, Status.NEVER, Status.NO_READER)
"""Rows that say that nothing reads the name any more, whether a build did or a program."""


def judge(view: View, row: OptionRow | None) -> LintItem | None:
    """A CMake option, or a variable that only a build reads."""
    ground, building = view.ground, row is not None and _is_built(view, row)
    runtime = [reader for reader in ground.readers(view.name, "env") if reader.owner != "cmake"]
    if row is not None and (not row.build or row.status in GONE):
        return None
    option = ground.options.find("cmake", view.name)
    computed = ground.readers(view.name, "cmake") + ground.readers(view.name, "cmake-gone")
    is_option = option is not None or bool(computed) or (row is not None and "NOT an environment" in row.notes)
    evidence = [cite_row(found) for found in (row, option) if found] + [cite_reader(found) for found in computed[:1]]
    if building and row is not None and not option and not computed:
        return verdict(
            view.case, Reading.READ, evidence, reader=row.reader, effect=row.effect, default=row.default,
            value=values.variable(view.case.item, row), accepts=row.values,
        )  # fmt: skip
    build_only = (row is not None and row.build) or (is_option and not runtime)
    if not build_only or not evidence:
        return None
    new = option.use if option is not None and option.use and option.use.isidentifier() else view.name
    what = row if row is not None else option
    use = (
        f"cmake -B build -D{new}={view.case.item.value or 'ON'}, and a new build"
        if is_option
        else "set it for the build"
    )
    return verdict(
        view.case,
        Reading.BUILD_TIME,
        evidence,
        why="no finished program reads it; it is an option of the build" if is_option else "only a build reads it",
        value=(ValueReading.NO_EFFECT, ""),
        reader="CMake, at build time",
        effect=what.effect if what else "",
        accepts=what.values if what else "",
        use=use,
    )


def _is_built(view: View, row: OptionRow) -> bool:
    """Does the recipe start a build that reads the variable?"""
    recipe, item = view.case.recipe, view.case.item
    owners = [owner for name in row.owner.split("|") if (owner := view.ground.options.owner(name))]
    started = {c.program for c in recipe.commands if c.line >= item.line}
    if any(owner.id in ("cmake", "make") for owner in owners):
        return item.scope is Scope.BUILD or bool(started & {"cmake", "make", "gmake", "ninja"})
    return any(started & set(owner.programs) for owner in owners)
