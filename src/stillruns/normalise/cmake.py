"""Enough of CMake to evaluate which GPU targets a build keeps: variables, if/else, list(FILTER), not its
functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<bracket>\[(=*)\[.*?\]\2\])|"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<comment>\#[^\n]*)|(?P<paren>[()])"""
    r"""|(?P<word>[^\s()"#]+)|(?P<space>\s+)""",
    re.DOTALL,
)
_TRUE = {"1", "ON", "YES", "TRUE", "Y"}
_MOST_COMMANDS = 20_000


@dataclass(frozen=True, slots=True)
class Command:
    """`name(args)` at a line; quotes are gone, parentheses inside the arguments are arguments."""

    name: str
    args: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Filtered:
    """A `list(FILTER)` that ran on the watched list: what went in, what came out."""

    line: int
    mode: str
    regex: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(slots=True)
class Evaluation:
    """Variables after the file, and the filters that ran."""

    variables: dict[str, str]
    filtered: list[Filtered] = field(default_factory=list)


def commands(text: str) -> list[Command]:
    """Every command of a file; what does not look like one is skipped."""
    found: list[Command] = []
    name, args, depth, started, line = "", [], 0, 0, 1
    for token in _TOKEN.finditer(text):
        kind, value = token.lastgroup, token.group(0)
        if kind == "paren" and value == "(":
            depth += 1
            if depth > 1:
                args.append("(")
        elif kind == "paren":
            depth -= 1
            if depth > 0:
                args.append(")")
            elif depth == 0 and name:
                found.append(Command(name.lower(), tuple(args), started))
                name, args = "", []
            depth = max(depth, 0)
        elif kind in ("word", "quoted", "bracket"):
            plain = token["quoted"] if kind == "quoted" else value
            if depth:
                args.append(plain)
            else:
                name, args, started = plain, [], line
        line += value.count("\n")
        if len(found) >= _MOST_COMMANDS:
            break
    return found


def evaluate(text: str, variables: dict[str, str], watched: str, offered: tuple[str, ...]) -> Evaluation:
    """Run a file's top level. `find_package(hip)` offers `offered` as `watched` when that is empty, as ROCm's own
    package configuration does."""
    state = Evaluation(dict(variables))
    active: list[tuple[bool, bool]] = []  # (this branch runs, some branch of this if has run)
    for command in commands(text):
        running = all(on for on, _ in active)
        if command.name == "if":
            truth = running and condition(command.args, state.variables)
            active.append((truth, truth or not running))
        elif command.name in ("elseif", "else") and active:
            _, done = active.pop()
            outer = all(on for on, _ in active)
            truth = outer and not done and (command.name == "else" or condition(command.args, state.variables))
            active.append((truth, done or truth))
        elif command.name == "endif" and active:
            active.pop()
        elif running:
            _run(command, state, watched, offered)
    return state


def _run(command: Command, state: Evaluation, watched: str, offered: tuple[str, ...]) -> None:
    args = [expand(arg, state.variables) for arg in command.args]
    if command.name == "set" and args:
        values = []
        for arg in args[1:]:
            if arg in ("CACHE", "PARENT_SCOPE"):
                break
            values.append(arg)
        if "CACHE" in args and args[0] in state.variables:
            return  # a cache entry never overrides what is set
        state.variables[args[0]] = ";".join(values)
    elif command.name == "find_package" and args[:1] == ["hip"] and not state.variables.get(watched):
        state.variables[watched] = ";".join(offered)
    elif command.name == "list" and len(args) >= 5 and args[0] == "FILTER" and args[3] == "REGEX":
        before = tuple(filter(None, state.variables.get(args[1], "").split(";")))
        after = tuple(item for item in before if matches(args[4], item) == (args[2] == "INCLUDE"))
        state.variables[args[1]] = ";".join(after)
        if args[1] == watched:
            state.filtered.append(Filtered(command.line, args[2], args[4], before, after))
    elif command.name == "list" and len(args) >= 3 and args[0] == "APPEND":
        old = state.variables.get(args[1], "")
        state.variables[args[1]] = ";".join(filter(None, [old, *args[2:]]))


def matches(regex: str, item: str) -> bool:
    """CMake's regular expressions are those of Python as far as target lists use them; a bad one matches nothing."""
    if len(regex) > 500:
        return False
    try:
        return re.search(regex, item[:100]) is not None
    except (re.error, RecursionError):
        return False


def expand(text: str, variables: dict[str, str]) -> str:
    """`${NAME}` replaced, innermost first; unknown names are empty."""
    for _ in range(10):
        new = re.sub(r"\$\{([\w.-]+)\}", lambda m: variables.get(m[1], ""), text)
        if new == text or len(new) > 100_000:
            break
        text = new
    return text


def condition(args: tuple[str, ...], variables: dict[str, str]) -> bool:
    """An `if`: NOT, AND, OR, parentheses, comparisons of strings, MATCHES; anything else is false."""
    words = [expand(arg, variables) for arg in args][:200]
    return _either(iter([*words, "\0"]), variables)[0]


def _either(words: Iterator[str], variables: dict[str, str]) -> tuple[bool, str]:
    truth, after = _both(words, variables)
    while after == "OR":
        more, after = _both(words, variables)
        truth = truth or more
    return truth, after


def _both(words: Iterator[str], variables: dict[str, str]) -> tuple[bool, str]:
    truth, after = _single(words, variables)
    while after == "AND":
        more, after = _single(words, variables)
        truth = truth and more
    return truth, after


def _single(words: Iterator[str], variables: dict[str, str]) -> tuple[bool, str]:
    word = next(words, "\0")
    if word == "NOT":
        truth, after = _single(words, variables)
        return not truth, after
    if word == "(":
        truth, _ = _either(words, variables)
        return truth, next(words, "\0")
    if word in ("EXISTS", "DEFINED", "TARGET", "COMMAND"):
        name = next(words, "\0")
        return word == "DEFINED" and name in variables, next(words, "\0")
    after = next(words, "\0")
    if after in ("STREQUAL", "EQUAL", "VERSION_EQUAL", "MATCHES") or after.startswith(
        ("VERSION_", "GREATER", "LESS")
    ):
        other = next(words, "\0")
        value = variables.get(word, word)
        truth = matches(other, value) if after == "MATCHES" else compared(after, value, variables.get(other, other))
        return truth, next(words, "\0")
    value = variables.get(word, word)
    return value.upper() in _TRUE or (word in variables and bool(value) and not _is_false(value)), after


def compared(how: str, left: str, right: str) -> bool:
    """CMake's comparisons: texts for STREQUAL, else numbers part by part; what has no number is not compared."""
    if how == "STREQUAL":
        return left == right
    mine, other = (tuple(int(n[:9]) for n in re.findall(r"\d+", text[:100])) for text in (left, right))
    if not mine or not other:
        return False
    width = max(len(mine), len(other))
    first, second = mine + (0,) * (width - len(mine)), other + (0,) * (width - len(other))
    kind = how.removeprefix("VERSION_")
    return {
        "EQUAL": first == second,
        "LESS": first < second,
        "GREATER": first > second,
        "LESS_EQUAL": first <= second,
        "GREATER_EQUAL": first >= second,
    }.get(kind, False)


def _is_false(value: str) -> bool:
    return value.upper() in ("", "0", "OFF", "NO", "FALSE", "N", "IGNORE", "NOTFOUND") or value.endswith("-NOTFOUND")
