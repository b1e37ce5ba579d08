"""The conductor of `lint`: read the recipes, ask the installed programs, read the trees, judge."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from stillruns.catalogue.options import options as catalogue
from stillruns.catalogue.target_names import target_names
from stillruns.collect import installed, source_tree
from stillruns.errors import UsageError
from stillruns.judge.recipe import lint as judge
from stillruns.judge.recipe.flags import CONFIG_FILE
from stillruns.judge.recipe.ground import FAMILY, Ground
from stillruns.judge.recipe.release import infer
from stillruns.model.absence import Absence
from stillruns.model.installed import Installed, SourceRead
from stillruns.model.lint import Against, LintItem, LintResult, Reading
from stillruns.model.option_row import Options, Status
from stillruns.model.recipe import ItemKind, Recipe, RecipeForm
from stillruns.normalise import env_reads, program_help
from stillruns.normalise.recipe import reading
from stillruns.normalise.recipe.draft import KnownNames

LARGEST = 16 << 20
"""Bytes of a file that is read as a recipe."""

_SOURCES = env_reads.SUFFIXES


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked: files (`-` is standard input, already read into `text`), a command, where things are."""

    files: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    text: str = ""
    form: RecipeForm | None = None
    binaries: Mapping[str, Path] = field(default_factory=dict)
    sources: tuple[tuple[str, Path, str], ...] = ()
    """(name, folder, revision or empty)."""
    look_on_path: bool = True
    configuration: bool = True
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


def lint(request: Request) -> tuple[LintResult, ...]:
    """One result a recipe. Raises UsageError for files that cannot be read, EnvironmentLacks for a named binary."""
    options = catalogue()
    names = _names(options, request.binaries)
    recipes = [_file(name, request, names) for name in request.files]
    if request.command:
        recipes.append(reading.command_line(request.command, names))
    engines = _engines(recipes, request, options)
    if request.configuration and any(name.startswith("llama-") for name in engines):
        for path in installed.configuration(request.environ):
            recipes.append(_file(str(path), request, names, RecipeForm.CONFIG))
    known = {row.name for row in options.rows if row.kind == "env"} | {reader.name for reader in options.readers}
    engines = {name: _with_hits(engine, recipes, known) for name, engine in engines.items()}
    sources, against = _trees(request.sources)
    ground = Ground(
        options=options,
        installed=engines,
        sources=sources,
        source_names=tuple(name for name, _, _ in request.sources),
        targets=target_names(),
    )
    results = judge.lint(recipes, ground, [*_against(engines, options), *against])
    again = [_corrected(recipe, result, names) for recipe, result in zip(recipes, results, strict=True)]
    after = judge.lint(again, ground, ())
    return tuple(
        replace(result, still_open=tuple(_open(item) for item in checked.items if not item.good))
        if result.corrected is not None
        else result
        for result, checked in zip(results, after, strict=True)
    )


def _corrected(recipe: Recipe, result: LintResult, names: KnownNames) -> Recipe:
    """The corrected text read again: what it still leaves is found by judging it, not by trusting the edits."""
    if result.corrected is None:
        return recipe
    return reading.read(recipe.path, result.corrected, names, recipe.form)


def _open(item: LintItem) -> str:
    line = item.said.rpartition(":")[2]
    value = f" {item.value}" if item.value is not None else ""
    verdict = item.value_verdict.value if item.verdict is Reading.READ and item.value_verdict else item.verdict.value
    return f"line {line}: {item.name}{value}: {verdict}{f'; {item.why}' if item.why else ''}"


def _names(options: Options, binaries: Mapping[str, Path]) -> KnownNames:
    programs = {reader.name for reader in options.readers if reader.kind == "program"} | set(binaries) | {"ollama"}
    old = {row.name for row in options.rows if row.kind == "program" and row.status is Status.RENAMED}
    programs |= {row.name for row in options.rows if row.kind == "program" and row.status is Status.CURRENT}
    return KnownNames(frozenset(programs), frozenset(old), options.images)


def _file(name: str, request: Request, names: KnownNames, form: RecipeForm | None = None) -> Recipe:
    if name == "-":
        return reading.read("-", request.text, names, form or request.form)
    path = Path(name)
    try:
        if path.is_dir():
            raise UsageError(f"{name} is a folder; name the file of the recipe")
        with path.open("rb") as file:
            data = file.read(LARGEST)
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}; name the file of the recipe") from error
    return reading.read(name, data.decode("utf-8", "replace"), names, form or request.form)


def _engines(recipes: Sequence[Recipe], request: Request, options: Options) -> dict[str, Installed]:
    """The programs that the recipes start, and those that the user named, as they are installed."""
    wanted: set[str] = set(request.binaries)
    for recipe in recipes:
        for command in recipe.commands:
            row = options.find("program", command.program)
            name = row.use if row is not None and row.status is Status.RENAMED else command.program
            if name.startswith(FAMILY) or name == "ollama":
                wanted.add(name)
        if recipe.form is RecipeForm.CONFIG:
            wanted.add("llama-server")
    found: dict[str, Installed] = {}
    for name in sorted(wanted):
        if name in request.binaries or request.look_on_path:
            found[name] = _engine(name, request)
    return found


def _engine(name: str, request: Request) -> Installed:
    where = installed.find(name, request.binaries, request.environ)
    if isinstance(where, Absence):
        return Installed(name, "", "", "", (), (), (), problem=where)
    path, how = where
    printed = installed.ask(path, "--help", request.environ)
    version = installed.ask(path, "--version", request.environ)
    files, missing = installed.files(path, request.environ)
    lines, found = program_help.read(printed.text) if not isinstance(printed, Absence) else ((), ())
    said = version.text.strip().split("\n") if not isinstance(version, Absence) else [""]
    told = next((line for line in said if "version" in line.lower()), said[0])
    problem = printed if isinstance(printed, Absence) and not files else None
    return Installed(name, str(path), how, told.strip(), lines, found, files, missing=missing, problem=problem)


def _with_hits(engine: Installed, recipes: Iterable[Recipe], known: Iterable[str]) -> Installed:
    wanted = {CONFIG_FILE}
    for recipe in recipes:
        for item in recipe.items:
            if item.kind is ItemKind.ENV:
                wanted |= {item.name, item.name.replace("LLAMA_ARG_NO_", "LLAMA_ARG_")}
    return replace(engine, hits=installed.strings(engine.files, wanted, known))


def _trees(
    sources: Sequence[tuple[str, Path, str]],
) -> tuple[dict[str, tuple[SourceRead, ...]], list[Against]]:
    """Reads of every tree by name."""
    found: dict[str, list[SourceRead]] = {}
    against: list[Against] = []
    for name, folder, rev in sources:
        tree = source_tree.read(name, folder, rev, _SOURCES)
        files = [(file.path, file.data) for file in tree.load()]
        at = rev or tree.ref.rev.replace(" ", "-")
        count = 0
        for read in env_reads.reads(files, name, at):
            count += 1
            for each in read.names:
                found.setdefault(each, []).append(read)
        against.append(Against(name, f"source tree, {count} places that read a name", tree.ref.rev, str(folder)))
    return {name: tuple(reads) for name, reads in found.items()}, against


def _newest(program: str, options: Options) -> str:
    """The newest release of a program that was searched whole; empty where none was."""
    owner = "llama.cpp" if program.startswith(FAMILY) else program
    return next((row.last for row in options.searched if row.owner == owner), "")


def _against(engines: Mapping[str, Installed], options: Options) -> list[Against]:
    found: list[Against] = []
    for name, engine in engines.items():
        if engine.problem is not None:
            hint = f"; {engine.problem.hint}" if engine.problem.hint else ""
            newest = _newest(name, options)
            release = f" (release {newest})" if newest else ""
            how = f"the catalogue{release}, as {engine.problem.detail}{hint}"
            found.append(Against(name, how, newest, ""))
            continue
        inferred = infer(engine, options)
        version = "; ".join(part for part in (engine.version, inferred) if part)
        found.append(Against(name, f"installed, {engine.found_by}", version, engine.path))
    return found
