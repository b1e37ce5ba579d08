"""Settings that fight each other: duplicates, masks that cancel out, variables that never reach their reader."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from stillruns.judge.recipe.ground import Case, Ground, Option, cite_row, fold
from stillruns.judge.recipe.variables import settings
from stillruns.model.lint import Citation, LintItem, Reading, ValueReading
from stillruns.model.recipe import Command, Item, ItemKind, Recipe, Scope

MASKS = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
"""In the order in which they filter: ROCr first, then HIP; HIP falls back on the CUDA name (CLR flags.hpp:156)."""

MANUAL = Citation(
    "manual",
    "systemd.exec(5), ENVIRONMENT VARIABLES IN SPAWNED PROCESSES",
    "a service gets its environment from the service manager and its unit, not from login shells or their files",
    "https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html",
)


def said(recipe: Recipe, line: int) -> Citation:
    """A line of the recipe itself."""
    rows = recipe.text.split("\n", line)
    return Citation("recipe", f"{recipe.path}:{line}", rows[line - 1].strip()[:160] if len(rows) >= line else "")


def conflict(
    case: Case, why: str, evidence: Iterable[Citation], *, use: str = "", value: ValueReading | None = None
) -> LintItem:
    """A conflict as an item of its own."""
    command = case.command
    return LintItem(
        kind=case.item.kind,
        name=case.item.name,
        value=case.item.value,
        program=command.program if command else "",
        said=case.said,
        verdict=Reading.CONFLICT,
        value_verdict=value,
        why=why,
        reader=None,
        effect="",
        default="",
        accepts="",
        since=None,
        until=None,
        use=use or None,
        evidence=tuple(evidence),
    )


@dataclass(frozen=True, slots=True)
class Given:
    """An option that a command gives: which, by what item."""

    option: Option
    item: Item


def given(recipe: Recipe, index: int, ground: Ground) -> list[Given]:
    """The options of one command, in order."""
    ground = ground.of(recipe.commands[index].scope)
    program = ground.program(recipe.commands[index].program)
    found: list[Given] = []
    for item in recipe.of_command(index):
        if item.kind is ItemKind.FLAG:
            option = ground.option(program, item.name)
            if option is not None:
                found.append(Given(option, item))
    return found


def find(recipes: Sequence[Recipe], ground: Ground) -> Iterator[LintItem]:
    """Every conflict within the recipes, and between them."""
    for recipe in recipes:
        for index, command in enumerate(recipe.commands):
            options = given(recipe, index, ground)
            yield from _repeated(recipe, options)
            yield from _argument_and_variable(recipe, index, options)
            yield from _pairs(recipe, options, ground, command)
        yield from _set_twice(recipe)
        yield from _masks(recipe)
    yield from _out_of_reach(recipes)
    yield from _configured(recipes, ground)


def _configured(recipes: Sequence[Recipe], ground: Ground) -> Iterator[LintItem]:
    """An option of config.ini that a command line gives as well: that wins (common/arg.cpp:774 at b11434)."""
    settings = [(recipe, item) for recipe in recipes for item in recipe.items if item.kind is ItemKind.CONFIG]
    for recipe in recipes if settings else ():
        for index in range(len(recipe.commands)):
            for each in given(recipe, index, ground):
                keys = {name.lstrip("-") for name in each.option.names} | {each.option.env}
                for file, item in settings:
                    if item.name in keys and item.value != each.item.value:
                        yield conflict(
                            Case(file, item),
                            f"`{_shown(each)}` ({recipe.path}:{each.item.line}) overrides it",
                            [said(file, item.line), said(recipe, each.item.line), each.option.cited],
                            value=ValueReading.NO_EFFECT,
                        )


def _repeated(recipe: Recipe, options: list[Given]) -> Iterator[LintItem]:
    """The same option twice where the last one wins; options that append are no conflict."""
    last: dict[tuple[str, ...], Given] = {}
    for each in options:
        if each.option.repeat == "append":
            continue
        before = last.get(each.option.names)
        if before is not None:
            same = before.item.value == each.item.value and _sense(before) == _sense(each)
            how = "says the same twice" if same else "overrides"
            shown = f"`{_shown(each)}` (line {each.item.line}) {how}: `{_shown(before)}` (line {before.item.line})"
            yield conflict(
                Case(recipe, before.item),
                f"{shown}; only the last one counts",
                [said(recipe, before.item.line), said(recipe, each.item.line), each.option.cited],
                use=_shown(each),
                value=ValueReading.NO_EFFECT,
            )
        last[each.option.names] = each


def _sense(each: Given) -> bool:
    return fold(each.item.name) not in each.option.negatives


def _shown(each: Given) -> str:
    value = each.item.value if each.option.takes_value and each.item.value is not None else ""
    return f"{each.item.name} {value}".strip()


def _reaching(recipe: Recipe, index: int) -> list[Item]:
    """Variables that a command of the recipe sees."""
    command = recipe.commands[index]
    own = [item for item in recipe.of_command(index) if item.kind is ItemKind.ENV]
    loose = recipe.of_command(-1)
    wide = [item for item in loose if item.scope is command.scope and item.kind is ItemKind.ENV]
    return own + wide


def _argument_and_variable(recipe: Recipe, index: int, options: list[Given]) -> Iterator[LintItem]:
    known = {each.option.env for each in options if each.option.env}
    for variable in _reaching(recipe, index) if known else ():
        for each in options if variable.name in known else ():
            if each.option.env and each.option.env == variable.name and variable.value != each.item.value:
                yield conflict(
                    Case(recipe, variable),
                    f"`{_shown(each)}` on the command line overrides {variable.name}={variable.value}",
                    [said(recipe, variable.line), said(recipe, each.item.line), each.option.cited],
                    use=_shown(each),
                    value=ValueReading.NO_EFFECT,
                )


def _pairs(recipe: Recipe, options: list[Given], ground: Ground, command: Command) -> Iterator[LintItem]:
    """Options of which one makes the other void."""
    if not ground.is_llama(command.program):
        return
    by_name = {name: each for each in options for name in each.option.names}
    gpu, split, layers = by_name.get("-mg"), by_name.get("-sm"), by_name.get("-ngl")
    row = ground.options.find("flag", "-mg")
    if gpu and row and (split is None or split.item.value == "layer"):
        default = " that is the default" if split is None else ""
        why = f"-mg does nothing with the layer split{default}; use -sm none with it"
        yield conflict(
            Case(recipe, gpu.item), why, [said(recipe, gpu.item.line), cite_row(row)], value=ValueReading.NO_EFFECT
        )
    shares = by_name.get("-ts")
    if shares and split and split.item.value == "none":
        yield conflict(
            Case(recipe, shares.item),
            "-ts shares a model over GPUs, and -sm none uses one GPU only",
            [said(recipe, shares.item.line), said(recipe, split.item.line), split.option.cited],
            value=ValueReading.NO_EFFECT,
        )
    device = by_name.get("-dev")
    if device and device.item.value == "none" and layers and layers.item.value not in (None, "0"):
        yield conflict(
            Case(recipe, layers.item),
            "--device none takes every GPU away: no layer can be offloaded",
            [said(recipe, device.item.line), device.option.cited],
            value=ValueReading.NO_EFFECT,
        )
    attention, cache = by_name.get("-fa"), by_name.get("-ctv")
    if attention and attention.item.value == "off" and cache and cache.item.value not in (None, "f16", "f32", "bf16"):
        evidence = [said(recipe, cache.item.line), said(recipe, attention.item.line)]
        row = ground.options.find("flag", "-fa")
        why = "a quantised V cache needs flash attention, which -fa off turns off"
        yield conflict(Case(recipe, cache.item), why, [*evidence, *([cite_row(row)] if row else [])])
    yield from _vulkan_names(recipe, by_name.get("-dev"))


def _vulkan_names(recipe: Recipe, device: Given | None) -> Iterator[LintItem]:
    if device is None or device.item.value is None:
        return
    for mask in _reaching(recipe, device.item.command):
        if mask.name != "GGML_VK_VISIBLE_DEVICES" or not re.fullmatch(r"\d+(,\d+)*", mask.value or ""):
            continue
        count = len((mask.value or "").split(","))
        for number in re.findall(r"Vulkan(\d+)", device.item.value):
            if int(number) >= count:
                yield conflict(
                    Case(recipe, device.item),
                    f"the mask {mask.name}={mask.value} leaves {count} device(s), Vulkan0 .. Vulkan{count - 1}: "
                    f"Vulkan{number} does not exist (a mask renumbers)",
                    [said(recipe, mask.line), said(recipe, device.item.line), device.option.cited],
                )


def _set_twice(recipe: Recipe) -> Iterator[LintItem]:
    seen: dict[tuple[str, int, Scope], Item] = {}
    for item in settings(recipe):
        key = (item.name, item.command, item.scope)
        before = seen.get(key)
        differs = before is not None and before.value != item.value
        if before is not None and differs and not _starts_between(recipe, before.line, item.line):
            yield conflict(
                Case(recipe, before),
                f"set again to `{item.value}` on line {item.line} before anything starts",
                [said(recipe, before.line), said(recipe, item.line)],
                value=ValueReading.NO_EFFECT,
            )
        seen[key] = item


def _starts_between(recipe: Recipe, after: int, until: int) -> bool:
    return any(after < command.line <= until for command in recipe.commands)


def _masks(recipe: Recipe) -> Iterator[LintItem]:
    """ROCR_VISIBLE_DEVICES renumbers: HIP's indices count what it leaves."""
    loose = [item for item in recipe.of_command(-1) if item.kind is ItemKind.ENV and item.name in MASKS]
    for index in [-1, *range(len(recipe.commands))]:
        own = [item for item in recipe.of_command(index) if item.kind is ItemKind.ENV and item.name in MASKS]
        if index >= 0 and not own:
            continue
        seen = loose + own if index >= 0 else loose
        by_name = {item.name: item for item in seen if item.value}
        low, hip = by_name.get(MASKS[0]), by_name.get(MASKS[1])
        other = by_name.get(MASKS[2])
        upper = hip or other
        if low is not None and upper is not None:
            yield from _renumbered(recipe, low, upper)
        if hip is not None and other is not None and hip.value != other.value:
            yield conflict(
                Case(recipe, other),
                f"for AMD cards HIP_VISIBLE_DEVICES={hip.value} wins over CUDA_VISIBLE_DEVICES={other.value}",
                [said(recipe, hip.line), said(recipe, other.line)],
                value=ValueReading.NO_EFFECT,
            )


def _renumbered(recipe: Recipe, low: Item, upper: Item) -> Iterator[LintItem]:
    count = len((low.value or "").split(","))
    indices = [int(part) for part in (upper.value or "").split(",") if part.strip().isdigit()]
    beyond = [number for number in indices if number >= count]
    if beyond:
        yield conflict(
            Case(recipe, upper),
            f"{low.name}={low.value} leaves {count} device(s), numbered from 0: index {beyond[0]} of {upper.name} "
            "does not exist and the masks hide every GPU",
            [said(recipe, low.line), said(recipe, upper.line)],
            use=f"{upper.name}={','.join(str(number) for number in range(count))}",
        )


def _out_of_reach(recipes: Sequence[Recipe]) -> Iterator[LintItem]:
    """Variables of a login shell or of a script for a server that systemd starts, or for a client of a server."""
    services = [(r, c) for r in recipes for c in r.commands if c.scope is Scope.SERVICE or _restarts(c)]
    inside = {i.name for r in recipes for i in r.items if i.kind is ItemKind.ENV and i.scope is Scope.SERVICE}
    for recipe in (each for each in recipes if not _handed_on(each, recipes)):
        direct = any(_starts_server(command) for command in recipe.commands)
        clients = [command for command in recipe.commands if command.client]
        for item in settings(recipe):
            if item.name in inside:
                continue
            loose = item.scope is Scope.LOGIN or (item.scope is Scope.SESSION and item.command == -1 and not direct)
            if loose and services:
                other, command = services[0]
                where = "a login shell's file" if item.scope is Scope.LOGIN else "this shell"
                yield conflict(
                    Case(recipe, item),
                    f"it is set in {where}, and systemd starts the server (line {command.line}): it never gets there",
                    [said(recipe, item.line), said(other, command.line), MANUAL],
                    use=f'in the unit, under [Service]: Environment="{item.name}={item.value or ""}"',
                    value=ValueReading.NO_EFFECT,
                )
            elif clients and not direct and not services and _for_server(recipe, item):
                yield conflict(
                    Case(recipe, item),
                    f"`{clients[0].program} {clients[0].words[0].text}` only talks to a server that runs already and "
                    "has its own environment",
                    [said(recipe, item.line), said(recipe, clients[0].line)],
                    use=f"{item.name}={item.value or ''} ollama serve",
                    value=ValueReading.NO_EFFECT,
                )


def _handed_on(recipe: Recipe, recipes: Sequence[Recipe]) -> bool:
    """A file that a unit of the same call names as its EnvironmentFile."""
    name = re.escape(recipe.path.rsplit("/", 1)[-1])
    line = re.compile(rf"^[ \t]*EnvironmentFile[ \t]*=[ \t]*-?(?:\S*/)?{name}[ \t]*$", re.M)
    return any(line.search(other.text) for other in recipes if other is not recipe)


def _for_server(recipe: Recipe, item: Item) -> bool:
    mine = item.command == -1 or recipe.commands[item.command].client
    return mine and item.name not in ("OLLAMA_HOST", "OLLAMA_NOHISTORY", "OLLAMA_EDITOR")


def _restarts(command: Command) -> bool:
    words = [word.text for word in command.words]
    ours = any("ollama" in word or "llama" in word for word in words)
    return command.program == "systemctl" and ours and any(w in words for w in ("restart", "start", "enable"))


def _starts_server(command: Command) -> bool:
    ours = command.program.startswith(("llama-", "ollama")) or command.program in ("main", "server")
    return ours and not command.client and command.scope in (Scope.SESSION, Scope.COMMAND)
