"""What a log tells of the program and of the model besides what its grammar reads: the lines that make a condition.

    common_params_print_info: build 10435 (c0ffee1) with GNU 13.3.0 for Linux x86_64     the compiler
    system_info: n_threads = 16 / 16 | CPU : SSE3 = 1 | AVX2 = 1 | ...                   the CPU's code path
    msg=system CPU.0.SSE3=1 CPU.0.AVX2=1 CPU.1.LLAMAFILE=1 compiler=cgo(gcc)             Ollama's engine (v0.17.4,
                                                                                         ml/backend/ggml/ggml/src/ggml.go)
    print_info: arch = llama | file type = Q8_0 | general.name = tiny                    the model

In a log with time stamps each line of the program has one; a line without is the rest of a text of several lines (a
model's name, a chat template), which can say anything, and tells nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from stillruns.normalise import system_info
from stillruns.normalise.logs.envelope import open_line
from stillruns.normalise.logs.ollama_model import file_type
from stillruns.normalise.logs.prefix import strip
from stillruns.normalise.logs.reader import lines, visible

_META = r"^(?:print_info|llm_load_print_meta): "
_FORMS = {
    "compiler": re.compile(
        r"(?:common_params_print_info: build |^build: |^main: build = )\d+ \(\w+\) with (?P<v>.{1,120})$"
    ),
    "architecture": re.compile(_META + r"arch\s+= (?P<v>[\w.-]{1,60})$"),
    "model": re.compile(_META + r"general\.name\s+= (?P<v>.{1,200})$"),
}
_MARKS = (
    " with ",
    "print_info: ",
    "print_meta: ",
    "system info ",
    "msg=system ",
    "system_info: ",
    "file_type=",
)
"""A line without any of these tells nothing."""
_FEATURES = ("system_info: n_threads = ", "system info | n_threads=", "msg=system ")
NAMES = ("compiler", "cpu path", "quantisation", "architecture", "model")
"""What `read` may tell."""
PER_LOAD = ("quantisation", "architecture", "model")
"""Those that belong to one load; the others belong to the process."""


class Told(NamedTuple):
    """One value: `line` is its line from 1, `name` one of NAMES, `value` safe to print."""

    line: int
    name: str
    value: str


def read(data: bytes) -> tuple[Told, ...]:
    """Every such value of a log, in the order of its lines; empty for a log without."""
    found: list[Told] = []
    stamped = False
    for line in lines(data):
        stripped = strip(open_line(line.text).text)
        stamped = stamped or stripped.form == "stamp"
        if line.torn or (stamped and stripped.form == "plain" and "source=" not in stripped.text):
            continue
        for name, value in _values(stripped.text) if any(mark in stripped.text for mark in _MARKS) else ():
            found.append(Told(line.number, name, visible(value.strip())))
    return tuple(t for t in found if t.value)


def _values(text: str) -> list[tuple[str, str]]:
    found = [(name, match["v"]) for name, form in _FORMS.items() if (match := form.search(text))]
    if any(mark in text for mark in _FEATURES):
        path = system_info.cpu_path(system_info.features(text) or system_info.engine_features(text))
        found += [("cpu path", path)] if path else []
    kind = file_type(text)
    return [*found, ("quantisation", kind)] if kind else found


def at(told: Sequence[Told], name: str, start: int, starts: Sequence[int], processes: int) -> str | None:
    """The value of the load that begins at line `start`, in a log of `processes` processes whose loads begin at the
    lines `starts` (this one among them); None where no line of its own says it.

    What belongs to a load follows its first line, before the next load's. What belongs to a process may stand before:
    there the last line counts, unless some process of the log does not say it.
    """
    mine = [t for t in told if t.name == name]
    if len(starts) == 1 and processes == 1 and len({t.value for t in mine}) == 1:
        return mine[0].value
    end = min((line for line in starts if line > start), default=None)
    following = [t.value for t in mine if t.line >= start and (end is None or t.line < end)]
    if name in PER_LOAD:
        return following[0] if following else None
    if len(mine) < processes:
        return None
    before = [t.value for t in mine if t.line < start]
    return before[-1] if before else following[0] if following else None
