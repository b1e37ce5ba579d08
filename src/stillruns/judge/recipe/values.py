"""Whether a value is one that its reader takes, and what it does with it."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

from stillruns.judge.recipe.ground import Case, Option
from stillruns.model.lint import ValueReading
from stillruns.model.option_row import OptionRow, Semantics
from stillruns.model.recipe import Item

Answer = tuple[ValueReading | None, str]
"""The verdict on a value, and its reason in one clause (empty where there is nothing to say)."""

TRUTHY = ("on", "enabled", "true", "1")
FALSEY = ("off", "disabled", "false", "0")
"""What llama.cpp takes for yes and no (common/arg.cpp:1337-1343 at b11434)."""

_INTEGER = re.compile(r"[+-]?\d+\Z")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\Z")
_RANGE = re.compile(r"-?\d+(-\d+([+*]\d+)?)?\Z")
"""`512`, `0-4096`, `0-4096+512`: llama-bench's parse_int_range (tools/llama-bench/llama-bench.cpp:293 at b11434)."""
_NUMBERS = ("N", "INDEX", "PORT", "SEED", "SECONDS", "SIMILARITY", "P", "<0...100>")
_SHARES = ("N0,N1,N2,...", "MiB0,MiB1,MiB2,...", "<ts0/ts1/..>")
"""Placeholders of llama.cpp's help behind which its handlers call std::stoi or std::stof (tried on three builds)."""
_NAMED = re.compile(r"'([\w.+-]+)'")
_DURATION = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))*\Z")
_GFX = re.compile(r"\d+\.\d+\.\d+\Z")
_ON_OFF = ("ON", "OFF", "1", "0", "YES", "NO", "TRUE", "FALSE", "Y", "N")
_LOOKS_NO = ("0", "", "off", "false", "no", "n", "disabled")

_PARSE_BOOL = ("1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False")
"""All that Go's strconv.ParseBool takes; Ollama's envconfig gives true for everything else, `off` and `no` too."""

OK: Answer = (ValueReading.OK, "")
UNKNOWN: Answer = (None, "")


def flag(case: Case, option: Option, program: str, llama: bool) -> Answer:
    """The value of a flag of a program."""
    item = case.item
    if item.joined and llama:
        return (
            ValueReading.NOT_ACCEPTED,
            f"{program} takes the value as the next word: `{item.name}=...` is an unknown argument to it",
        )
    if item.dynamic:
        return None, "the value is only known when the recipe runs, and lint runs nothing"
    if option.takes_value and item.value is None:
        if item.follows is None:
            return ValueReading.NOT_ACCEPTED, "it needs a value and none follows"
        return ValueReading.NOT_ACCEPTED, f"it needs a value and takes the next word, `{item.follows.text}`, as that"
    if not option.takes_value:
        if item.value is not None and llama:
            return ValueReading.NOT_ACCEPTED, f"it takes no value; `{item.value}` is an unknown argument to {program}"
        return None, ""
    assert item.value is not None
    return against(item.value, option)


def accepts(option: Option) -> str:
    """What an option takes, for a reader."""
    listed = ", ".join(option.values)
    return f"{option.hint}, {listed}" if listed and option.takes == "integer" else listed or option.hint


def against(value: str, option: Option) -> Answer:
    """A value against the values that an option lists, or the kind that its placeholder names."""
    if option.deprecated and not option.instead:
        return None, "the option is deprecated in this build, and nothing says whether its value still counts"
    if option.takes == "integer" and option.values and (value in option.values or _INTEGER.match(value)):
        return OK
    if option.values and option.takes != "integer":
        parts = value.split(",") if option.repeat == "append" else [value]
        synonyms = TRUTHY + FALSEY if {"on", "off"} <= set(option.values) else ()
        bad = [part for part in parts if part not in option.values + synonyms]
        if not bad:
            return OK
        if all(known.isdigit() for known in option.values) and (head := re.match(r"\d+", bad[0])):
            return ValueReading.OTHER_MEANING, f"only the digits at its start are read: it counts as {head[0]}"
        return ValueReading.NOT_ACCEPTED, f"`{bad[0]}` is none of {', '.join(option.values)}"
    words = list(option.values) or _NAMED.findall(option.about)
    if option.takes == "integers":
        bad = [part for part in value.split(",") if not _RANGE.match(part)]
        return (ValueReading.NOT_ACCEPTED, f"`{bad[0]}` is neither an integer nor a range of them") if bad else OK
    if option.hint in _NUMBERS or (option.hint == "value" and option.takes == "integer"):
        if _INTEGER.match(value) or value in words:
            return OK
        if _NUMBER.match(value) and option.takes != "integer":
            return (ValueReading.OK, "") if option.takes == "number" or "." in option.default else UNKNOWN
        head = re.match(r"[+-]?\d+", value)
        if head:
            return ValueReading.OTHER_MEANING, f"only the digits at its start are read: it counts as {head[0]}"
        also = f" or {', '.join(words)}" if words else ""
        return ValueReading.NOT_ACCEPTED, f"`{value}` is no number{also}"
    if option.hint in _SHARES:
        bad = [part for part in re.split(r"[,/;]", value) if not _NUMBER.match(part)]
        if bad and (head := re.match(r"\d+(\.\d+)?", bad[0])):
            return ValueReading.OTHER_MEANING, f"only the number at the start of `{bad[0]}` is read: {head[0]}"
        return (ValueReading.NOT_ACCEPTED, f"`{bad[0]}` is no number") if bad else OK
    return UNKNOWN


def argument_env(item: Item, option: Option, negative: bool) -> Answer:
    """The value of a LLAMA_ARG_* variable: it goes through the handler of its flag (common/arg.cpp:786-810)."""
    if negative:
        if item.value in _LOOKS_NO:
            return ValueReading.OTHER_MEANING, "set at all means off, whatever the value: this text does not undo it"
        return OK
    if item.value is None:
        return UNKNOWN
    if option.takes_value:
        return against(item.value, option)
    if option.negatives:
        if item.value in TRUTHY + FALSEY:
            return OK
        return (
            ValueReading.NOT_ACCEPTED,
            f"`{item.value}` is neither yes nor no to llama.cpp, which stops with an error",
        )
    if item.value in TRUTHY:
        return OK
    return ValueReading.NO_EFFECT, f"only {', '.join(TRUTHY)} switch it on; `{item.value}` is passed over"


def listed(row: OptionRow | None) -> tuple[str, ...]:
    """The values that a row lists one by one; empty where it describes them."""
    return tuple(part.strip() for part in row.values.split("|")) if row is not None and "|" in row.values else ()


def variable(item: Item, row: OptionRow, targets: AbstractSet[str] = frozenset()) -> Answer:
    """The value of an environment variable by the way its reader takes it. `targets` are the GPU targets that ROCm
    has ever had a name for (`gfx906`)."""
    value = item.value
    if value is None:
        return None, "the value is only known when the recipe runs, and lint runs nothing" if item.dynamic else ""
    accepted = listed(row)
    kind = row.semantics
    if kind is Semantics.PRESENCE:
        return presence(value)
    if kind is Semantics.ATOI:
        if not _INTEGER.match(value):
            return ValueReading.OTHER_MEANING, f"`{value}` is no number and counts as 0"
        return (ValueReading.OK, "") if not accepted or value in accepted else _not_in(value, accepted)
    if kind is Semantics.INTEGER:
        if not re.match(r"[+-]?(0x[0-9a-fA-F]+|\d+)\Z", value):
            return ValueReading.NOT_ACCEPTED, f"`{value}` is no number"
        return _default(value, row)
    if kind is Semantics.ONE:
        return OK if value == "1" else (ValueReading.NO_EFFECT, f"only 1 switches it on, not `{value}`")
    if kind is Semantics.BOOL:
        return _bool(value, row)
    if kind is Semantics.ENUM and accepted:
        return OK if value in accepted else _not_in(value, accepted)
    if kind is Semantics.WORDS and accepted:
        bad = [word for word in value.split(",") if word not in accepted]
        known = f"`{bad[0]}` is no word of it in any release that was read, and is passed over" if bad else ""
        return (ValueReading.OTHER_MEANING, known) if bad else OK
    if kind is Semantics.DURATION:
        fine = _INTEGER.match(value) or _DURATION.match(value)
        return OK if fine else (ValueReading.NO_EFFECT, f"`{value}` is no duration to Go, and the default stays")
    if kind is Semantics.INDICES:
        return indices(value, row)
    if kind is Semantics.GFX:
        return gfx(value, targets)
    return UNKNOWN


def presence(value: str) -> Answer:
    """A variable that is only tested for being there."""
    if value.lower() in _LOOKS_NO:
        shown = f"`{value}`" if value else "the empty text"
        return (
            ValueReading.OTHER_MEANING,
            f"{shown} switches it ON: only being set counts; remove the line to turn it off",
        )
    return OK


def _bool(value: str, row: OptionRow) -> Answer:
    if row.owner == "ollama":
        if value in _PARSE_BOOL or value.lower() in ("yes", "y", "on", "enable", "enabled"):
            return _default(value, row)
        if value == "":
            return None, "an empty value counts as unset"
        return ValueReading.OTHER_MEANING, f"Ollama takes a text that is no boolean to Go, such as `{value}`, as true"
    if row.owner == "rocr" and value not in ("0", "1"):
        return ValueReading.NO_EFFECT, f"ROCr compares with 0 and 1 only: `{value}` counts as not set"
    if value.lower() in ("0", "1", "true", "false", "t", "f", "yes", "no", "on", "off"):
        return _default(value, row)
    return ValueReading.NOT_ACCEPTED, f"`{value}` is neither 0 nor 1"


def _default(value: str, row: OptionRow) -> Answer:
    if value == row.default and value:
        return ValueReading.NO_EFFECT, f"{value} is the default already"
    return OK


def _not_in(value: str, accepted: tuple[str, ...]) -> Answer:
    return ValueReading.NOT_ACCEPTED, f"`{value}` is none of {', '.join(accepted)}"


def indices(value: str, row: OptionRow) -> Answer:
    """Device lists."""
    parts = value.split(",")
    vulkan = row.name == "GGML_VK_VISIBLE_DEVICES"
    if value == "":
        return (ValueReading.OK, "") if vulkan else (None, "an empty list is taken as unset by some readers")
    if vulkan and value.startswith("-"):
        return (
            ValueReading.OTHER_MEANING,
            "it is parsed as a huge index, which is invalid, and the whole backend is dropped: off, by accident",
        )
    bad = [part for part in parts if not re.match(r"-?\d+\Z|GPU-[0-9a-fA-F-]+\Z", part.strip())]
    if bad:
        return ValueReading.NOT_ACCEPTED, f"`{bad[0]}` is no index" + ("" if vulkan else " and no GPU-<uuid>")
    if len(set(parts)) < len(parts):
        return ValueReading.NOT_ACCEPTED, "an index stands there twice"
    return OK


def gfx(value: str, targets: AbstractSet[str] = frozenset()) -> Answer:
    """HSA_OVERRIDE_GFX_VERSION: MAJOR.MINOR.STEPPING in decimal (ROCr, libhsakmt/src/topology.c)."""
    if _GFX.match(value):
        target = named_target(value)
        if targets and target not in targets:
            return ValueReading.OTHER_MEANING, f"it names {target}, which is no target: the numbers are decimal"
        return OK
    if value.startswith("gfx"):
        return ValueReading.NOT_ACCEPTED, f"`{value}` must be written as numbers with points, such as 9.0.6"
    return ValueReading.NOT_ACCEPTED, f"`{value}` is not MAJOR.MINOR.STEPPING in decimal numbers"


def named_target(value: str) -> str:
    """`gfx90a` for `9.0.10`: the two last numbers are digits of the name, in hexadecimal."""
    major, minor, stepping = (int(part) for part in value.split("."))
    return f"gfx{major}{minor:x}{stepping:x}"


def repaired(item: Item, row: OptionRow) -> str:
    """`HSA_OVERRIDE_GFX_VERSION=9.0.6` for `gfx906`: the two last characters are hexadecimal digits; else empty."""
    found = re.fullmatch(r"gfx(\d{1,2})([0-9a-f])([0-9a-f])", item.value or "")
    if row.semantics is not Semantics.GFX or not found:
        return ""
    return f"{item.name}={int(found.group(1))}.{int(found.group(2), 16)}.{int(found.group(3), 16)}"


def cmake(value: str | None, row: OptionRow | None, declared: str = "") -> Answer:
    """ON, OFF and what CMake takes for them (if(), CMake's reference). `declared` is the line of an `option()`."""
    if value is None:
        return UNKNOWN
    known = (
        row is not None and row.semantics is Semantics.CMAKE and not re.search(r"TARGETS|_ARCH|PATH|DIR", row.name)
    )
    if not known and not declared.startswith("option("):
        return UNKNOWN
    if value.upper() in _ON_OFF:
        return OK  # the default as well: the cache of a build folder keeps what was given before
    return ValueReading.NOT_ACCEPTED, f"`{value}` is neither ON nor OFF to CMake"
