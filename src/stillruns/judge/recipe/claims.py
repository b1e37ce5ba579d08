"""Arithmetic that a comment claims: equations, and how many layers stay on the CPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stillruns.judge.recipe.conflicts import said
from stillruns.judge.recipe.ground import Ground, cite_row
from stillruns.model.lint import Citation, LintItem, Reading, ValueReading
from stillruns.model.recipe import Comment, ItemKind, Recipe

LAYER_RULE = Citation(
    "source",
    "src/llama-model.cpp:1591-1594@b11434",
    "i_gpu_start = max(n_layer + 1 - n_gpu_layers, 0): the output layer is counted first, so -ngl N keeps "
    "max(layers + 1 - N, 0) repeating layers on the CPU",
    "ggml-org/llama.cpp",
)

_N = r"(?<![\w.])(\d+(?:[.,]\d+)?)"
_UNIT = r"(?:\s*(?:[GMK]i?B|GB|MB|ГБ|Гб|МБ|layers?|сло[её]в|слоя|cards?|GPUs?|карт\w*|W|Вт))?"
_TERM = rf"{_N}{_UNIT}"
_EQUATION = re.compile(
    rf"(?P<left>{_TERM}(?:\s*(?:\+|[*×xх]|(?<=\s)[-−/](?=\s))\s*{_TERM})+)\s*=\s*(?P<right>\d+(?:[.,]\d+)?)(?![\w.])"
)
_OPERATOR = re.compile(r"\+|[*×xх]|[-−]|/")
_TOTAL = re.compile(r"(\d+)\s*\+?\s*[-‑]?\s*(?:layer|слой|слоёв|слоев|слойн)", re.I)
_STAY = re.compile(
    r"(\d+)\s*(?:layers?|слоёв|слоев|слоя|слой)[^.;\d]{0,40}?"
    r"(?:on (?:the )?CPU|in (?:system )?RAM|на CPU|на ЦП|в ОЗУ)",
    re.I,
)
_NGL = re.compile(r"(?:-ngl|--n?-?gpu-layers|--n-gpu-layers)[ =](\d+)")


def find(recipe: Recipe, ground: Ground) -> Iterator[LintItem]:
    """Claims of comments and prose that do not add up."""
    for index, comment in enumerate(recipe.comments):
        yield from _equations(recipe, comment)
        following = recipe.comments[index + 1].text if index + 1 < len(recipe.comments) else ""
        joined = (
            comment.text
            if index + 1 == len(recipe.comments) or recipe.comments[index + 1].line != comment.line + 1
            else f"{comment.text} {following}"
        )
        if _STAY.search(comment.text) or (_STAY.search(joined) and not _STAY.search(following)):
            yield from _layers(recipe, Comment(joined, comment.line), ground)


def _equations(recipe: Recipe, comment: Comment) -> Iterator[LintItem]:
    for found in _EQUATION.finditer(comment.text):
        value = _evaluate(found["left"])
        claimed = _number(found["right"])
        if value is None:
            continue
        digits = len(re.split(r"[.,]", found["right"])[1]) if re.search(r"[.,]", found["right"]) else 0
        if abs(value - claimed) > 0.5 * 10**-digits + 1e-9:
            right = f"{value:.6f}".rstrip("0").rstrip(".")
            yield _item(
                recipe,
                comment,
                found.group().strip(),
                f"{found['left'].strip()} is {right}, not {found['right']}",
                [said(recipe, comment.line)],
            )


def _number(text: str) -> float:
    return float(text.replace(",", "."))


def _evaluate(text: str) -> float | None:
    """Left to right with the usual precedence; None where there is a division by zero."""
    numbers = [_number(found) for found in re.findall(_N, text)]
    operators = [op for op in _OPERATOR.findall(re.sub(rf"{_N}{_UNIT}", "#", text)) if op]
    if len(operators) != len(numbers) - 1:
        return None
    terms, signs = [numbers[0]], [1]
    for operator, number in zip(operators, numbers[1:], strict=True):
        if operator in "*×xх":
            terms[-1] *= number
        elif operator == "/":
            if not number:
                return None
            terms[-1] /= number
        else:
            signs.append(-1 if operator in "-−" else 1)
            terms.append(number)
    return sum(sign * term for sign, term in zip(signs, terms, strict=True))


def _layers(recipe: Recipe, comment: Comment, ground: Ground) -> Iterator[LintItem]:
    """`-ngl 64 on an 80+ layer model leaves 35 layers on the CPU`."""
    stay = _STAY.search(comment.text)
    rest = comment.text[: stay.start()] + comment.text[stay.end() :] if stay else comment.text
    total, offloaded = _TOTAL.search(rest), _offloaded(recipe, comment)
    if stay is None or total is None or offloaded is None:
        return
    layers, claimed = int(total.group(1)), int(stay.group(1))
    really = min(max(layers + 1 - offloaded, 0), layers)
    if really == claimed or claimed == layers:
        return
    row = ground.options.find("flag", "-ngl")
    yield _item(
        recipe,
        comment,
        f"{claimed} layers on the CPU",
        f"with {layers} layers and -ngl {offloaded} it is {really} repeating layers (the output layer counts as one "
        f"and goes first); {claimed} would stay with {claimed + offloaded - 1} layers",
        [said(recipe, comment.line), LAYER_RULE, *([cite_row(row)] if row else [])],
    )


def _offloaded(recipe: Recipe, comment: Comment) -> int | None:
    here = _NGL.search(comment.text)
    if here:
        return int(here.group(1))
    flags = [
        item
        for item in recipe.items
        if item.kind is ItemKind.FLAG
        and item.name in ("-ngl", "--gpu-layers", "--n-gpu-layers")
        and (item.value or "").isdigit()
    ]
    after = [item for item in flags if item.line >= comment.line]
    chosen = (after or flags[-1:])[:1]
    return int(chosen[0].value or "0") if chosen else None


def _item(recipe: Recipe, comment: Comment, name: str, why: str, evidence: list[Citation]) -> LintItem:
    return LintItem(
        kind=ItemKind.CONFIG,
        name=name,
        value=None,
        program="",
        said=f"{recipe.path}:{comment.line}",
        verdict=Reading.CONFLICT,
        value_verdict=ValueReading.NOT_ACCEPTED,
        why=f"the comment does not add up: {why}",
        reader=None,
        effect="",
        default="",
        accepts="",
        since=None,
        until=None,
        use=None,
        evidence=tuple(evidence),
    )
