"""The `system_info` line of a llama.cpp binary: which CPU features it was built for."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PAIR = re.compile(r"([A-Za-z0-9_ ]{1,40}?) = ([^|]{0,200}?) *\Z")


def features(line: str) -> dict[str, str]:
    """`CPU : SSE3 = 1 | AVX2 = 1 | CUDA : ARCHS = 610 | ...` -> {"SSE3": "1", "AVX2": "1", "CUDA.ARCHS": "610"}.

    Features of the CPU backend keep their bare names, in the older lists (`AVX = 1 | AVX2 = 1`, no backend named)
    too; those of other backends get theirs in front. What stands before the first feature (`n_threads = 2 / 4`) is
    left out; where nothing does (`system_info: CUDA : ARCHS = 610`, llama-box), nothing is. Empty for a line of
    another form.
    """
    found: dict[str, str] = {}
    line = line.replace('system_info="', "|", 1)  # the server's own form of early 2024
    backend = "CPU"
    head, *segments = line.split("|")
    first = head.partition("system_info: ")[2]
    for segment in [first, *segments] if " : " in first else segments:
        name, colon, rest = segment.partition(" : ")
        if colon:
            backend, segment = name.strip(), rest
        pair = _PAIR.match(segment.strip())
        if pair:
            key = pair[1].strip()
            found[key if backend == "CPU" else f"{backend}.{key}"] = pair[2].strip()
    return found


_ENGINE = re.compile(r" CPU\.\d{1,2}\.([A-Za-z0-9_]{1,40})=(\S{1,40})")


def engine_features(line: str) -> dict[str, str]:
    """`msg=system CPU.0.SSE3=1 CPU.1.LLAMAFILE=1 compiler=cgo(gcc)`, as Ollama's engine prints it -> the CPU's
    features. Empty for a line of another form."""
    return dict(_ENGINE.findall(line)) if "msg=system " in line else {}


def cpu_path(features: Mapping[str, str]) -> str | None:
    """The code path of the CPU backend: its features that are on, by name; None where none is told. Those of other
    backends (`CUDA.USE_GRAPHS`) come with the backend and are no part of it."""
    return " ".join(sorted(k for k, v in features.items() if v == "1" and "." not in k)) or None
