"""What kind of weights each load in an Ollama log brought: the line that its ggml backend prints about the file.

    level=INFO source=ggml.go:136 msg="" architecture=qwen35 file_type=Q8_0 name="" ...

Read from real journals of Ollama 0.17; the old llama runner prints `print_info: file type   = Q4_K - Medium` instead.
"""

from __future__ import annotations

import re

from stillruns.normalise.logs.envelope import open_line
from stillruns.normalise.logs.prefix import strip
from stillruns.normalise.logs.reader import lines

_ENGINE = re.compile(r' msg="" architecture=[\w.-]{1,40} file_type=(?P<type>[\w.-]{1,40})(?: |$)')
_RUNNER = re.compile(
    r"^(?:print_info: file type|llm_load_print_meta: model ftype)\s+= (?:\(guessed\) |mostly )?"
    r"(?P<type>[A-Z0-9_]{2,12})(?:[ ,]|$)"
)


def file_types(data: bytes) -> tuple[tuple[int, str], ...]:
    """(line number, type of the weights) of each such line, in order; empty for a log without."""
    found = []
    for line in lines(data):
        kind = file_type(strip(open_line(line.text).text).text)
        if kind:
            found.append((line.number, kind))
    return tuple(found)


def file_type(text: str) -> str:
    """What one line without its prefix says; empty for another line."""
    match = _ENGINE.search(text) or _RUNNER.search(text)
    return match["type"] if match else ""
