"""The signature of a crash: equal crashes have equal signatures across machines."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from stillruns.model.expression import Expression
from stillruns.model.server_log import Frame

_NUMBERS = Expression(r"0x[0-9a-fA-F]{1,16}|\d+")
_PATH = Expression(r"(?:[A-Za-z]:)?(?:[/\\][\w.+@-]{1,100}){2,20}")
_UNKNOWN = ("??", "n/a", "")

SYSTEM = (
    "raise",
    "abort",
    "gsignal",
    "__pthread_kill",
    "pthread_kill",
    "__GI_",
    "__restore_rt",
    "<signal handler",
    "wait4",
    "__wait4",
    "waitpid",
    "clone",
    "__clone",
    "start_thread",
    "__libc_start",
    "_start",
    "main",
    "std::terminate",
    "std::unexpected",
    "__cxxabiv1",
    "__cxa_throw",
    "__cxa_rethrow",
    "__gxx_",
    "_Unwind",
    "ggml_print_backtrace",
    "ggml_abort",
    "ggml_uncaught_exception",
    "runtime.",
    "syscall.",
    "created by",
)
"""Frames that say how a process dies, not where: they do not enter a signature."""


REPORTERS: tuple[str, ...] = (
    *("ggml_print_backtrace", "ggml_abort", "ggml_uncaught_exception", "ggml_cuda_error", "std::terminate"),
    *("std::unexpected", "__cxa_throw", "__cxa_rethrow", "abort", "__GI_abort", "raise", "__GI_raise"),
)
"""What stands inside of one of these, named or not, is only how the death was told."""
_INNERMOST = 16


def telling(frames: Iterable[Frame]) -> tuple[Frame, ...]:
    """The frames that say where: without libc's, the C++ runtime's and ggml's own way of dying."""
    frames = tuple(frames)
    inside = max((i for i, f in enumerate(frames[:_INNERMOST]) if f.function in REPORTERS), default=-1)
    frames = frames[inside + 1 :]
    return tuple(
        f
        for f in frames
        if (f.function not in _UNKNOWN or f.module) and not any(f.function.startswith(s) for s in SYSTEM)
    )


def signature(signal: str | None, frames: Iterable[Frame], key_line: str = "") -> str | None:
    """`sig1:` and 16 hex digits over the signal and the top five telling frames; without frames, over the key line
    with numbers, addresses and paths replaced. None when there is neither."""
    names = [f.function if f.function not in _UNKNOWN else f.module for f in telling(frames)][:5]
    if names:
        body = "\n".join([signal or "-", *names])
    elif key_line:
        body = "\n".join([signal or "-", _NUMBERS.sub("N", _PATH.sub("P", key_line))])
    else:
        return None
    return "sig1:" + hashlib.sha256(body.encode("utf-8", "replace")).hexdigest()[:16]
