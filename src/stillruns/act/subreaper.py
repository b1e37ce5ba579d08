"""The harness as the last parent: orphans of a launcher that was killed come to us, not to init.

prctl(2): PR_SET_CHILD_SUBREAPER = 36, PR_GET_CHILD_SUBREAPER = 37, Linux 3.4.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator

_SET, _GET = 36, 37
_lock = threading.Lock()
_depth = 0
_before = False


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def is_subreaper() -> bool:
    """Whether orphans below this process are given to it."""
    answer = ctypes.c_int(0)
    with contextlib.suppress(AttributeError):  # not Linux
        _libc().prctl(_GET, ctypes.byref(answer), 0, 0, 0)
    return bool(answer.value)


def _set(on: bool) -> None:
    with contextlib.suppress(AttributeError):
        _libc().prctl(_SET, int(on), 0, 0, 0)


@contextlib.contextmanager
def subreaper() -> Iterator[None]:
    """Be a subreaper inside the block; afterwards as before. Blocks may nest and overlap in threads."""
    global _depth, _before
    with _lock:
        if _depth == 0:
            _before = is_subreaper()
            _set(True)
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                _set(_before)
