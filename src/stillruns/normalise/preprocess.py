"""Enough of a C preprocessor to say which lines of a header are compiled for a GPU target, and what gets defined."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_DIRECTIVE = re.compile(r"\s*#\s*(ifdef|ifndef|if|elif|else|endif|define|undef)\b(.*)")
_TOKEN = re.compile(r"\s*(?:(\d[\w.]*)|([A-Za-z_]\w*)|(&&|\|\||==|!=|>=|<=|[!<>()+-]))")


@dataclass(frozen=True, slots=True)
class Active:
    """A line that is compiled, and where it stands."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Preprocessed:
    """`lines` are compiled; `defined` maps names to values; `places` to the line that defined them."""

    lines: tuple[Active, ...]
    defined: dict[str, str]
    places: dict[str, int]


def preprocess(text: str, defined: dict[str, str]) -> Preprocessed:
    """Follow the conditions of one file; includes are not followed, names that nobody defined are 0 as in C."""
    names = dict(defined)
    places: dict[str, int] = {}
    lines: list[Active] = []
    stack: list[tuple[bool, bool]] = []
    for number, line in _joined(text):
        found = _DIRECTIVE.match(line)
        running = all(on for on, _ in stack)
        if not found:
            if running and line.strip():
                lines.append(Active(number, line))
            continue
        word, rest = found[1], re.sub(r"//.*|/\*.*?\*/", "", found[2]).strip()
        if word in ("if", "ifdef", "ifndef"):
            truth = running and _opens(word, rest, names)
            stack.append((truth, truth or not running))
        elif word in ("elif", "else") and stack:
            _, done = stack.pop()
            outer = all(on for on, _ in stack)
            truth = outer and not done and (word == "else" or evaluate(rest, names) != 0)
            stack.append((truth, done or truth))
        elif word == "endif" and stack:
            stack.pop()
        elif running and word == "define":
            name, _, value = rest.partition(" ")
            if "(" not in name:
                names[name] = value.strip() or "1"
                places[name] = number
        elif running and word == "undef":
            names.pop(rest, None)
    return Preprocessed(tuple(lines), names, places)


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """Lines with backslash continuations joined, numbered by their first."""
    held, start = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        start = start if held else number
        if line.endswith("\\"):
            held += line[:-1] + " "
            continue
        yield start, held + line
        held = ""


def _opens(word: str, rest: str, names: dict[str, str]) -> bool:
    if word == "if":
        return evaluate(rest, names) != 0
    return (rest in names) == (word == "ifdef")


def evaluate(text: str, names: dict[str, str]) -> int:
    """A condition's value; 0 for what is not understood."""
    tokens = [match.group(0).strip() for match in _TOKEN.finditer(text[:4000])]
    value, _ = _or(tokens, 0, names, 0)
    return value


def _or(tokens: list[str], at: int, names: dict[str, str], depth: int) -> tuple[int, int]:
    value, at = _and(tokens, at, names, depth)
    while at < len(tokens) and tokens[at] == "||":
        other, at = _and(tokens, at + 1, names, depth)
        value = int(bool(value) or bool(other))
    return value, at


def _and(tokens: list[str], at: int, names: dict[str, str], depth: int) -> tuple[int, int]:
    value, at = _compare(tokens, at, names, depth)
    while at < len(tokens) and tokens[at] == "&&":
        other, at = _compare(tokens, at + 1, names, depth)
        value = int(bool(value) and bool(other))
    return value, at


def _compare(tokens: list[str], at: int, names: dict[str, str], depth: int) -> tuple[int, int]:
    value, at = _unary(tokens, at, names, depth)
    while at < len(tokens) and tokens[at] in ("==", "!=", ">=", "<=", ">", "<"):
        sign = tokens[at]
        other, at = _unary(tokens, at + 1, names, depth)
        value = int(
            {"==": value == other, "!=": value != other, ">=": value >= other, "<=": value <= other,
             ">": value > other, "<": value < other}[sign]
        )  # fmt: skip
    return value, at


def _unary(tokens: list[str], at: int, names: dict[str, str], depth: int) -> tuple[int, int]:
    if at >= len(tokens) or depth > 50:
        return 0, len(tokens)
    word = tokens[at]
    if word in ("!", "-", "+"):
        value, at = _unary(tokens, at + 1, names, depth + 1)
        return (int(not value) if word == "!" else -value if word == "-" else value), at
    if word == "(":
        value, at = _or(tokens, at + 1, names, depth + 1)
        return value, at + 1
    if word == "defined":
        inner = at + 2 if at + 1 < len(tokens) and tokens[at + 1] == "(" else at + 1
        name = tokens[inner] if inner < len(tokens) else ""
        return int(name in names), inner + (2 if inner == at + 2 else 1)
    if at + 1 < len(tokens) and tokens[at + 1] == "(":
        return 0, _closing(tokens, at + 1)  # a function-like macro (__has_builtin): not known, so false
    return _number(word, names, 0), at + 1


def _closing(tokens: list[str], at: int) -> int:
    depth = 0
    for index in range(at, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[index], 0)
        if depth == 0:
            return index + 1
    return len(tokens)


def _number(word: str, names: dict[str, str], depth: int) -> int:
    found = re.match(r"(0[xX][0-9a-fA-F]{1,16}|\d{1,18})", word)
    if found:
        return int(found[1], 16) if found[1][:2] in ("0x", "0X") else int(found[1])
    value = names.get(word)
    if value is None or depth > 5:
        return 0
    if re.fullmatch(r"[\w.]+", value):
        return _number(value, names, depth + 1)
    return evaluate(value, names) if depth < 3 and value != word and word not in value else 0
