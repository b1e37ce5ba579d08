"""What a flag's handler does with its text, read from llama.cpp's source (common/arg.cpp, llama-bench.cpp).

A handler that takes an `int` gets it from std::stoi, one that calls std::stof reads a number with a point,
llama-bench's parse_int_range takes lists and ranges of integers. A chain of comparisons that ends in an error is a
closed list.
"""

from __future__ import annotations

import re

INTEGER, NUMBER, RANGES = "integer", "number", "integers"

_INTEGER = re.compile(r"\(\s*common_params &\s*\w*\s*,\s*int\b|std::stoi\(")
_NUMBER = re.compile(r"std::sto[fd]\(")
_CHOICE = re.compile(r'\b(?:value|mode|m|v)\s*==\s*"([^"]*)"')
_REFUSES = re.compile(r"throw std::(?:invalid_argument|runtime_error)|invalid_param = true")
_OTHERWISE = re.compile(r"std::sto|json::|parse_\w+\(|_from_(?:name|str)\(|string_split<std::string>\(value")
_PARSED = re.compile(r"json::|parse_\w+\(|_from_(?:name|str)\(|string_split")
_WORDS = {
    "is_truthy": ("on", "enabled", "true", "1"),
    "is_falsey": ("off", "disabled", "false", "0"),
    "is_autoy": ("auto", "-1"),
}
"""common/arg.cpp:1337-1347 at b11434."""


def kind(handler: str) -> str:
    """`integer`, `number`, `integers` (llama-bench's lists and ranges), or empty for any text."""
    if "parse_int_range(" in handler or ("std::stoi(" in handler and "string_split<" in handler):
        return RANGES
    if _NUMBER.search(handler):
        return NUMBER
    return INTEGER if _INTEGER.search(handler) and not _PARSED.search(handler) else ""


def choices(handler: str) -> tuple[str, ...]:
    """The words that a handler takes, where it refuses every other but integers; else empty."""
    found = [word for name, words in _WORDS.items() if f"{name}(" in handler for word in words]
    found += [word for word in _CHOICE.findall(handler) if word]
    or_integer = "std::stoi(" in handler and kind(handler) == INTEGER
    if not found or not (_REFUSES.search(handler) or or_integer) or (_OTHERWISE.search(handler) and not or_integer):
        return ()
    return tuple(dict.fromkeys(found))
