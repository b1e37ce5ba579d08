"""Which release a build is, by its flags: many builds print `build 1` and no number that one could look up."""

from __future__ import annotations

import re

from stillruns.model.installed import Installed
from stillruns.model.option_row import Options, Status

_RANGE = re.compile(r"\(b(\d+), b(\d+)\]")
_REMOVED = re.compile(r"removed in \(b(\d+), b(\d+)\]")
_BUILD = re.compile(r"\b(?:build|version:?) (\d{4,6})\b")


def infer(engine: Installed, options: Options) -> str:
    """`b11669` where the version text has a number, else `b10108 .. b10878, by its flags`; empty: nothing tells."""
    said = _BUILD.search(engine.version)
    if said:
        return f"b{said.group(1)}"
    if not engine.options or not engine.program.startswith("llama-"):
        return ""
    low, high = 0, 10**9
    names = {name for option in engine.options for name in option.names}
    for row in options.rows:
        if row.kind != "flag" or not row.name.startswith("-"):
            continue
        came, went = _RANGE.search(row.since), _REMOVED.search(row.until)
        if row.name in names:
            if came:
                low = max(low, int(came.group(1)) + 1)
            if went:
                high = min(high, int(went.group(2)) - 1)
        elif row.status is Status.CURRENT and came and engine.program == "llama-server":
            high = min(high, int(came.group(2)) - 1)
        elif went and engine.program == "llama-server":
            low = max(low, int(went.group(1)) + 1)
    if low > high or (low == 0 and high == 10**9):
        return ""
    left = f"b{low} or newer" if high == 10**9 else f"b{low} .. b{high}" if low else f"b{high} or older"
    return f"{left}, by its flags"
