"""`--help` texts as options with line numbers: llama.cpp's tools, llama-bench, cobra (ollama), argparse."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stillruns.model.installed import HelpOption

_HEAD = re.compile(r"^ {0,12}(?=-{1,2}[A-Za-z])")
_NAME = re.compile(r"(?P<name>-{1,2}[A-Za-z0-9][\w.-]*)(?P<sep>,[ ]*|[ ]*\|[ ]*|/)?")
_ENV = re.compile(r"\(env: ([A-Z][A-Z0-9_]+)\)|\[?env: ?([A-Z][A-Z0-9_]+)")
_DEFAULT = re.compile(r"\(default:\s*([^()]*(?:\([^()]*\)[^()]*)*)\)")
_CHOICE = re.compile(r"[\[{<(]([\w.+-]+(?:[|,][\w.+-]+)+)[\]}>)]")
_ALLOWED = re.compile(r"(?:allowed values|one of|possible values):\s*([\w., +-]+)", re.I)
_INSTEAD = re.compile(r"(?:DEPRECATED|deprecated)[^`\n]*`(--[\w-]+)`|(?:use|favor of) (--[\w-]+)")
_BULLET = re.compile(r"^\s*-\s+([\w+.-]+):", re.M)
_LIST = re.compile(r"[\w.+-]+(?:,[\w.+-]+)+\Z")
REMOVED = "argument has been removed"
"""How llama.cpp's help marks an option whose handler only throws (common/arg.cpp:343 at b11434)."""
_REPLACEMENT = re.compile(r"(?:use|or) (--[a-z][\w-]*)(?![\w*-])")
_SWITCH_HINT = re.compile(r"^[\[{<(A-Z0-9]|^(?:lo-hi|string|int|uint|float|duration|stringArray|path|file|list)\b")


def read(text: str) -> tuple[tuple[str, ...], tuple[HelpOption, ...]]:
    """All lines of the text, and its options; a text without options gives none."""
    lines = tuple(text.split("\n"))
    heads = [index for index, line in enumerate(lines) if _HEAD.match(line)]
    options: list[HelpOption] = []
    for position, index in enumerate(heads):
        stop = heads[position + 1] if position + 1 < len(heads) else len(lines)
        body = [lines[index]]
        for line in lines[index + 1 : stop]:
            if line[:1] not in (" ", "\t"):
                break
            body.append(line)
        option = _option(body, index + 1)
        if option is not None:
            options.append(option)
    return lines, tuple(options)


def _option(body: Sequence[str], line: int) -> HelpOption | None:
    head = body[0].strip()
    names: list[str] = []
    at = 0
    while found := _NAME.match(head, at):
        names.append(found["name"])
        at = found.end()
        if not found["sep"] and not re.match(r" --[a-z]", head[at:]):
            break
        at += 0 if found["sep"] else 1
    if not names:
        return None
    rest = head[at:]
    hint, about = _split(rest.replace(" (default:", "  (default:"))
    whole = " ".join([about, *(line.strip() for line in body[1:])]).strip()
    env = _ENV.search(whole)
    default = _DEFAULT.search(whole)
    fallback = default.group(1).strip().strip("'\"") if default else ""
    instead = _INSTEAD.search(whole)
    gone = REMOVED in whole
    return HelpOption(
        names=tuple(names),
        hint=hint,
        values=_values(hint, whole, body, fallback),
        default=fallback,
        env=(env.group(1) or env.group(2)) if env else "",
        deprecated="DEPRECATED" in whole or "deprecated" in whole[:40].lower(),
        instead=replacement(whole) if gone else ((instead.group(1) or instead.group(2) or "") if instead else ""),
        about=_DEFAULT.sub("", _ENV.sub("", whole)).strip()[:300],
        line=line,
        text=" ".join(body[0].split()),
        removed=gone,
    )


def replacement(text: str) -> str:
    """What a removed option's text says to use: its first whole flag (`--spec-*-n` is none); empty without one."""
    found = _REPLACEMENT.search(text)
    return found.group(1) if found else ""


def _split(rest: str) -> tuple[str, str]:
    """(placeholder of the value, the rest). Two blanks part the columns; one blank may stand in a placeholder."""
    joined = rest[:1] == "="
    rest = rest[1:] if joined else rest
    if not joined and rest[:2] == "  ":
        return "", rest.strip()
    text = rest.strip()
    column = re.search(r"\s{2,}", text)
    hint = text[: column.start()] if column else text
    listed = _LIST.match(hint)
    if hint and (joined or listed or (_SWITCH_HINT.match(hint) and len(hint) <= 60)):
        return hint, text[column.end() :] if column else ""
    return "", text


def _values(hint: str, whole: str, body: Sequence[str], default: str) -> tuple[str, ...]:
    if _LIST.match(hint) and hint == hint.lower():
        return tuple(hint.split(","))
    choice = _CHOICE.search(hint)
    if choice and ".." not in hint:
        return tuple(re.split(r"[|,]", choice.group(1)))
    allowed = _ALLOWED.search(whole)
    if allowed and hint:
        named = [part.strip() for part in allowed.group(1).split(",")]
        kept = tuple(part for part in named if part and " " not in part)
        if kept:
            return kept
    bullets = tuple(_BULLET.findall("\n".join(body[1:])))
    if bullets and all(bullet.isdigit() for bullet in bullets):
        return ()  # levels with a meaning each; any number is taken
    if len(bullets) < 2 or not hint:
        return ()
    # a default that is no bullet of its own (`--reasoning-format`: auto) is taken as well
    return bullets if default in bullets or not re.fullmatch(r"[\w.+-]+", default) else (*bullets, default)
