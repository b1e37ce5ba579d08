"""What stands before a log line's own text, taken off in one place.

Forms of llama-server: none (to 2024 and with `--no-log-prefix`), `0.00.027.699 I ` (minutes, seconds, milli- and
microseconds since the start, and the level), `INFO [ function] text | key="value" number=1` (to mid 2024), one JSON
object a line (`--log-format json` of 2023-24, `--log-jsonl` from b10865). Before these may stand the date of a
program around llama.cpp (llama-box: `[2025-05-29 12:00:35.235720] I `) and the `> ` of a text that was quoted.
"""

from __future__ import annotations

import json

import msgspec

from stillruns.model.expression import Expression

_STAMP = Expression(r"(\d{1,6})\.(\d{2})\.(\d{3})\.(\d{3}) (?:([IWEDTC]) )?")
_DATE = Expression(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3,9}\] (?=[IWEDTC] )")
_LEVEL = Expression(r"([IWED]) (?=\S)")
_TABLE = Expression(r"(INFO|WARN|ERR|ERROR|VERB|DBG) \[\s{0,60}(\S{1,80})\] ")
_TABLE_NOISE = Expression(r' (?:tid="\w{0,40}"|timestamp=\d{1,20})(?= |\Z)')
_LEVELS = {"INFO": "I", "WARN": "W", "WARNING": "W", "ERR": "E", "ERROR": "E", "VERB": "D", "DBG": "D", "DEBUG": "D"}
_LETTERS = {"info": "I", "warn": "W", "error": "E", "debug": "D"}


class Stripped(msgspec.Struct, frozen=True):
    """`text` without its prefix; `seconds` since the server's start and `level` (I, W, E, D) where the line has them.
    `form` is plain, stamp, level, table or json."""

    text: str
    seconds: float | None = None
    level: str = ""
    form: str = "plain"


def strip(text: str) -> Stripped:
    """The line's own text and what its prefix said. Never fails: an unknown prefix stays part of the text."""
    first = text[:1]
    if first.isdigit():
        found = _STAMP.match(text)
        if found:
            minutes, seconds, milli, micro, level = found.groups()
            at = int(minutes) * 60 + int(seconds) + int(milli) / 1e3 + int(micro) / 1e6
            return Stripped(text[found.end() :], round(at, 6), level or "", "stamp")
    elif first == "[":
        found = _DATE.match(text)
        if found:
            return Stripped(text[found.end() + 2 :], None, text[found.end()], "level")
    elif text.startswith("> ") and not text.startswith("> > "):
        return strip(text[2:])
    elif first == "{":
        return _json(text)
    elif first.isupper():
        found = _TABLE.match(text)
        if found:
            rest = _TABLE_NOISE.sub("", text[found.end() :])
            return Stripped(f"{found[2]}: {rest}", None, _LEVELS[found[1]], "table")
        found = _LEVEL.match(text)
        if found:
            return Stripped(text[found.end() :], None, found[1], "level")
    return Stripped(text)


def _json(text: str) -> Stripped:
    """One JSON object as `function: message | key="value" ...`, so that the same rules read it."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return Stripped(text)
    if not isinstance(record, dict):
        return Stripped(text)
    message = record.get("msg", record.get("message"))
    if not isinstance(message, str):
        return Stripped(text)
    level = str(record.get("level", ""))
    inner = strip(message) if record.get("type") == "log" and not message.startswith("{") else Stripped(message)
    where = record.get("function")
    rest = [
        f"{key}={json.dumps(value, ensure_ascii=False)}"
        for key, value in record.items()
        if key not in ("msg", "message", "level", "function", "line", "tid", "timestamp", "type", "time")
    ]
    body = f"{where}: {inner.text}" if isinstance(where, str) else inner.text
    tail = " | " + " ".join(rest) if rest else ""
    letter = _LEVELS.get(level) or _LETTERS.get(level.lower(), "")
    return Stripped(body.replace("\n", " ") + tail, inner.seconds, letter, "json")
